// How an application hears of messages while it does something else: a call-back with each of them, or a
// real-time signal that there are some.
//
// One thread of the process serves every channel that has asked for one of the two. It sleeps on their
// descriptors, so that it sees what any other poller would see, and receives as any other receiver.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "channel/channel.h"
#include "lwmq/lwmq.h"
#include "service/service_thread.h"

namespace lwmq::patterns {

using channel::Channel;

class Notice final : public service::Served {
 public:
  Notice(Channel* channel, lwmq_on_message callback, void* context) noexcept
      : channel_(channel), callback_(callback), context_(context) {}
  Notice(Channel* channel, std::int32_t signal, void* value) noexcept
      : channel_(channel), signal_(signal), context_(value) {}

  // From now on `callback` gets what a receive would answer, or `signal` says that there is something;
  // neither: no longer. Waits for a call-back that runs, but for the one that asks.
  static Status set(Channel& channel, lwmq_on_message callback, std::int32_t signal, void* context);

  std::int64_t serve(std::int64_t now_ns, bool alone) noexcept override;

 private:
  // From here on the thread serves us.
  Status begin() noexcept;
  // Afterwards nothing is called and nothing runs. Not from the call-back.
  void end() noexcept;

  std::int64_t call(std::int64_t now_ns) noexcept;
  std::int64_t raise(std::int64_t now_ns) const noexcept;

  Channel* const channel_;
  const lwmq_on_message callback_ = nullptr;
  const std::int32_t signal_ = 0;
  void* const context_;  // of the call-back; the value of the signal
  std::int32_t fd_ = -1;
  // The thread's own.
  bool over_ = false;      // the last call was made
  Status told_ = LWMQ_OK;  // what it was called with last
};

}  // namespace lwmq::patterns
