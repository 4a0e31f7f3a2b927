// What a writer and a job have in common: they open as producers of a stream.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "lwmq/lwmq.h"
#include "stream/client.h"

namespace lwmq::stream {

// The request that says who the producer is, and what the stream is if it is the first one.
wire::OpenProducer letter_of(const void* schema, std::uint64_t schema_bytes,
                             const lwmq_writer_options& options);

// Limits of what the caller gave, before anything is opened.
Status check(const char* address, std::uint64_t schema_bytes, const lwmq_writer_options& options) noexcept;

// Sends the request and reads Opened; a refusal becomes its status and text.
Status open_with(Reach& reach, wire::StreamKind kind, const wire::OpenProducer& letter,
                 const Deadline& deadline, wire::Opened* out_answer, const OtherNews& other = {});

}  // namespace lwmq::stream
