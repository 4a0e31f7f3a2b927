# lwmq_spark/_native: C written by cffi from the marked part of lwmq.h, compiled here, linked against liblwmq.so,
# which it finds in _lib beside itself.
include(python)
if(NOT Python3_Development.Module_FOUND)
  message(STATUS "lwmq: no Python 3.11 headers, _native is not built")
  return()
endif()

set(_generator "${LWMQ_ROOT}/lwmq_spark/_build_native.py")
set(_generated "${CMAKE_CURRENT_BINARY_DIR}/_native.c")
add_custom_command(
  OUTPUT "${_generated}"
  COMMAND "${Python3_EXECUTABLE}" "${_generator}" "${CMAKE_CURRENT_SOURCE_DIR}/include/lwmq/lwmq.h" "${_generated}"
  DEPENDS "${_generator}" "${CMAKE_CURRENT_SOURCE_DIR}/include/lwmq/lwmq.h"
  COMMENT "cffi: lwmq.h -> _native.c"
  VERBATIM)
Python3_add_library(_native MODULE WITH_SOABI "${_generated}")
target_link_libraries(_native PRIVATE lwmq)
# Python.h reads limited-API macros that cffi sets; everything else in the file is generated.
target_compile_options(_native PRIVATE -Wno-missing-field-initializers -Wno-unused-parameter)
set_target_properties(_native PROPERTIES INSTALL_RPATH "$ORIGIN/_lib")
install(TARGETS _native LIBRARY DESTINATION lwmq_spark)

# lwmq_spark/_native_messages: what is done once per message, without cffi.
Python3_add_library(_native_messages MODULE WITH_SOABI "${CMAKE_CURRENT_SOURCE_DIR}/src/python/messages.c"
                    "${CMAKE_CURRENT_SOURCE_DIR}/src/python/turns.c")
target_link_libraries(_native_messages PRIVATE lwmq lwmq_warnings)
target_compile_options(_native_messages PRIVATE -Wno-missing-field-initializers -fno-strict-aliasing)
set_target_properties(_native_messages PROPERTIES INSTALL_RPATH "$ORIGIN/_lib")
install(TARGETS _native_messages LIBRARY DESTINATION lwmq_spark)
