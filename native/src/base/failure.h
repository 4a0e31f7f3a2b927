// A failure that a later call is to tell, with its text: where there was no memory for that, with its status
// alone.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"

namespace lwmq {

class Failure {
 public:
  // What this thread's last call has answered; what is no failure has no text.
  void keep(Status status) noexcept;
  void forget() noexcept { keep(LWMQ_OK); }

  [[nodiscard]] Status status() const noexcept { return status_; }
  // The same answer again, with its text and its tag.
  Status tell() const noexcept;
  [[nodiscard]] const char* text() const noexcept;

 private:
  Status status_ = LWMQ_OK;
  std::uint64_t tag_ = 0;
  std::unique_ptr<char[]> text_;  // null: there was none, or no memory
};

}  // namespace lwmq
