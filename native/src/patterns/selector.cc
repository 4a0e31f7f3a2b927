#include "patterns/selector.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <memory>
#include <utility>

#include "channel/channel.h"
#include "codec/encoder.h"
#include "os/deadline.h"
#include "os/identity.h"
#include "os/spin.h"
#include "patterns/listener.h"

namespace lwmq::patterns {

using conversation::Messages;
using conversation::WhenEmpty;

namespace {

constexpr int kEvents = 64;
// What comes between two looks at the kernel's list: as many looks at channels in vain, a fourth of that in
// small messages, or 64 KiB.
constexpr std::uint32_t kCostPerLook = 256;
constexpr std::uint32_t kCostOfMessage = 4;
constexpr std::uint64_t kBytesOfOne = 256;
// Looks at a silent channel before its descriptor is armed, and the kernel will say when it speaks again.
constexpr std::uint32_t kLooksInVain = 64;

std::uint32_t cost_of(const Message& message) noexcept {
  return kCostOfMessage + static_cast<std::uint32_t>(std::min<std::uint64_t>(
                              codec::measure(message).bytes / kBytesOfOne, kCostPerLook));
}

}  // namespace

// Of a call with a timeout. The clock is read when it first waits: it costs as much as a small message.
struct Selector::Wait {
  std::uint32_t timeout_ms;
  std::int64_t deadline = -1;
  bool looked = false;  // and all that had something then has had its turn

  std::uint32_t left_ms() noexcept {
    if (timeout_ms == 0) return 0;
    if (deadline < 0) deadline = os::deadline_of(timeout_ms);
    return os::ms_left(deadline);
  }
};

Status Selector::create(Selector** out_selector) {
  auto made = std::make_unique<Selector>();
  made->epoll_ = os::UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!made->epoll_) {
    return fail_errno(LWMQ_E_SYSTEM, errno, "epoll_create1");
  }
  *out_selector = made.release();
  return LWMQ_OK;
}

Status Selector::add(Channel* channel) {
  std::int32_t fd = -1;
  const Status status = channel->descriptor(&fd);
  if (status != LWMQ_OK) return status;
  return put_in({channel, channel, fd}, "channel", channel->address());
}

Status Selector::add(Listener* listener) {
  return put_in({nullptr, listener, listener->descriptor()}, "listener", listener->address());
}

Status Selector::put_in(Member member, const char* what, const std::string& address) {
  const std::lock_guard lock(mutex_);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = member.number = next_number_;
  const auto place = members_.emplace(next_number_, member).first;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, member.fd, &event) != 0) {
    const int error = errno;
    members_.erase(place);
    if (error == EEXIST)
      return fail(LWMQ_E_INVALID, "this %s was added to the selector before (%s)", what, address.c_str());
    return fail_errno(LWMQ_E_SYSTEM, error, "epoll_ctl");
  }
  ++next_number_;
  return LWMQ_OK;
}

Status Selector::remove(Channel* channel) {
  return take_out(channel) ? LWMQ_OK
                           : fail(LWMQ_E_INVALID, "this channel was not added to the selector (%s)",
                                  channel->address().c_str());
}

Status Selector::remove(Listener* listener) {
  return take_out(listener) ? LWMQ_OK
                            : fail(LWMQ_E_INVALID, "this listener was not added to the selector (%s)",
                                   listener->address().c_str());
}

// Takes it out. kInHand: of another thread, for which wait_let_go follows.
Selector::Struck Selector::strike(const void* source, std::uint64_t* out_number) {
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(members_.begin(), members_.end(),
                               [source](const auto& entry) { return entry.second.source == source; });
  if (at == members_.end()) return Struck::kIsNone;
  const std::uint64_t number = *out_number = at->first;
  drop_turn(at->second);
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, at->second.fd, nullptr);
  members_.erase(at);
  if (in_hand_ != number || receiving_ == std::this_thread::get_id()) return Struck::kGone;
  ++awaiting_;
  return Struck::kInHand;
}

void Selector::wait_let_go(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  let_go_.wait(lock, [&] { return in_hand_ != number; });
  if (--awaiting_ == 0) let_go_.notify_all();  // for the destructor
}

// False: it is not there. Otherwise the receiving thread has let go of it.
bool Selector::take_out(const void* source) {
  std::uint64_t number = 0;
  const Struck struck = strike(source, &number);
  if (struck == Struck::kInHand) wait_let_go(number);
  return struck != Struck::kIsNone;
}

// Waits without the list of selectors: what the receiving thread has in hand may be a call-back of the
// application's, which makes or destroys a selector. One at a time; those that it was taken out of before do
// not have it.
void Selector::forget_everywhere(const void* source) {
  for (Selector* busy = nullptr;; busy = nullptr) {
    std::uint64_t number = 0;
    LiveObject<Selector>::for_each([&](Selector& selector) {
      if (busy == nullptr && selector.strike(source, &number) == Struck::kInHand) busy = &selector;
    });
    if (busy == nullptr) return;
    busy->wait_let_go(number);
  }
}

Selector::~Selector() {
  if (os::forked()) return;
  std::unique_lock lock(mutex_);
  let_go_.wait(lock, [this] { return awaiting_ == 0; });
}

