// What a writer and a job have in common: they open as producers of a stream.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "lwmq/lwmq.h"
#include "stream/client/connection.h"

namespace lwmq::stream {

// The request that says who the producer is, and what the stream is if it is the first one.
wire::OpenProducer letter_of(const void* schema, std::uint64_t schema_bytes,
                             const lwmq_writer_options& options);

// Limits of what the caller gave, and what the schema asks for, before anything is opened.
Status check(const char* address, const void* schema, std::uint64_t schema_bytes,
             const lwmq_writer_options& options);

// Sends the request and reads Opened; a refusal becomes its status and text.
Status open_with(Connection& connection, wire::StreamKind kind, const wire::OpenProducer& letter,
                 const Deadline& deadline, wire::Opened* out_answer, const OtherMessages& other = {});

}  // namespace lwmq::stream
