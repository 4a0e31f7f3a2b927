// Receiving from many channels with one thread, in turns (RFC 970): each that has something gives one message
// before any gives its next, however much some of them send.
//
// The kernel's list of descriptors that are ready is the order, and one that has given a message goes to its
// end. It stays there while it gives more, and for some looks in vain: asking the kernel for each message,
// and being rung for each, would cost ten messages. So a channel that was silent joins the others when the
// kernel is asked again: after 64 messages, some 64 KiB, or 256 looks in vain.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "base/handle_mark.h"
#include "base/status.h"
#include "channel/channel.h"
#include "os/unique_fd.h"
#include "patterns/live_objects.h"

namespace lwmq {
class Message;
}  // namespace lwmq

namespace lwmq::patterns {

using channel::Channel;
class Listener;

class Selector {
 public:
  static Status create(Selector** out_selector);

  // Any thread, also while another one waits.
  Status add(Channel* channel);
  Status remove(Channel* channel);
  // Gets turns while a client waits there.
  Status add(Listener* listener);
  Status remove(Listener* listener);
  // Of every selector: the channel, or the listener, is about to be destroyed.
  static void forget_everywhere(const void* source);
  ~Selector();

  [[nodiscard]] bool is_alive() const noexcept { return mark_.is_alive(); }

  // Readable where one that has no turn may have something. Lent.
  [[nodiscard]] int descriptor() const noexcept { return epoll_.get(); }

  // One thread at a time. The next that may have something; null: a client waits at one of its listeners.
  Status wait(std::uint32_t timeout_ms, Channel** out_channel);
  // Of the channel that wait has given just now. LWMQ_E_EMPTY: nothing, or it was removed since.
  Status take(Message** out_message);
  // The next message. *out_channel also where its receive has failed, else null. *out_message is null where a
  // client waits.
  Status receive(std::uint32_t timeout_ms, Channel** out_channel, Message** out_message);

 private:
  struct Member {
    Channel* channel;    // null: a listener's
    const void* source;  // the channel, or the listener
    int fd;              // its descriptor
    std::uint64_t number = 0;
    bool has_turn = false;
    std::uint32_t in_vain = 0;    // of its turn
    Member* next_turn = nullptr;  // who is behind it
  };
  struct Turn {
    std::uint64_t number;       // 0 is nobody's
    std::uint32_t in_vain = 0;  // looks since it gave something
  };

  struct Wait;

  Status next_turn(Wait& wait, Turn* out_turn, Channel** out_channel);
  Status receive_in_hand(Turn turn, Channel* channel, bool looks_again, Message** out_message);
  Status look(std::uint32_t timeout_ms);
  bool take_turn(Turn* out_turn, Channel** out_channel);
  Channel* take_in_hand(std::uint64_t number);
  void give_turn(Turn turn);
  void let_go();
  void lay_down() noexcept;
  void append_turn(Member& member, std::uint32_t in_vain) noexcept;
  void drop_turn(Member& member) noexcept;
  Status put_in(Member member, const char* what, const std::string& address);
  enum class Struck { kIsNone, kGone, kInHand };
  Struck strike(const void* source, std::uint64_t* out_number);
  void wait_let_go(std::uint64_t number);
  bool take_out(const void* source);

  os::UniqueFd epoll_;
  // The receiving thread's.
  std::uint32_t since_look_ = 0;  // what was received and looked at, in looks
  Turn given_{};                  // by wait, to take

  std::mutex mutex_;  // guards what follows
  std::uint64_t next_number_ = 1;
  std::map<std::uint64_t, Member> members_;
  Member* first_turn_ = nullptr;  // linked, so that giving one needs no memory
  Member* last_turn_ = nullptr;
  std::uint64_t in_hand_ = 0;  // the channel that is being looked at or received from
  std::thread::id receiving_;
  std::condition_variable let_go_;
  std::uint32_t awaiting_ = 0;  // threads that have removed the one in hand, and wait until that is let go
  HandleMark mark_;
  LiveObject<Selector> live_{this};  // last: whoever finds us there finds us whole
};

}  // namespace lwmq::patterns
