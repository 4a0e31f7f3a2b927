// Channels as an application sees them, through lwmq.h, with short names and no leaks.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "eventually.h"
#include "lwmq/lwmq.h"

namespace lwmq::conformance {

inline constexpr std::uint32_t kLimitMs = 60000;  // nothing here takes long, but a machine may be busy

using Frames = std::vector<std::string>;

inline Frames frames_of(const lwmq_message* message) {
  Frames frames;
  for (std::uint32_t i = 0; i < lwmq_message_frame_count(message); ++i) {
    const void* data = nullptr;
    std::uint64_t bytes = 0;
    EXPECT_EQ(lwmq_message_frame(message, i, &data, &bytes), LWMQ_OK);
    frames.emplace_back(static_cast<const char*>(data), bytes);
  }
  return frames;
}

inline lwmq_message* make_message(const Frames& frames) {
  lwmq_message* message = nullptr;
  EXPECT_EQ(lwmq_message_create(0, &message), LWMQ_OK);
  for (const auto& frame : frames)
    EXPECT_EQ(lwmq_message_append(message, frame.data(), frame.size()), LWMQ_OK);
  return message;
}

inline lwmq_channel_options channel_options(std::uint64_t buffer_bytes, std::uint32_t buffers,
                                            bool raw = false) {
  lwmq_channel_options options{};
  options.size = sizeof options;
  options.buffer_bytes = buffer_bytes;
  options.buffers_send = buffers;
  options.retry_ms = 10;
  options.raw = raw ? 1 : 0;
  return options;
}

inline lwmq_send_queue_statistics statistics_of(const lwmq_send_queue* queue) {
  lwmq_send_queue_statistics statistics{};
  statistics.size = sizeof statistics;
  EXPECT_EQ(lwmq_send_queue_query(queue, &statistics), LWMQ_OK) << lwmq_last_error();
  return statistics;
}

// A channel with one send queue (none where it is raw), destroyed at the end.
struct End {
  lwmq_channel* channel = nullptr;
  lwmq_send_queue* queue = nullptr;

  End() = default;
  End(const std::string& address, std::int32_t role, const lwmq_channel_options& options) {
    create(address, options);
    EXPECT_EQ(lwmq_channel_open(channel, role), LWMQ_OK) << lwmq_last_error();
  }
  End(const std::string& address, std::int32_t role) : End(address, role, channel_options(1024, 8)) {}
  End(End&& other) noexcept
      : channel(std::exchange(other.channel, nullptr)), queue(std::exchange(other.queue, nullptr)) {}
  End& operator=(End&& other) noexcept {
    std::swap(channel, other.channel);
    std::swap(queue, other.queue);
    return *this;
  }
  ~End() { lwmq_channel_destroy(channel); }

  void create(const std::string& address, const lwmq_channel_options& options) {
    ASSERT_EQ(lwmq_channel_create(address.c_str(), &options, &channel), LWMQ_OK) << lwmq_last_error();
    if (options.raw != 0) return;
    ASSERT_EQ(lwmq_channel_add_send_queue(channel, nullptr, &queue), LWMQ_OK);
  }
  void destroy() {
    lwmq_channel_destroy(std::exchange(channel, nullptr));
    queue = nullptr;
  }

  lwmq_status post(const std::string& frame) const {
    return lwmq_send_queue_post_bytes(queue, frame.data(), frame.size());
  }
  lwmq_status post(const Frames& frames) const {
    lwmq_message* message = make_message(frames);
    const lwmq_status status = lwmq_send_queue_post(queue, &message);
    EXPECT_EQ(message == nullptr, status == LWMQ_OK);
    lwmq_message_destroy(message);
    return status;
  }
  // The frames of the next message; the name of the status where there is none.
  Frames receive(std::uint32_t timeout_ms = kLimitMs) const {
    lwmq_message* message = nullptr;
    const lwmq_status status = lwmq_channel_receive(channel, timeout_ms, &message);
    if (status != LWMQ_OK) return {lwmq_status_name(status), "no message", lwmq_last_error()};
    Frames frames = frames_of(message);
    lwmq_message_destroy(message);
    return frames;
  }
  // A message of one frame.
  std::string receive_text(std::uint32_t timeout_ms = kLimitMs) const {
    const Frames frames = receive(timeout_ms);
    return frames.size() == 1 ? frames[0] : frames.empty() ? "<no frame>" : "<" + frames[0] + ">";
  }
  lwmq_status wait_connected(std::uint32_t timeout_ms = kLimitMs) const {
    return lwmq_channel_wait_connected(channel, timeout_ms);
  }
  lwmq_status close(std::uint32_t linger_ms) const { return lwmq_channel_close(channel, linger_ms); }
  [[nodiscard]] lwmq_channel_statistics statistics() const {
    lwmq_channel_statistics statistics{};
    statistics.size = sizeof statistics;
    EXPECT_EQ(lwmq_channel_query(channel, &statistics), LWMQ_OK) << lwmq_last_error();
    return statistics;
  }
};

// A server and a client that have met.
struct Meeting {
  End server;
  End client;

  Meeting(const std::string& address, const lwmq_channel_options& options)
      : server(address, LWMQ_ROLE_SERVER, options), client(address, LWMQ_ROLE_CLIENT, options) {
    EXPECT_EQ(client.wait_connected(), LWMQ_OK) << lwmq_last_error();
    EXPECT_EQ(server.wait_connected(), LWMQ_OK) << lwmq_last_error();
  }
  explicit Meeting(const std::string& address) : Meeting(address, channel_options(1024, 8)) {}
};

// A message there and one back, `count` times, all by the C interface and without help of the test's own
// heap.
inline void exchange(const Meeting& meeting, const char* data, std::uint64_t bytes, int count) {
  for (int i = 0; i < count; ++i) {
    ASSERT_EQ(lwmq_send_queue_post_bytes(meeting.client.queue, data, bytes), LWMQ_OK);
    lwmq_message* message = nullptr;
    ASSERT_EQ(lwmq_channel_receive(meeting.server.channel, kLimitMs, &message), LWMQ_OK);
    ASSERT_EQ(lwmq_send_queue_post(meeting.server.queue, &message), LWMQ_OK);
    ASSERT_EQ(lwmq_channel_receive(meeting.client.channel, kLimitMs, &message), LWMQ_OK);
    lwmq_message_destroy(message);
  }
}

// What `lwmq top` sees.
inline lwmq_process_view seen_of_this_process() {
  lwmq_observer* observer = nullptr;
  std::uint64_t count = 0;
  EXPECT_EQ(lwmq_observer_create(&observer), LWMQ_OK);
  EXPECT_EQ(lwmq_observer_look(observer, &count), LWMQ_OK);
  lwmq_process_view view{};
  view.size = sizeof view;
  while (count > 0 && view.pid != static_cast<std::uint32_t>(getpid()))
    EXPECT_EQ(lwmq_observer_process(observer, --count, &view), LWMQ_OK);
  lwmq_observer_destroy(observer);
  return view;
}

}  // namespace lwmq::conformance
