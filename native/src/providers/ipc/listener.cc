#include "providers/ipc/listener.h"

#include <fcntl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <vector>

#include "base/yield_point.h"
#include "os/clock.h"
#include "os/deadline.h"
#include "os/identity.h"
#include "providers/ipc/handshake.h"

namespace lwmq::ipc {
namespace {

// Those who connect and leave, or are refused, take no room: there may be no end of them.
constexpr std::uint32_t kLetInAtOnce = 2 * kPendingHandshakesMax;

// The listeners of this process. Never destroyed: threads may outlive main.
struct Local {
  std::mutex mutex;
  std::vector<std::pair<std::string, Listener*>> listeners;
  std::mutex spare_mutex;
  os::UniqueFd spare;  // a descriptor to give up where there is no other one
};

Local& local() noexcept {
  static auto* instance = new Local;
  return *instance;
}

// Under spare_mutex; not there where descriptors are short. Of a socket it would keep the address.
void keep_spare(int door_fd) noexcept {
  if (!local().spare) local().spare = os::UniqueFd(fcntl(door_fd, F_DUPFD_CLOEXEC, 0));
}

}  // namespace

Status Listener::open(const char* address, const lwmq_tli_options* options, Listener** out_listener) {
  Address parsed;
  if (const Status status = parse(address, &parsed); status != LWMQ_OK) return status;
  if (const Status status = check_options(parsed, options); status != LWMQ_OK) return status;
  if (const Status status = wait_until_held(); status != LWMQ_OK) return status;
  auto* listener = new (std::nothrow) Listener(std::move(parsed), *options);
  if (listener == nullptr) return fail(LWMQ_E_NO_MEMORY, "%s: no memory for a listener", address);
  Status status = bind_address(listener->address_, &listener->socket_, &listener->file_);
  if (status == LWMQ_OK) status = Door::create(&listener->door_);
  if (status == LWMQ_OK) status = listener->door_->add_socket(listener->socket_.get());
  if (status != LWMQ_OK) {
    unbind_address(listener->address_, listener->file_);
    delete listener;
    return status;
  }
  LWMQ_YIELD("listener.bound");
  {
    const std::lock_guard lock(local().spare_mutex);
    keep_spare(listener->door_->fd());
  }
  const std::lock_guard lock(local().mutex);
  local().listeners.emplace_back(listener->address_.socket, listener);
  *out_listener = listener;
  return LWMQ_OK;
}

Status Listener::accept(Transport** out_transport) {
  if (os::forked())
    return fail(LWMQ_E_CLOSED, "%s: forked: the listener is the parent's", address_.text.c_str());
  door_->drain();
  if (has_ready()) {
    door_->look_at_life_lines();
  } else {
    drive();
  }
  const std::lock_guard lock(mutex_);
  if (ready_.empty() && refused_.empty()) return LWMQ_E_EMPTY;
  if (ready_.size() + refused_.size() > 1) door_->ring();  // for those who stay
  if (!ready_.empty()) {
    *out_transport = ready_.front();
    ready_.pop_front();
    return LWMQ_OK;
  }
  const auto [status, text] = std::move(refused_.front());
  refused_.pop_front();
  return fail(status, "%s: %s", address_.text.c_str(), text.c_str());
}

bool Listener::has_ready() {
  const std::lock_guard lock(mutex_);
  return !ready_.empty();
}

bool Listener::drive() {
  const bool some = door_->look_at_life_lines();
  const std::lock_guard lock(mutex_);
  timer_.reset();
  const std::size_t before = ready_.size();
  std::uint32_t places = kLetInAtOnce;
  do {
    advance_all();  // first: whoever has said what we wait for does not give way
  } while (let_in(&places));
  set_timer();
  return some || ready_.size() > before;
}

void Listener::tend() {
  door_->drain();
  door_->look_at_life_lines();
  const std::lock_guard lock(mutex_);
  timer_.reset();
  std::uint32_t places = kLetInAtOnce;
  do {
    end_where([](const Pending& pending) { return os::is_hung_up(pending.socket.get()); });
  } while (pending_.size() < kPendingHandshakesMax && let_in(&places));
}

// For the next who is to be dropped, or to give way: perhaps nobody else calls whoever polls. Where no
// descriptor is left for it, somebody else has to.
void Listener::set_timer() {
  const bool may = may_answer();  // else those without an answer have all the time
  std::int64_t due_ns = os::kNoDeadline;
  for (const Pending& pending : pending_) {
    if (may || pending.answered != nullptr) due_ns = std::min(due_ns, pending.deadline_ns);
  }
  if (pending_.size() == kPendingHandshakesMax) due_ns = std::min(due_ns, stalled_ns(pending_.front()));
  if (due_ns == os::kNoDeadline) return;
  timer_ = os::UniqueFd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  const std::int64_t left_ns = std::max<std::int64_t>(due_ns - os::now_ns(), 1);
  const itimerspec at{{0, 0}, {left_ns / 1'000'000'000, left_ns % 1'000'000'000}};
  if (timer_ && timerfd_settime(timer_.get(), 0, &at, nullptr) == 0) door_->add_socket(timer_.get());
}

template <typename IsOver>
void Listener::end_where(IsOver&& is_over) {
  std::erase_if(pending_, [&is_over](Pending& pending) {
    const bool over = is_over(pending);
    if (over) pending.answered.reset();  // before its socket closes
    return over;
  });
}

void Listener::advance_all() {
  end_where([this](Pending& pending) { return advance(&pending); });
}

// False: nobody gives way. The oldest that has not said hello does, else the oldest where it has our answer
// for long and does not go on.
bool Listener::make_place() {
  if (pending_.size() < kPendingHandshakesMax) return true;
  auto oldest = std::find_if(pending_.begin(), pending_.end(),
                             [](const Pending& pending) { return pending.answered == nullptr; });
  if (oldest == pending_.end() && os::now_ns() > stalled_ns(pending_.front())) oldest = pending_.begin();
  if (oldest == pending_.end()) return false;
  oldest->answered.reset();
  pending_.erase(oldest);
  return true;
}

// Takes of those who have connected to the socket as many as there is room for, and `*places`. False: none.
// While nobody takes those who are ready, others wait where they are.
bool Listener::let_in(std::uint32_t* places) {
  if (*places == 0 || ready_.size() >= kPendingHandshakesMax || !make_place()) return false;
  bool some = false;
  for (; *places > 0 && pending_.size() + ready_.size() < kPendingHandshakesMax; --*places) {
    Pending pending;
    Status status = os::accept_unix(socket_.get(), &pending.socket);
    if (status == LWMQ_E_EMPTY) return some;
    if (status == LWMQ_E_UNSUPPORTED) {
      if (!std::exchange(said_why_not_, true)) refused_.emplace_back(status, last_error());
      return some;
    }
    if (status != LWMQ_OK) {
      if (!turn_away(status)) return some;
      continue;
    }
    LWMQ_YIELD("listener.let_in");
    status = os::peer_credentials(pending.socket.get(), &pending.credentials);
    if (status == LWMQ_OK && !pending.credentials.same_user) {
      status = fail(LWMQ_E_DENIED, "the client runs as user %u, the listener as user %u",
                    pending.credentials.uid, static_cast<unsigned>(geteuid()));
    }
    if (status == LWMQ_OK) status = door_->add_socket(pending.socket.get());
    if (status != LWMQ_OK) {
      refuse(pending, status);
      continue;
    }
    pending.deadline_ns = os::now_ns() + kHandshakeNs;
    pending_.push_back(std::move(pending));
    some = true;
  }
  if (*places == 0) door_->call_again(socket_.get());
  return some;
}

void Listener::refuse(const Pending& pending, Status why) {
  note_refused(pending, why);
  send_refusal(pending.socket.get(), why);
}

void Listener::note_refused(const Pending& pending, Status why) {
  if (refused_.size() == kPendingHandshakesMax) refused_.pop_front();
  refused_.emplace_back(why, "process " + std::to_string(pending.credentials.pid) +
                                 " was refused: " + std::string(last_error()));
}

// There is no descriptor for who has come: without an answer he would wait, and we would be told of him for
// ever. So one is kept for that. False: it did not help.
bool Listener::turn_away(Status why) {
  const std::lock_guard lock(local().spare_mutex);
  local().spare.reset();
  os::UniqueFd socket;
  const bool taken = os::accept_unix(socket_.get(), &socket) == LWMQ_OK;
  if (taken) {
    fail(why, "process %u cannot take another connection: %s", os::identity().pid,
         std::string(last_error()).c_str());
    send_refusal(socket.get(), why);
    socket.reset();
  }
  keep_spare(door_->fd());
  return taken;
}

// As far as it goes by what the client has said. True when this handshake is over, one way or the other.
bool Listener::advance(Pending* pending) {
  for (;;) {
    if (pending->answered == nullptr && !may_answer()) return os::is_hung_up(pending->socket.get());
    AnyMessage message{};
    os::Received received;
    // The last word of a client that has our answer, and may have begun, brings none: a shortage of
    // descriptors is no reason to part from it.
    const std::size_t awaited = pending->answered == nullptr ? os::kFdsMax : 0;
    const Status status =
        os::receive_message(pending->socket.get(), &message, sizeof message, &received, awaited);
    if (status == LWMQ_E_EMPTY) return os::now_ns() > pending->deadline_ns;
    if (status == LWMQ_E_PEER_LOST) return true;
    if (pending->answered != nullptr) {
      finish(pending, status, message, received);
      return true;
    }
    if (!hear(pending, status, message, &received)) return true;
  }
}

// Where one conversation is served, others wait unanswered, and keep what they have.
bool Listener::may_answer() const {
  if (options_.channel == 0) return true;
  const auto answered = std::count_if(pending_.begin(), pending_.end(),
                                      [](const Pending& pending) { return pending.answered != nullptr; });
  return ready_.size() + static_cast<std::size_t>(answered) < kAnsweredMax;
}

// The client's hello. False: nothing comes of it.
bool Listener::hear(Pending* pending, Status status, const AnyMessage& hello, os::Received* received) {
  if (status == LWMQ_OK) status = check_hello(hello, *received, address_, options_, false);
  if (status == LWMQ_OK) status = answer(pending, hello, received);
  if (status != LWMQ_OK && status != LWMQ_E_PEER_LOST) refuse(*pending, status);  // lost: it has given up
  return status == LWMQ_OK;
}

// Its last word.
void Listener::finish(Pending* pending, Status status, const AnyMessage& met, const os::Received& received) {
  Transport* transport = nullptr;
  if (status == LWMQ_OK) status = check_met(met, received, address_);
  if (status == LWMQ_OK) status = meet(pending, &transport);
  if (status == LWMQ_OK) {
    ready_.push_back(transport);
  } else {
    note_refused(*pending, status);  // the client has its answer: it sees us go
  }
}

// The hello goes out when all else is in place, the transport's own memory too: a client that has it may
// begin.
Status Listener::answer(Pending* pending, const AnyMessage& message, os::Received* received) {
  TransportParts parts;
  Offer offer;
  if (const Status status =
          accept_hello(message.hello, received, pending->credentials, address_, options_, &parts);
      status != LWMQ_OK) {
    return status;
  }
  if (const Status status = make_offer(options_, &offer); status != LWMQ_OK) return status;
  parts.own_side = std::move(offer.side.memory);
  Transport* transport = nullptr;
  if (const Status status = Transport::create(std::move(parts), &transport); status != LWMQ_OK) return status;
  Answered answered(transport);
  LWMQ_YIELD("listener.answer");
  if (const Status status = send_hello(pending->socket.get(), address_, options_, offer); status != LWMQ_OK)
    return status;
  LWMQ_YIELD("listener.answered");
  pending->answered = std::move(answered);
  pending->deadline_ns = os::now_ns() + kHandshakeNs;  // it may have waited long for us to look
  return LWMQ_OK;
}

// The client has our answer, and perhaps begun. Takes its socket.
Status Listener::meet(Pending* pending, Transport** out_transport) {
  door_->remove_socket(pending->socket.get());
  pending->answered->take_life_line(std::move(pending->socket));
  if (const Status status = pending->answered->stand_behind(door_); status != LWMQ_OK) return status;
  LWMQ_YIELD("listener.behind_door");
  *out_transport = pending->answered.release();
  return LWMQ_OK;
}

void Listener::close() {
  if (os::forked()) return;
  {
    const std::lock_guard lock(local().mutex);
    std::erase_if(local().listeners, [this](const auto& entry) { return entry.second == this; });
  }
  LWMQ_YIELD("listener.close");
  unbind_address(address_, file_);
  drive();  // whoever has met us by now hears of the end as any peer does
  std::deque<Transport*> ready;
  {
    const std::lock_guard lock(mutex_);
    socket_.reset();
    pending_.clear();
    ready.swap(ready_);
  }
  for (Transport* transport : ready) transport->close(0, 0);
  door_->leave();
  door_->ring();  // what we have seen is news for whoever polls those that live on
  delete this;
}

bool Listener::drive_local(const std::string& socket_name) {
  const std::lock_guard lock(local().mutex);
  bool found = false;
  for (const auto& [name, listener] : local().listeners) {
    if (name != socket_name) continue;
    found = true;  // there may be two: one whose socket file was removed, and its successor
    if (listener->drive()) listener->door_->ring();
  }
  return found;
}

}  // namespace lwmq::ipc
