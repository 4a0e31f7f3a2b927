// Bytes of the application's in a message, and when it hears that nobody shows them any more.
#pragma once

#include "lwmq/lwmq.h"
#include "message/owner.h"

namespace lwmq::message {

struct ExternalBytes {
  Owner owner;
  lwmq_frame_callback callback;
  void* context;
  ExternalBytes* next = nullptr;  // of those whose release is held

  // Null when memory is short. Without a call-back: the caller makes that of the acquire.
  static ExternalBytes* create(lwmq_frame_callback callback, void* context) noexcept;
  // Takes it.
  void call_back() noexcept;
};

// While one lives, the RELEASE call-backs that this thread would make wait for its end: made before a lock is
// taken, it goes when the lock has. What a call-back causes comes behind it, not within: so one that posts
// the next message does not fill the stack.
class HeldReleases {
 public:
  HeldReleases() noexcept;
  HeldReleases(const HeldReleases&) = delete;
  HeldReleases& operator=(const HeldReleases&) = delete;
  ~HeldReleases();
  void hold(ExternalBytes* bytes) noexcept;

 private:
  HeldReleases* const outer_;
  ExternalBytes* first_ = nullptr;
  ExternalBytes** last_ = &first_;
};

}  // namespace lwmq::message
