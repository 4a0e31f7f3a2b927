# What every target starts from. RelWithDebInfo keeps assertions: it is the build we develop and test with.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Release or RelWithDebInfo" FORCE)
endif()
# Line tables and function names are enough for back traces and profiles, and a quarter cheaper to build than -g.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O3 -DNDEBUG")
# One message passes a dozen small functions of as many files: a release is linked as one.
include(CheckIPOSupported)
check_ipo_supported(RESULT LWMQ_HAS_IPO OUTPUT ignored)
set(CMAKE_INTERPROCEDURAL_OPTIMIZATION_RELEASE ${LWMQ_HAS_IPO})

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(LWMQ_CCACHE ccache)
if(LWMQ_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER "${LWMQ_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${LWMQ_CCACHE}")
endif()

find_package(Threads REQUIRED)

# Include roots and flags of the core. Tests take the include roots alone: GoogleTest wants exceptions.
add_library(lwmq_headers INTERFACE)
target_include_directories(lwmq_headers INTERFACE "${CMAKE_CURRENT_SOURCE_DIR}/include"
                                                  "${CMAKE_CURRENT_SOURCE_DIR}/src")
target_compile_definitions(lwmq_headers INTERFACE _GNU_SOURCE LWMQ_VERSION="${PROJECT_VERSION}")
target_link_libraries(lwmq_headers INTERFACE Threads::Threads)

# No vectors across straight-line code: what small structures are written by as two words and read by as one of
# twice the size is not forwarded, and the reader waits until the store has left for the cache, some 5 ns in
# the middle of each hand-over. Loops keep theirs.
add_library(lwmq_core_flags INTERFACE)
target_compile_options(lwmq_core_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti> -fno-strict-aliasing -fno-tree-slp-vectorize
  $<$<NOT:$<CONFIG:Release>>:-fno-omit-frame-pointer>)
target_link_libraries(lwmq_core_flags INTERFACE lwmq_headers)
