# What tests/stress runs, under the target `stress`, in the folder stress/ of the build: a driver on lwmq.h, and the
# libraries with the yield points and planted bugs of base/yield_point.h. Only the floors named here know of these and
# are compiled once more; tests/tree/test_floors.py looks after the list.
set(LWMQ_YIELDING_FLOORS base os lane providers stream)
if(NOT LWMQ_TESTS OR DEFINED SKBUILD)
  return()
endif()

set(_stress "${CMAKE_CURRENT_BINARY_DIR}/stress")
add_library(lwmq_yielding SHARED EXCLUDE_FROM_ALL)
foreach(floor IN LISTS LWMQ_FLOOR_TARGETS)
  set(_objects lwmq_floor_${floor})
  if(floor IN_LIST LWMQ_YIELDING_FLOORS)
    set(_objects lwmq_yielding_${floor})
    get_target_property(_sources lwmq_floor_${floor} SOURCES)
    add_library(${_objects} OBJECT EXCLUDE_FROM_ALL ${_sources})
    target_link_libraries(${_objects} PRIVATE lwmq_core_flags lwmq_warnings)
    target_compile_definitions(${_objects} PRIVATE LWMQ_YIELD_POINTS)
  endif()
  target_sources(lwmq_yielding PRIVATE $<TARGET_OBJECTS:${_objects}>)
endforeach()
lwmq_as_library(lwmq_yielding)
set_target_properties(lwmq_yielding PROPERTIES OUTPUT_NAME lwmq LIBRARY_OUTPUT_DIRECTORY "${_stress}")

add_executable(stress_driver EXCLUDE_FROM_ALL "${LWMQ_ROOT}/tests/stress/driver.cc")
target_link_libraries(stress_driver PRIVATE lwmq_yielding lwmq_warnings Threads::Threads)
set_target_properties(stress_driver PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${_stress}")

add_custom_target(stress DEPENDS stress_driver)
if(TARGET lwmq_jni)  # finds its liblwmq.so beside itself
  add_custom_command(TARGET stress POST_BUILD COMMAND "${CMAKE_COMMAND}" -E copy_if_different
                                                      "$<TARGET_FILE:lwmq_jni>" "${_stress}" VERBATIM)
  add_dependencies(stress lwmq_jni)
endif()
