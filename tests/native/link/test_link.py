"""What the linker decides: which providers there are, and that the transport layer needs nothing above it.

Links raw_talk.cc, beside this file, with the objects of some floors of build/dev, as CMake made them.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).parent
TOY = ROOT / "native" / "samples" / "module" / "toy_provider.c"
OBJECTS = ROOT / "build" / "dev" / "CMakeFiles"
INCLUDE = [f"-I{ROOT / 'native' / 'include'}", f"-I{ROOT / 'native' / 'src'}"]
OF_TRANSPORTS = ["tli", "modules", "lane", "filters", "address"]
TRANSPORT_LAYER = ["base", "os", "stats", "queue", "store", *OF_TRANSPORTS]


def _floor(name: str) -> list[Path]:
    """The objects of a floor; a build that is older than a move may have others, which have no source."""
    folder = OBJECTS / f"lwmq_floor_{name}.dir"
    sources = ROOT / "native"
    return sorted(
        path for path in folder.rglob("*.o") if (sources / path.relative_to(folder)).with_suffix("").exists()
    )


def _provider(name: str) -> list[Path]:
    return [path for path in _floor("providers") if path.parent.name == name]


def _run(command: list[object]) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The program, and a provider that an outsider wrote in C11 from lwmq_tli.h alone."""
    folder = tmp_path_factory.mktemp("link")
    made = {"talk": folder / "raw_talk.o", "toy": folder / "toy_provider.o", "folder": folder}
    _run(["g++", "-std=c++20", "-O1", *INCLUDE, "-c", HERE / "raw_talk.cc", "-o", made["talk"]])
    strict = ["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1"]
    _run(["gcc", *strict, INCLUDE[0], "-c", TOY, "-o", made["toy"]])
    return made


def _talk(
    compiled: dict[str, Path], objects: list[Path], *addresses: str
) -> subprocess.CompletedProcess[str]:
    program = compiled["folder"] / "talk"
    layer = [path for floor in TRANSPORT_LAYER for path in _floor(floor)]
    assert layer, "build/dev holds no objects: make dev"
    # Sections that nobody refers to are dropped, as a release build may do: the registry must survive that.
    _run(["g++", "-Wl,--gc-sections", compiled["talk"], *layer, *objects, "-lpthread", "-ldl", "-o", program])
    return subprocess.run([program, *addresses], capture_output=True, text=True, timeout=60)


@pytest.mark.row("L06")
def test_raw_transports_work_with_the_queueing_layer_unlinked(compiled: dict[str, Path]) -> None:
    ran = _talk(compiled, _provider("loop"), "loop://raw")
    assert ran.returncode == 0, ran.stdout
    assert ran.stdout.splitlines() == ["providers: loop", "loop://raw: raw bytes"]


@pytest.mark.row("L08")
def test_a_scheme_vanishes_with_its_object_file_and_nothing_else_changes(compiled: dict[str, Path]) -> None:
    with_both = _talk(compiled, _provider("loop") + _provider("ipc"), "loop://raw")
    assert with_both.returncode == 0, with_both.stdout
    assert set(with_both.stdout.splitlines()[0].split()[1:]) == {"loop", "ipc"}
    without = _talk(compiled, _provider("loop"), "loop://raw", "ipc://gone")
    assert "loop://raw: raw bytes" in without.stdout
    assert "no provider claims this scheme; there are: loop" in without.stdout
    none = _talk(compiled, [], "loop://raw")
    assert none.stdout.splitlines()[0] == "providers:"


@pytest.mark.row("L09")
@pytest.mark.row("K53")
@pytest.mark.row("Z15")
def test_a_provider_written_in_c_from_the_public_header_is_added_by_linking_it(
    compiled: dict[str, Path],
) -> None:
    ran = _talk(compiled, [*_provider("loop"), compiled["toy"]], "toy://box", "loop://raw")
    assert ran.returncode == 0, ran.stdout
    assert set(ran.stdout.splitlines()[0].split()[1:]) == {"loop", "toy"}
    assert "toy://box: raw bytes" in ran.stdout


@pytest.mark.row("L10")
def test_the_objects_of_the_transport_layer_name_no_provider() -> None:
    found = []
    objects = [path for floor in OF_TRANSPORTS for path in _floor(floor)]
    for path in objects:
        text = subprocess.run(["strings", "-a", path], capture_output=True, text=True, timeout=60).stdout
        symbols = subprocess.run(["nm", "-C", path], capture_output=True, text=True, timeout=60).stdout
        for scheme in ("ipc", "tcp", "rdma", "vsock", "pgm"):
            found += [f"{path.name}: {scheme}://" for line in text.splitlines() if f"{scheme}://" in line]
            found += [f"{path.name}: {line}" for line in symbols.splitlines() if f"lwmq::{scheme}::" in line]
        found += [f"{path.name}: {line}" for line in symbols.splitlines() if "lwmq::loop::" in line]
    assert objects
    assert not found, "\n".join(found)
