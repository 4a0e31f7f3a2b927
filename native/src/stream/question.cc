#include "stream/question.h"

#include <cstring>
#include <utility>

#include "os/identity.h"
#include "stream/client.h"
#include "stream/elsewhere.h"

namespace lwmq::stream {

namespace {

Status ask_state(const char* address, const wire::Describe& letter, const Deadline& deadline,
                 std::string* out_bytes, std::string* out_address) {
  Reach made;
  Status status = reach(address, LWMQ_ROLE_CLIENT, deadline, kStallMs, &made);
  if (status != LWMQ_OK) return status;
  *out_address = made.address;
  status = made.link->send_letter(wire::StreamKind::kDescribe, letter);
  if (status == LWMQ_OK) status = await_answer(made, wire::StreamKind::kState, deadline, out_bytes);
  if (status != LWMQ_E_TIMED_OUT) return status;
  return fail(LWMQ_E_TIMED_OUT, "%s: no writer has come with a schema to the endpoint in %s%s",
              made.address.c_str(), server_of(made).c_str(), served_elsewhere(made.address).c_str());
}

}  // namespace

Status describe(const char* address, bool wait_declared, std::uint32_t timeout_ms,
                std::unique_ptr<Description>* out) {
  const Deadline deadline(timeout_ms);
  auto description = std::make_unique<Description>();
  wire::Describe letter;
  letter.wait_declared = wait_declared ? 1 : 0;
  std::string bytes;
  Status status = LWMQ_OK;
  do {
    status = ask_state(address, letter, deadline, &bytes, &description->address);
  } while (ask_again(&status, deadline));
  if ((status == LWMQ_E_CLOSED || status == LWMQ_E_PEER_LOST) && !os::forked())  // it asks no more
    return fail(LWMQ_E_TIMED_OUT, "%s: the endpoint there has gone while it was asked; start another one",
                address);
  if (status != LWMQ_OK) return status;
  wire::State answer;
  if (!wire::decode(bytes, &answer) || answer.generation.size() != 16 || answer.instance.size() != 16) {
    return fail(LWMQ_E_CORRUPT, "%s: the endpoint's answer is malformed", address);
  }
  description->schema = std::move(answer.schema);
  for (const auto& p : answer.partitions) {
    description->partitions.push_back({p.first_seq, p.unacked_seq, p.next_seq, p.rows, p.bytes});
  }
  lwmq_stream_state& state = description->state;
  state.size = sizeof state;
  std::memcpy(state.generation, answer.generation.data(), sizeof state.generation);
  state.state = answer.state;
  state.retain = answer.retain;
  state.readers = answer.readers;
  state.partition_count = static_cast<std::uint32_t>(description->partitions.size());
  state.producers_open = answer.producers_open;
  state.readers_open = answer.readers_open;
  state.readers_stalled = answer.readers_stalled;
  state.readers_expelled = answer.readers_expelled;
  state.stalled_pid = answer.stalled_pid;
  state.schema = description->schema.empty() ? nullptr : description->schema.data();
  state.schema_bytes = description->schema.size();
  state.partitions = description->partitions.data();
  state.address = description->address.c_str();
  lwmq_identity& where = state.endpoint;
  where.size = sizeof where;
  std::snprintf(where.host, sizeof where.host, "%s", answer.host.c_str());
  std::snprintf(where.boot_id, sizeof where.boot_id, "%s", answer.boot_id.c_str());
  where.netns = answer.netns;
  where.pid = answer.pid;
  where.uid = answer.uid;
  std::memcpy(where.instance, answer.instance.data(), sizeof where.instance);
  *out = std::move(description);
  return LWMQ_OK;
}

Status settle(const char* address, const char* name, bool acknowledge, std::uint32_t timeout_ms) {
  Status status = check_name(address, "reader", name);
  if (status != LWMQ_OK) return status;
  const Deadline deadline(timeout_ms);
  Reach made;
  status = reach_now(address, deadline, kStallMs, &made);
  if (status == LWMQ_E_EMPTY) {
    return fail(LWMQ_E_CLOSED, "%s: the endpoint has gone, and with it what could be acknowledged", address);
  }
  if (status != LWMQ_OK) return status;
  wire::Settle letter;
  letter.acknowledge = acknowledge ? 1 : 0;
  letter.name = name;
  status = made.link->send_letter(wire::StreamKind::kSettle, letter);
  std::string bytes;
  if (status == LWMQ_OK) status = await_answer(made, wire::StreamKind::kSettled, deadline, &bytes);
  if (status == LWMQ_E_TIMED_OUT) {
    return fail(LWMQ_E_TIMED_OUT, "%s: the endpoint has not answered", made.address.c_str());
  }
  return status;
}

}  // namespace lwmq::stream
