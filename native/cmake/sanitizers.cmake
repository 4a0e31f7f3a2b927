# LWMQ_SANITIZE=address,undefined or thread: for everything that is built.
set(LWMQ_SANITIZE "" CACHE STRING "sanitizers for all targets, as -fsanitize= takes them")
if(LWMQ_SANITIZE)
  add_compile_options(-fsanitize=${LWMQ_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${LWMQ_SANITIZE})
  if(LWMQ_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize=vptr)  # needs RTTI, which the core does without
  endif()
  if(LWMQ_SANITIZE MATCHES "thread")
    # gcc says of every standalone fence that TSan does not model it; the tests know which meetings have one.
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-tsan>)
  endif()
endif()
