# The two extension modules of lwmq_spark. Both are written in Python's limited API as of 3.11, so that one build
# loads into 3.11 and every later version; both find liblwmq.so in _lib beside themselves.
include(python)
if(NOT Python3_Development.Module_FOUND)
  message(STATUS "lwmq: no Python 3.11 headers, _native is not built")
  return()
endif()

function(lwmq_add_python_module name)
  Python3_add_library(${name} MODULE ${ARGN})
  target_link_libraries(${name} PRIVATE lwmq)
  target_compile_definitions(${name} PRIVATE Py_LIMITED_API=0x030B0000)
  target_compile_options(${name} PRIVATE -Wno-missing-field-initializers)
  set_target_properties(${name} PROPERTIES SUFFIX ".abi3.so" INSTALL_RPATH "$ORIGIN/_lib")
  install(TARGETS ${name} LIBRARY DESTINATION lwmq_spark)
endfunction()

# lwmq_spark/_native: C written by cffi from the marked part of lwmq.h.
set(_generator "${LWMQ_ROOT}/lwmq_spark/_build_native.py")
set(_generated "${CMAKE_CURRENT_BINARY_DIR}/_native.c")
add_custom_command(
  OUTPUT "${_generated}"
  COMMAND "${Python3_EXECUTABLE}" "${_generator}" "${CMAKE_CURRENT_SOURCE_DIR}/include/lwmq/lwmq.h" "${_generated}"
  DEPENDS "${_generator}" "${CMAKE_CURRENT_SOURCE_DIR}/include/lwmq/lwmq.h"
  COMMENT "cffi: lwmq.h -> _native.c"
  VERBATIM)
lwmq_add_python_module(_native "${_generated}")
target_compile_options(_native PRIVATE -Wno-unused-parameter)  # of generated code

# lwmq_spark/_native_messages: what is done once per message, without cffi. The limited API calls a function where
# Python's own headers read a field, so calls go to Python directly instead of through the linkage table.
lwmq_add_python_module(_native_messages "${CMAKE_CURRENT_SOURCE_DIR}/src/python/messages.c"
                       "${CMAKE_CURRENT_SOURCE_DIR}/src/python/call_lock.c")
target_link_libraries(_native_messages PRIVATE lwmq_warnings)
target_compile_options(_native_messages PRIVATE -fno-strict-aliasing -fno-plt)
