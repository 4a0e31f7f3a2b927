// How an application hears of messages while it does something else: a call-back for each message, or a
// real-time signal that says that messages are there.
//
// One thread of the process serves every channel that has asked for either. The thread sleeps on the
// descriptors of these channels, so it sees what any other poller sees, and it receives as any receiver does.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "channel/channel.h"
#include "channel/observers.h"
#include "lwmq/lwmq.h"
#include "service/service_thread.h"

namespace lwmq::patterns {

using channel::Channel;

// From now on `callback` gets what a receive would answer, or `signal` is raised when there is something to
// receive. With neither, the calls or signals end: this waits for a call-back that runs, unless it is called
// from that call-back.
Status notify(Channel& channel, lwmq_on_message callback, std::int32_t signal, void* context);

class Notice final : public channel::Attachment, public service::Served {
 public:
  Notice(Channel* channel, lwmq_on_message callback, std::int32_t signal, void* context) noexcept
      : channel_(channel), callback_(callback), signal_(signal), context_(context) {}

  // The thread serves the channel from here on.
  Status begin() noexcept;
  // After this nothing is called and nothing runs. Not to be called from the call-back.
  void end() noexcept;
  // The notice whose call-back for `channel` the calling thread runs, or null.
  static Notice* around(const Channel* channel) noexcept;
  // Called from the call-back: that call is the last one.
  void end_after_this() noexcept { over_ = true; }

  std::int64_t serve(std::int64_t now_ns, bool alone) noexcept override;

 private:
  std::int64_t call(std::int64_t now_ns) noexcept;
  std::int64_t raise(std::int64_t now_ns) const noexcept;

  Channel* const channel_;
  const lwmq_on_message callback_;
  const std::int32_t signal_;
  void* const context_;  // of the call-back; the value of the signal
  std::int32_t fd_ = -1;
  // Used by the thread alone.
  bool over_ = false;      // the last call was made
  Status told_ = LWMQ_OK;  // the status of the last call
};

}  // namespace lwmq::patterns
