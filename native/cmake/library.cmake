# liblwmq.so: hidden symbols, a version script, its own libstdc++ inside, never unloaded (its service thread and
# thread-local data outlive a dlclose). What of libstdc++ nobody calls is left out: it would ask for arc4random of
# glibc 2.36. libgcc_s is the machine's own, as its unwinder would ask for glibc 2.35 inside of us.
function(lwmq_as_library target)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX LINK_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/lwmq.map")
  target_include_directories(${target} INTERFACE "${CMAKE_CURRENT_SOURCE_DIR}/include")
  target_link_options(${target} PRIVATE
    -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/lwmq.map -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now
    -Wl,--gc-sections -static-libstdc++)
  if(NOT LWMQ_SANITIZE)  # a sanitizer's symbols come with the executable
    target_link_options(${target} PRIVATE -Wl,--no-undefined)
  endif()
endfunction()

if(NOT LWMQ_FLOOR_TARGETS)
  message(FATAL_ERROR "no sources under ${CMAKE_CURRENT_SOURCE_DIR}/src")
endif()
add_library(lwmq SHARED)
lwmq_link_floors(lwmq)
lwmq_as_library(lwmq)
install(TARGETS lwmq LIBRARY DESTINATION lwmq_spark/_lib)
install(DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/include/lwmq" DESTINATION lwmq_spark/_include)
