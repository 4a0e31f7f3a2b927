# One OBJECT library per floor folder of src/. Objects, not archives: an archive would drop the providers, which
# nobody refers to by name. A folder that is still empty is passed over.
set(LWMQ_FLOORS base os stats queue wire message tli codec store modules lane sockets filters address providers
                scheduler reliability service conversation channel stream patterns abi)
set(LWMQ_FLOOR_TARGETS "")

# Exceptions are on or off for a whole folder. One exception matters: std::bad_alloc, which containers throw if memory
# is short. RTTI is off everywhere.
#
#   on    Folders whose containers grow with what an application makes: channels, queues, listeners, options, filters.
#         The exception passes their destructors and ends in the C face, which returns LWMQ_E_NO_MEMORY
#         (abi/memory.h).
#   off   Folders that move bytes and messages (base to scheduler): they allocate with new (std::nothrow) and return
#         a status, so landing pads would only make them larger. And `stream`, whose containers change together in
#         steps that cannot be undone halfway: a refused allocation ends the process.
set(LWMQ_FLOORS_WITH_EXCEPTIONS stats tli modules sockets filters address providers reliability service conversation
                                channel patterns abi)

foreach(floor IN LISTS LWMQ_FLOORS)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/${floor}/*.cc"
                                              "${CMAKE_CURRENT_SOURCE_DIR}/src/${floor}/*.c")
  if(NOT sources)
    continue()
  endif()
  add_library(lwmq_floor_${floor} OBJECT ${sources})
  target_link_libraries(lwmq_floor_${floor} PRIVATE lwmq_core_flags lwmq_warnings)
  if(floor IN_LIST LWMQ_FLOORS_WITH_EXCEPTIONS)
    target_compile_options(lwmq_floor_${floor} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fexceptions>)
  else()
    target_compile_options(lwmq_floor_${floor} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions>)
  endif()
  list(APPEND LWMQ_FLOOR_TARGETS ${floor})
endforeach()

# Links the objects of the given floors (all where none is given) into `target`.
function(lwmq_link_floors target)
  set(floors ${ARGN})
  if(NOT floors)
    set(floors ${LWMQ_FLOOR_TARGETS})
  endif()
  foreach(floor IN LISTS floors)
    if(TARGET lwmq_floor_${floor})
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:lwmq_floor_${floor}>)
    endif()
  endforeach()
  target_link_libraries(${target} PRIVATE lwmq_headers)
endfunction()
