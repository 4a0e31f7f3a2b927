# The Python that the module is built for and whose pyspark the jar is compiled against: the project's own
# virtual environment where there is one, else what the caller or CMake finds.
set(_lwmq_venv "${LWMQ_ROOT}/.venv/bin/python")
if(NOT Python3_EXECUTABLE AND NOT DEFINED SKBUILD AND EXISTS "${_lwmq_venv}")
  set(Python3_EXECUTABLE "${_lwmq_venv}" CACHE FILEPATH "Python to build for")
endif()
find_package(Python3 3.11 COMPONENTS Interpreter Development.Module)
