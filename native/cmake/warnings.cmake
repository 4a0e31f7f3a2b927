# Warnings, as errors where we build for ourselves (LWMQ_WERROR; a wheel built by a user turns it off).
option(LWMQ_WERROR "treat warnings as errors" ON)

add_library(lwmq_warnings INTERFACE)
target_compile_options(lwmq_warnings INTERFACE
  -Wall -Wextra -Wshadow -Wcast-align -Wundef -Wvla -Wformat=2 -Wimplicit-fallthrough -Wpointer-arith
  $<$<COMPILE_LANGUAGE:CXX>: -Woverloaded-virtual -Wextra-semi>
  $<$<BOOL:${LWMQ_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # gcc 12 at -O3 sees overlaps in std::string's own operator+ that cannot be.
  target_compile_options(lwmq_warnings INTERFACE -Wno-restrict)
endif()
