# The programs of samples/: plain C11, compiled from lwmq.h alone and linked with the library as a user's would be.
# Built with the native tests, which run them.
if(NOT TARGET native_tests)
  return()
endif()

file(GLOB _samples CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/samples/*.c")
foreach(source IN LISTS _samples)
  cmake_path(GET source STEM _name)
  add_executable(sample_${_name} EXCLUDE_FROM_ALL "${source}")
  target_link_libraries(sample_${_name} PRIVATE lwmq)
  target_compile_options(sample_${_name} PRIVATE -Wall -Wextra -Wpedantic -Werror -D_POSIX_C_SOURCE=200809L)
  set_target_properties(sample_${_name} PROPERTIES C_EXTENSIONS OFF
                                                   RUNTIME_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/samples")
  add_dependencies(native_tests sample_${_name})
endforeach()
