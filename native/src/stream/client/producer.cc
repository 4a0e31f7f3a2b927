#include "stream/client/producer.h"

#include <cstring>

#include "stream/bounds.h"

namespace lwmq::stream {

wire::OpenProducer letter_of(const void* schema, std::uint64_t schema_bytes,
                             const lwmq_writer_options& options) {
  wire::OpenProducer letter;
  letter.partitions = options.partitions;
  letter.retain = options.retain;
  letter.readers = options.readers;
  letter.delivery = options.delivery;
  letter.task = options.task;
  letter.job_tasks = options.job_tasks;
  letter.attempt = options.attempt;
  letter.epoch = options.epoch;
  letter.window_bytes = options.window_bytes;
  letter.stall_ms = options.stall_ms;
  letter.expel_after_ms = options.expel_after_ms;
  if (options.job != nullptr) letter.job = options.job;
  letter.schema.assign(static_cast<const char*>(schema), schema_bytes);
  return letter;
}

Status check(const char* address, const void* schema, std::uint64_t schema_bytes,
             const lwmq_writer_options& options) {
  if (schema_bytes == 0 || schema_bytes > kSchemaBytesMax) {
    return fail(LWMQ_E_SCHEMA, "%s: a schema of %" PRIu64 " bytes; 1 to %" PRIu64 " are possible", address,
                schema_bytes, kSchemaBytesMax);
  }
  if (options.job != nullptr) {
    if (const Status status = check_name(address, "job", options.job); status != LWMQ_OK) return status;
  }
  if (options.partitions == 0 || options.partitions > kPartitionsMax) {
    return fail(LWMQ_E_INVALID, "%s: %u partitions; 1 to %u are possible", address, options.partitions,
                kPartitionsMax);
  }
  return BoundsWriter().declare({static_cast<const char*>(schema), schema_bytes}, address);
}

Status open_with(Connection& connection, wire::StreamKind kind, const wire::OpenProducer& letter,
                 const Deadline& deadline, wire::Opened* out_answer, const OtherMessages& other) {
  Status status = connection.link->send_letter(kind, letter);
  if (status == LWMQ_OK) status = await_opened(connection, deadline, out_answer, other);
  if (status == LWMQ_OK && (out_answer->partitions == 0 || out_answer->partitions > kPartitionsMax)) {
    return fail(LWMQ_E_CORRUPT,
                "%s: the endpoint says that the stream has %u partitions; 1 to %u are possible",
                connection.address.c_str(), out_answer->partitions, kPartitionsMax);
  }
  return status;
}

}  // namespace lwmq::stream
