// Send queues by name under one scheduler, without a channel; each message is one frame.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "scheduler/scheduler.h"

namespace lwmq::scheduler {

inline Message* message_of(const std::string& text) {
  Message* message = Message::create();
  EXPECT_EQ(message->append(text.data(), text.size()), LWMQ_OK);
  return message;
}

inline std::string text_of(Message* message) {
  std::string text(reinterpret_cast<const char*>(message->frames()[0].data), message->frames()[0].bytes);
  Message::destroy(message);
  return text;
}

class Queues {
 public:
  SendQueue& add(const std::string& name, std::uint32_t priority,
                 std::uint32_t kind = LWMQ_QUEUE_MONO_UNBOUNDED, std::uint64_t capacity = 0) {
    auto& queue = queues_[name];
    queue = std::make_unique<SendQueue>(kind, priority, capacity);
    scheduler.add(queue.get());
    return *queue;
  }
  SendQueue& operator[](const std::string& name) { return *queues_.at(name); }
  // Messages with the name of their queue and their number.
  void post(const std::string& name, int count = 1) {
    for (int i = 0; i < count; ++i) post_text(name, name + std::to_string(posted_[name]++));
  }
  void post_text(const std::string& name, const std::string& text, std::uint64_t tag = 0) {
    Message* gone = nullptr;
    ASSERT_EQ(queues_.at(name)->push(message_of(text), tag, true, &gone), queue::Pushed::kTaken);
    if (gone != nullptr) Message::destroy(gone);
    scheduler.note_pushed(queues_.at(name).get());
  }
  // The text of the next message; "" when there is none.
  std::string next() {
    codec::Encoding encoding;
    if (!scheduler.front(&encoding)) return "";
    const std::uint64_t bytes = encoding.bytes;
    EXPECT_TRUE(scheduler.front(&encoding));
    EXPECT_EQ(encoding.bytes, bytes) << "asking again gives the same one";
    Message* message = scheduler.claim(bytes, &encoding);
    scheduler.done();
    return text_of(message);
  }
  std::string all() {
    std::string text;
    for (std::string one = next(); !one.empty(); one = next()) text += (text.empty() ? "" : " ") + one;
    return text;
  }

  Scheduler scheduler;

 private:
  std::map<std::string, std::unique_ptr<SendQueue>> queues_;
  std::map<std::string, int> posted_;
};

}  // namespace lwmq::scheduler
