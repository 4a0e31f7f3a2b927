// How code above a channel follows its life.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace lwmq::channel {

class Channel;

// A function that hears of every channel that is about to be destroyed, and lets go of that channel. An
// object with static lifetime: it registers the function while the library is loaded, before any thread
// calls the library.
class OnDestroy {
 public:
  explicit OnDestroy(void (*hear)(Channel&)) noexcept : hear_(hear), next_(std::exchange(first_, this)) {}
  OnDestroy(const OnDestroy&) = delete;
  OnDestroy& operator=(const OnDestroy&) = delete;

  static void tell_all(Channel& channel) {
    for (const OnDestroy* one = first_; one != nullptr; one = one->next_) one->hear_(channel);
  }

 private:
  static inline constinit const OnDestroy* first_ = nullptr;

  void (*const hear_)(Channel&);
  const OnDestroy* const next_;
};

// An object that a channel keeps for code above it.
class Attachment {
 public:
  virtual ~Attachment() = default;
};

// The channel's place for the one that serves its call-back or signal.
struct AttachmentSlot {
  std::mutex mutex;
  std::unique_ptr<Attachment> attachment;  // guarded by mutex
};

}  // namespace lwmq::channel
