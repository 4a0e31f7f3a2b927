// lwmq.h: routing tables.
#include <new>

#include "abi/handles.h"
#include "abi/memory.h"
#include "lwmq/lwmq.h"

using lwmq::patterns::Router;
using namespace lwmq::abi;  // the handles

extern "C" {

lwmq_status lwmq_router_create(lwmq_router** out_router) {
  LWMQ_REQUIRE(out_router != nullptr);
  return or_no_memory(__func__, [&] {
    *out_router = reinterpret_cast<lwmq_router*>(new Router);
    return LWMQ_OK;
  });
}

lwmq_status lwmq_router_add(lwmq_router* router, uint32_t frame, const char* pattern, const char* group,
                            lwmq_send_queue* queue) {
  LWMQ_REQUIRE_ALIVE(router, pattern != nullptr && queue != nullptr);
  LWMQ_NOT_FORKED();
  LWMQ_ALIVE(queue);
  return or_no_memory(__func__, [&] { return in(router)->add(frame, pattern, group, in(queue)); });
}

lwmq_status lwmq_router_remove(lwmq_router* router, uint32_t frame, const char* pattern, const char* group,
                               lwmq_send_queue* queue) {
  LWMQ_REQUIRE_ALIVE(router, pattern != nullptr && queue != nullptr);
  LWMQ_NOT_FORKED();
  LWMQ_ALIVE(queue);
  return or_no_memory(__func__, [&] { return in(router)->remove(frame, pattern, group, in(queue)); });
}

lwmq_status lwmq_router_forget(lwmq_router* router, const lwmq_send_queue* queue) {
  LWMQ_REQUIRE_ALIVE(router, queue != nullptr);
  LWMQ_NOT_FORKED();
  LWMQ_ALIVE(queue);
  in(router)->forget(in(queue));
  return LWMQ_OK;
}

lwmq_status lwmq_router_post(lwmq_router* router, lwmq_message** message, uint32_t* out_queues) {
  if (out_queues != nullptr) *out_queues = 0;
  LWMQ_REQUIRE_ALIVE(router, message != nullptr && *message != nullptr && out_queues != nullptr);
  LWMQ_NOT_FORKED();
  LWMQ_ALIVE(*message);
  const lwmq_status status =
      or_no_memory(__func__, [&] { return in(router)->post(in(*message), out_queues); });
  if (*out_queues > 0) *message = nullptr;
  return status;
}

void lwmq_router_destroy(lwmq_router* router) {
  if (router == nullptr) return;
  LWMQ_ALIVE(router);
  delete in(router);
}

}  // extern "C"
