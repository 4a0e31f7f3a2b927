# make demo and make test do all the set-up themselves, on a bare Debian or Ubuntu machine with git, make and
# Python 3.11 or later. Second runs skip what is done. `make help` lists the targets.
#
#   PYTHON=python3.12   the interpreter that .venv is made from
#   PYTEST="..."        arguments for pytest, such as PYTEST="-k window tests/python"
#   WORKERS=1           how many processes run the tests; 3 unless said: some of them wait
#   LWMQ_SLOW=1         runs the tests marked slow, too

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
VENV := .venv/bin
BUILD := build/dev
WORKERS ?= 3
SLOW := $(filter 1,$(LWMQ_SLOW))
export PYTHON
# Nothing of the caller's may change what is tested.
unexport SPARK_HOME PYTHONPATH

# nbmake runs the notebooks as tests.
EVERYTHING := --nbmake --nbmake-timeout=500 tests notebooks

.PHONY: help demo test dev lint format tidy native-test sanitize bench wheels clean setup-demo setup-test setup-bench build test-build

help:  ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

demo: setup-demo build  ## streams 336,776 flights through Spark and back, live, and draws the result
	@$(VENV)/lwmq demo

test: setup-test build test-build  ## everything: lint, native, Java, Python, Spark, notebooks; what failed stands last
	@$(VENV)/python -m tests.suite --workers=$(WORKERS) --durations=10 $(or $(PYTEST),$(EVERYTHING))

dev: setup-test build  ## builds what changed and places it into lwmq_spark/, importable from .venv

setup-demo:
	@.ci/setup system
	@.ci/setup venv demo

setup-test:
	@.ci/setup system
	@.ci/setup venv demo test lint

# Optional: a rival that is not there is left out with a line that says so.
setup-bench:
	@.ci/setup rivals

# $(call configure,PRESET): once; a failure shows what CMake said.
configure = mkdir -p build; [ -e build/$(1)/build.ninja ] || { echo "== configuring build/$(1)"; \
	  cmake -S native --preset $(1) -DPython3_EXECUTABLE=$(CURDIR)/$(VENV)/python >build/$(1).log 2>&1 \
	  || { cat build/$(1).log; rm -f build/$(1)/build.ninja; exit 1; }; }

build:
	@$(call configure,dev)
	@.ci/stage "building the C++ core, the Python modules and the jar in $(BUILD)" cmake --build $(BUILD)
	@rm -rf $(BUILD)/placed && cmake --install $(BUILD) --prefix $(BUILD)/placed >/dev/null
	@$(VENV)/python .ci/place.py $(BUILD)/placed

# Those of a change that is not committed yet, too.
LIST_NATIVE_SOURCES := git ls-files -co --exclude-standard '*.cc' '*.h' '*.c'

# Whatever a test runs is built here, with its progress on the terminal: a test's time limit knows no compiler.
test-build:
	@.ci/stage "building the native tests, the Java tests and the libraries of the stress tests" \
	  cmake --build $(BUILD) --target native_tests java_tests stress
ifdef SLOW
	@! command -v clang++-14 >/dev/null || { $(call configure,fuzz) && \
	  .ci/stage "building the fuzz targets" cmake --build build/fuzz --target fuzzers; }
	@$(MAKE) wheels
endif

lint:  ## ruff, mypy, clang-format; quick
	@$(VENV)/ruff check --quiet lwmq_spark tests .ci
	@$(VENV)/mypy --no-error-summary
	@$(LIST_NATIVE_SOURCES) | xargs clang-format --dry-run -Werror
	@echo "lint: clean"

format:  ## rewrites the native sources as .clang-format says
	@$(LIST_NATIVE_SOURCES) | xargs clang-format -i

TIDY_BASE ?= HEAD~1
tidy: build  ## clang-tidy on the native sources that changed since TIDY_BASE
	@files=$$(git diff --name-only --diff-filter=d $(TIDY_BASE) -- 'native/src/*.cc'); \
	[ -z "$$files" ] || clang-tidy --quiet --extra-arg=-Wno-unknown-warning-option -p $(BUILD) $$files 2>/dev/null

native-test: setup-test build  ## the native tests alone, by ctest
	@.ci/stage "building the native tests" cmake --build $(BUILD) --target native_tests
	@cd $(BUILD) && ctest --output-on-failure -j2

sanitize: setup-test build  ## the native tests with ASan + UBSan, then with TSan; the Python tests with the first
	@for preset in asan tsan; do \
	  (cd native && cmake --preset $$preset -DPython3_EXECUTABLE=$(CURDIR)/$(VENV)/python >/dev/null \
	  && cmake --build --preset $$preset && ctest --preset $$preset) || exit 1; \
	done
	@.ci/sanitize-python

bench: setup-test setup-bench build  ## figures, each beside its floor and its rivals; JSON in build/bench/
	@$(VENV)/python -m tests.bench $(BENCH)

wheels: setup-test  ## dist/*.whl for Python 3.11 and later; installing it needs no compiler and no JDK
	@.ci/setup venv wheels
	@rm -rf build/wheelhouse dist/lwmq_spark-*.whl
	@.ci/stage "building the wheel, optimized across files" $(VENV)/python -m pip wheel -v --no-deps \
	  --no-build-isolation --disable-pip-version-check -w build/wheelhouse .
	@PATH="$(CURDIR)/$(VENV):$$PATH" .ci/stage "checking which systems the wheel runs on" \
	  $(VENV)/python -m auditwheel repair --wheel-dir dist build/wheelhouse/*.whl
	@ls dist/lwmq_spark-*.whl

clean:  ## removes what was built (not .venv)
	rm -rf build dist lwmq_spark/_{conf,include,jars,lib} lwmq_spark/_native*.so spark-warehouse metastore_db derby.log
