# What tests/stress runs: a driver on lwmq.h, beside a library with yield points.
if(LWMQ_YIELD_POINTS)
  add_executable(stress_driver "${LWMQ_ROOT}/tests/stress/driver.cc")
  target_link_libraries(stress_driver PRIVATE lwmq lwmq_warnings Threads::Threads)
endif()
