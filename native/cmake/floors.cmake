# One OBJECT library per floor folder of src/. Objects, not archives: an archive would drop the providers, which
# nobody refers to by name. A folder that is still empty is passed over.
set(LWMQ_FLOORS base os stats queue wire message tli codec store modules lane filters address providers scheduler
                reliability service conversation channel patterns stream abi)
set(LWMQ_FLOOR_TARGETS "")

foreach(floor IN LISTS LWMQ_FLOORS)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/${floor}/*.cc"
                                              "${CMAKE_CURRENT_SOURCE_DIR}/src/${floor}/*.c")
  if(NOT sources)
    continue()
  endif()
  add_library(lwmq_floor_${floor} OBJECT ${sources})
  target_link_libraries(lwmq_floor_${floor} PRIVATE lwmq_core_flags lwmq_warnings)
  list(APPEND LWMQ_FLOOR_TARGETS ${floor})
endforeach()

# What applications make, and what grows with it, is built of the library's containers: where memory is short
# these throw, up to the C face (abi/memory.h). What moves messages allocates without, and has no landing pads.
foreach(unit abi/channel_abi abi/listener_abi abi/lwmq abi/observer_abi abi/requests_abi abi/router_abi
             abi/selector_abi address/options channel/channel conversation/conversation conversation/peers
             conversation/settings filters/filters filters/settings modules/find patterns/listener patterns/requests
             patterns/router patterns/selector providers/ipc/address providers/ipc/provider reliability/merge
             service/service_thread stats/observer stats/page tli/host tli/registry tli/tables)
  set_source_files_properties("${CMAKE_CURRENT_SOURCE_DIR}/src/${unit}.cc" PROPERTIES COMPILE_OPTIONS
                                                                                      -fexceptions)
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
