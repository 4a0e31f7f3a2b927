// lwmq.h: requests and their replies.
#include "abi/handles.h"
#include "abi/memory.h"
#include "abi/options.h"
#include "lwmq/lwmq.h"

using lwmq::Message;
using lwmq::patterns::Requests;
using lwmq::wire::RequestKind;
using namespace lwmq::abi;  // the handles

namespace {
constexpr std::uint64_t kOutstandingMax = std::uint64_t{1} << 20;
}

extern "C" {

lwmq_status lwmq_requests_create(lwmq_channel* channel, const lwmq_requests_options* given,
                                 lwmq_requests** out_requests) {
  LWMQ_REQUIRE_ALIVE(channel, out_requests != nullptr);
  LWMQ_NOT_FORKED();
  LWMQ_SIZED(given);
  lwmq_requests_options options = read_options(given);
  set_default(options.outstanding_max, kOutstandingMax);
  if (options.queue != nullptr) LWMQ_ALIVE(options.queue);
  return or_no_memory(__func__, [&] {
    return Requests::create(in(channel), in(options.queue), options.outstanding_max,
                            reinterpret_cast<Requests**>(out_requests));
  });
}

lwmq_status lwmq_requests_make(lwmq_requests* requests, lwmq_message** out_request) {
  LWMQ_REQUIRE_ALIVE(requests, out_request != nullptr);
  LWMQ_NOT_FORKED();
  return in(requests)->make(reinterpret_cast<Message**>(out_request));
}

lwmq_status lwmq_requests_submit(lwmq_requests* requests, lwmq_message** request, uint32_t timeout_ms,
                                 uint64_t* out_number) {
  LWMQ_REQUIRE_ALIVE(requests, request != nullptr && *request != nullptr && out_number != nullptr);
  LWMQ_NOT_FORKED();
  LWMQ_ALIVE(*request);
  const lwmq_status status = in(requests)->submit(in(*request), timeout_ms, out_number);
  if (status == LWMQ_OK) *request = nullptr;
  return answered(status);
}

lwmq_status lwmq_requests_next(lwmq_requests* requests, uint32_t timeout_ms, uint64_t* out_number,
                               lwmq_message** out_reply) {
  LWMQ_REQUIRE_ALIVE(requests, out_number != nullptr && out_reply != nullptr);
  LWMQ_NOT_FORKED();
  const lwmq_status status =
      in(requests)->next(timeout_ms, out_number, reinterpret_cast<Message**>(out_reply));
  return *out_number == 0 ? answered(status) : status;
}

lwmq_status lwmq_requests_request(lwmq_requests* requests, lwmq_message** request, uint32_t timeout_ms,
                                  lwmq_message** out_reply) {
  LWMQ_REQUIRE_ALIVE(requests, request != nullptr && *request != nullptr && out_reply != nullptr);
  LWMQ_NOT_FORKED();
  LWMQ_ALIVE(*request);
  bool taken = false;
  const lwmq_status status =
      in(requests)->ask(in(*request), timeout_ms, &taken, reinterpret_cast<Message**>(out_reply));
  if (taken) *request = nullptr;
  return status == LWMQ_E_TIMED_OUT ? status : answered(status);
}

lwmq_status lwmq_requests_cancel(lwmq_requests* requests, uint64_t number) {
  LWMQ_REQUIRE_ALIVE(requests);
  LWMQ_NOT_FORKED();
  return answered(in(requests)->cancel(number));
}

lwmq_status lwmq_requests_file(lwmq_requests* requests, lwmq_message** message) {
  LWMQ_REQUIRE_ALIVE(requests, message != nullptr && *message != nullptr);
  LWMQ_NOT_FORKED();
  LWMQ_ALIVE(*message);
  in(requests)->file(in(*message));
  *message = nullptr;
  return LWMQ_OK;
}

lwmq_status lwmq_requests_lose(lwmq_requests* requests, lwmq_status failure) {
  LWMQ_REQUIRE_ALIVE(requests);
  LWMQ_NOT_FORKED();
  if (!lwmq::is_failure(failure)) {
    return lwmq::fail(LWMQ_E_INVALID, "%s is no failure, with which requests could fail",
                      lwmq::status_name(failure));
  }
  in(requests)->lose(failure);
  return LWMQ_OK;
}

lwmq_status lwmq_requests_query(lwmq_requests* requests, lwmq_requests_statistics* out_statistics) {
  LWMQ_REQUIRE_ALIVE(requests, out_statistics != nullptr);
  LWMQ_NOT_FORKED();
  LWMQ_SIZED(out_statistics);
  lwmq_requests_statistics statistics{};
  in(requests)->query(&statistics);
  write_output(statistics, out_statistics);
  return LWMQ_OK;
}

void lwmq_requests_destroy(lwmq_requests* requests) {
  if (requests == nullptr) return;
  LWMQ_ALIVE(requests);
  delete in(requests);
}

lwmq_status lwmq_reply_make(const lwmq_message* request, lwmq_message** out_reply) {
  LWMQ_REQUIRE_ALIVE(request, out_reply != nullptr);
  return Requests::begin_answer(*in(request), RequestKind::kReply, reinterpret_cast<Message**>(out_reply));
}

lwmq_status lwmq_reply_make_failure(const lwmq_message* request, const char* kind, const char* text,
                                    lwmq_message** out_reply) {
  LWMQ_REQUIRE_ALIVE(request, kind != nullptr && text != nullptr && out_reply != nullptr);
  return Requests::make_failure(*in(request), kind, text, reinterpret_cast<Message**>(out_reply));
}

}  // extern "C"
