// What is destroyed only when no lock is held.
#pragma once

#include "message/message.h"

namespace lwmq::conversation {

// Messages that have had their time and have owners: destroyed when this goes, because call-backs may run
// then.
class Completions {
 public:
  Completions() noexcept = default;
  Completions(const Completions&) = delete;
  Completions& operator=(const Completions&) = delete;
  ~Completions() { destroy(); }
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  void destroy() noexcept {
    while (first_ != nullptr) {
      Message* message = first_;
      first_ = message->next;
      Message::destroy(message);
    }
  }
  void add(Message* message) noexcept {
    message->next = first_;
    first_ = message;
  }

 private:
  Message* first_ = nullptr;
};

}  // namespace lwmq::conversation
