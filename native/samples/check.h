/* What the samples do with a failure: say where and why, and end. */
#ifndef LWMQ_SAMPLE_CHECK_H
#define LWMQ_SAMPLE_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include "lwmq/lwmq.h"

#define CHECK(call)                                                                         \
  do {                                                                                      \
    const lwmq_status status_ = (call);                                                     \
    if (status_ == LWMQ_E_TIMED_OUT) {                                                      \
      fprintf(stderr, "%s: the time was over: is the other end there?\n", #call);           \
      exit(1);                                                                              \
    }                                                                                       \
    if (status_ != LWMQ_OK) {                                                               \
      fprintf(stderr, "%s: %s: %s\n", #call, lwmq_status_name(status_), lwmq_last_error()); \
      exit(1);                                                                              \
    }                                                                                       \
  } while (0)

#endif