// Gives turns to those that the kernel says are readable and that have none.
Status Selector::look(std::uint32_t timeout_ms) {
  since_look_ = 0;
  int ms = timeout_ms == LWMQ_FOREVER ? -1 : static_cast<int>(std::min<std::uint32_t>(timeout_ms, INT_MAX));
  for (bool more = true; more; ms = 0) {
    epoll_event events[kEvents];
    const int count = epoll_wait(epoll_.get(), events, kEvents, ms);
    if (count < 0)
      return errno == EINTR ? LWMQ_E_INTERRUPTED : fail_errno(LWMQ_E_SYSTEM, errno, "epoll_wait");
    more = count == kEvents;
    const std::lock_guard lock(mutex_);
    for (int i = 0; i < count; ++i) {
      const auto found = members_.find(events[i].data.u64);
      if (found == members_.end()) continue;  // removed since
      if (found->second.has_turn) {
        more = false;  // those that are busy are readable all the time: not all of them each time
      } else {
        append_turn(found->second, kLooksInVain - 1);  // has it nothing after all, it is armed
      }
    }
  }
  return LWMQ_OK;
}

// Into the hand. False: nobody has one.
bool Selector::take_turn(Turn* out_turn, Channel** out_channel) {
  const std::lock_guard lock(mutex_);
  if (first_turn_ == nullptr) return false;
  Member& member = *first_turn_;
  *out_turn = {member.number, member.in_vain};
  drop_turn(member);
  *out_channel = member.channel;
  in_hand_ = out_turn->number;
  receiving_ = std::this_thread::get_id();
  return true;
}

// One that has no turn. Null: it was removed.
Channel* Selector::take_in_hand(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = members_.find(number);
  if (found == members_.end()) return nullptr;
  in_hand_ = number;
  receiving_ = std::this_thread::get_id();
  return found->second.channel;
}

// To the channel in hand, unless it was removed meanwhile, and lets go of it.
void Selector::give_turn(Turn turn) {
  const std::lock_guard lock(mutex_);
  const auto found = members_.find(turn.number);
  if (found != members_.end()) append_turn(found->second, turn.in_vain);
  lay_down();
}

// With the mutex, like the next. Behind all others.
void Selector::append_turn(Member& member, std::uint32_t in_vain) noexcept {
  member.has_turn = true;
  member.in_vain = in_vain;
  member.next_turn = nullptr;
  (last_turn_ == nullptr ? first_turn_ : last_turn_->next_turn) = &member;
  last_turn_ = &member;
}

void Selector::drop_turn(Member& member) noexcept {
  if (!std::exchange(member.has_turn, false)) return;
  Member* before = nullptr;
  for (Member* one = first_turn_; one != &member; one = one->next_turn) before = one;
  (before == nullptr ? first_turn_ : before->next_turn) = member.next_turn;
  if (last_turn_ == &member) last_turn_ = before;
}

void Selector::let_go() {
  const std::lock_guard lock(mutex_);
  lay_down();
}

// With the mutex.
void Selector::lay_down() noexcept {
  in_hand_ = 0;
  if (awaiting_ > 0) let_go_.notify_all();
}

// The next turn. Asks the kernel now and then, and waits where nobody has one.
Status Selector::next_turn(Wait& wait, Turn* out_turn, Channel** out_channel) {
  given_ = {};
  const auto over = [&wait] { return wait.timeout_ms == 0 ? LWMQ_E_EMPTY : LWMQ_E_TIMED_OUT; };
  if (since_look_ >= kCostPerLook) {
    if (const Status status = look(0); status != LWMQ_OK) return status;
    if (wait.timeout_ms != 0 && wait.left_ms() == 0) return over();
  }
  while (!take_turn(out_turn, out_channel)) {
    const std::uint32_t left = wait.left_ms();
    if (wait.looked && left == 0) return over();
    if (const Status status = look(left); status != LWMQ_OK) return status;
    wait.looked = true;
  }
  return LWMQ_OK;
}

Status Selector::wait(std::uint32_t timeout_ms, Channel** out_channel) {
  Wait wait{timeout_ms};
  Turn turn{};
  const Status status = next_turn(wait, &turn, out_channel);
  if (status != LWMQ_OK) return status;
  if (*out_channel != nullptr) given_ = turn;
  let_go();  // what the caller does with it is his
  return LWMQ_OK;
}

Status Selector::take(Message** out_message) {
  const Turn turn = std::exchange(given_, {});
  Channel* channel = take_in_hand(turn.number);
  return channel == nullptr ? LWMQ_E_EMPTY : receive_in_hand(turn, channel, true, out_message);
}

Status Selector::receive(std::uint32_t timeout_ms, Channel** out_channel, Message** out_message) {
  *out_channel = nullptr;
  Wait wait{timeout_ms};
  for (;;) {
    Turn turn{};
    Channel* channel = nullptr;
    Status status = next_turn(wait, &turn, &channel);
    if (status != LWMQ_OK) return status;
    if (channel == nullptr) {
      let_go();
      *out_message = nullptr;
      return LWMQ_OK;
    }
    status = receive_in_hand(turn, channel, timeout_ms != 0, out_message);
    if (status == LWMQ_E_EMPTY) continue;
    *out_channel = channel;
    return status;
  }
}

// One that has given a message, or where `looks_again` may soon, keeps its place in the turns; of the others
// their descriptors say when they have something.
Status Selector::receive_in_hand(Turn turn, Channel* channel, bool looks_again, Message** out_message) {
  const bool looks = looks_again && channel->takes_plainly() && channel->first().has_peer() &&
                     turn.in_vain + 1 < kLooksInVain;
  Messages into(out_message, 1);
  const Status status = channel->take({0, looks ? WhenEmpty::kLook : WhenEmpty::kArm}, into);
  if (status == LWMQ_E_EMPTY && looks) {
    ++turn.in_vain;
    ++since_look_;
    give_turn(turn);
    os::pause();
    return status;
  }
  if (status != LWMQ_OK) {
    let_go();
    return status;
  }
  since_look_ += cost_of(**out_message);
  give_turn({turn.number});
  return LWMQ_OK;
}

}  // namespace lwmq::patterns
