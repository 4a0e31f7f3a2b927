#include "patterns/requests.h"

#include <poll.h>

#include <algorithm>
#include <cinttypes>
#include <climits>
#include <cstring>
#include <new>
#include <utility>

#include "channel/channel.h"
#include "os/clock.h"
#include "os/deadline.h"
#include "os/event_fd.h"
#include "os/futex.h"
#include "os/identity.h"

namespace lwmq::patterns {
namespace {

constexpr std::uint64_t kCapacityMin = 64;
constexpr std::uint32_t kAtOnce = 32;  // messages that one receive takes
// How long an asker receives before it looks at the deadlines of the other requests.
constexpr std::uint32_t kSliceMs = 200;
// How long the attendant waits in the channel, which notices a message soonest, before it sleeps in poll.
constexpr std::uint32_t kListenMs = 1;
// How long the attendant leaves the channel alone after an asker has received.
constexpr std::int64_t kApartNs = 10 * os::kMillisecond;
// How long the attendant sleeps if it has no descriptor and something keeps the peer away.
constexpr std::uint32_t kPauseMs = 100;

std::uint64_t fresh_asker() noexcept {
  std::uint64_t asker = 0;
  os::random_bytes(&asker, sizeof asker);
  return asker;
}

bool head_of(const Message& message, wire::RequestHead* out_head) noexcept {
  return message.frame_count() > 0 &&
         wire::read_head(message.frames()[0].data, message.frames()[0].bytes, out_head);
}

// Whether receives may answer this status again and again, until somebody mends the cause. The end of a peer
// is answered once.
bool may_last(Status status) noexcept {
  return status != LWMQ_E_CLOSED && status != LWMQ_E_PEER_LOST && status != LWMQ_E_CORRUPT;
}

// A failure has a kind and a text after its head.
bool is_well_formed(const Message& message, wire::RequestKind kind) noexcept {
  if (kind == wire::RequestKind::kReply) return true;
  return kind == wire::RequestKind::kFailure && message.frame_count() == 3 &&
         message.frames()[1].bytes <= wire::kFailureTextMax &&
         message.frames()[2].bytes <= wire::kFailureTextMax;
}

// As much of a text as a failure may have, without half a character at its end.
std::uint64_t bytes_of_text(const char* text) noexcept {
  std::uint64_t bytes = strnlen(text, wire::kFailureTextMax + 1);
  if (bytes <= wire::kFailureTextMax) return bytes;
  --bytes;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) --bytes;
  return bytes;
}

}  // namespace

// ---- Making -----------------------------------------------------------------------------------------

Requests::Requests(Channel* channel, ChannelQueue* queue, std::uint64_t outstanding_max, bool keeps_failures)
    : asker_(fresh_asker()),
      outstanding_max_(outstanding_max),
      keeps_failures_(keeps_failures),
      queue_(queue),
      address_(channel->address()),
      channel_(channel) {}

Status Requests::create(Channel* channel, ChannelQueue* queue, std::uint64_t outstanding_max,
                        bool keeps_failures, Requests** out_requests) {
  if (queue == nullptr) {
    if (const Status status = channel->common_queue(&queue); status != LWMQ_OK) return status;
  } else if (queue->channel != channel) {
    return fail(LWMQ_E_INVALID, "a send queue of %s, not of the channel that is asked over (%s)",
                queue->channel->address().c_str(), channel->address().c_str());
  }
  auto* made = new (std::nothrow) Requests(channel, queue, outstanding_max, keeps_failures);
  if (made == nullptr) return fail(LWMQ_E_NO_MEMORY, "no memory for requests");
  *out_requests = made;
  return LWMQ_OK;
}

// In a forked child this object is the parent's, in any state.
Requests::~Requests() {
  if (os::forked()) return;
  Completions dropped;
  {
    const std::lock_guard lock(mutex_);
    channel_ = nullptr;  // from here on forget does nothing here
  }
  while (on_heap_ > 0) drop(take_out(heap_[0]->number), dropped);
  while (first_settled_ != nullptr) drop(pop_settled(), dropped);
}

// With the mutex, or while no other thread knows this object.
void Requests::drop(Pending* pending, Completions& dropped) noexcept {
  if (pending->reply != nullptr) dropped.add(pending->reply);
  if (pending->ending != nullptr && --pending->ending->users == 0) delete pending->ending;
  --held_;
  delete pending;
}

Status Requests::make(Message** out_message) noexcept {
  wire::RequestHead head;
  head.asker = asker_;
  {
    const std::lock_guard lock(mutex_);
    head.number = ++made_;
  }
  Message* made = Message::copy_of(&head, sizeof head);
  if (made == nullptr) return fail(LWMQ_E_NO_MEMORY, "no memory for a request");
  *out_message = made;
  return LWMQ_OK;
}

Requests::Ending* Requests::Ending::of(Status status) noexcept {
  auto* made = new (std::nothrow) Ending;
  if (made == nullptr) return nullptr;
  made->status = status;
  std::snprintf(made->text, sizeof made->text, "%s", last_error());
  return made;
}

// ---- What is outstanding, by number and by time -----------------------------------------------------

bool Requests::reserve() noexcept {
  if (held_ < capacity_) return true;
  const std::uint64_t capacity = std::max(kCapacityMin, capacity_ * 2);
  std::unique_ptr<Pending*[]> table(new (std::nothrow) Pending* [capacity] {});
  std::unique_ptr<Pending*[]> heap(new (std::nothrow) Pending* [capacity] {});
  if (table == nullptr || heap == nullptr) return false;
  for (std::uint64_t i = 0; i < on_heap_; ++i) {
    heap[i] = heap_[i];
    Pending*& first = table[heap[i]->number & (capacity - 1)];
    heap[i]->next = std::exchange(first, heap[i]);
  }
  table_ = std::move(table);
  heap_ = std::move(heap);
  capacity_ = capacity;
  return true;
}

// The place of a request in the table. Null there: it is not outstanding.
Requests::Pending** Requests::find(std::uint64_t number) noexcept {
  Pending** at = &table_[number & (capacity_ - 1)];
  while (*at != nullptr && (*at)->number != number) at = &(*at)->next;
  return at;
}

void Requests::set_place(std::uint64_t place, Pending* pending) noexcept {
  heap_[place] = pending;
  pending->place = place;
}

void Requests::sift_up(std::uint64_t place) noexcept {
  Pending* const pending = heap_[place];
  for (; place > 0 && heap_[(place - 1) / 2]->due_ns > pending->due_ns; place = (place - 1) / 2)
    set_place(place, heap_[(place - 1) / 2]);
  set_place(place, pending);
}

void Requests::sift_down(std::uint64_t place) noexcept {
  Pending* const pending = heap_[place];
  for (std::uint64_t below = 2 * place + 1; below < on_heap_; below = 2 * place + 1) {
    if (below + 1 < on_heap_ && heap_[below + 1]->due_ns < heap_[below]->due_ns) ++below;
    if (heap_[below]->due_ns >= pending->due_ns) break;
    set_place(place, heap_[below]);
    place = below;
  }
  set_place(place, pending);
}

void Requests::put_on_heap(Pending* pending) noexcept {
  set_place(on_heap_, pending);
  sift_up(on_heap_++);
}

void Requests::take_off_heap(Pending* pending) noexcept {
  const std::uint64_t place = pending->place;
  Pending* const last = heap_[--on_heap_];
  if (last == pending) return;
  set_place(place, last);
  sift_up(place);
  sift_down(last->place);
}

// Null: it is not outstanding.
Requests::Pending* Requests::take_out(std::uint64_t number) noexcept {
  if (capacity_ == 0) return nullptr;
  Pending** const at = find(number);
  Pending* const pending = *at;
  if (pending == nullptr) return nullptr;
  *at = std::exchange(pending->next, nullptr);
  take_off_heap(pending);
  return pending;
}

void Requests::settle(Pending* pending) noexcept {
  pending->is_settled = true;
  if (pending->is_awaited) {
    pending->word.fetch_add(1, std::memory_order_relaxed);  // under the mutex
    os::futex_wake_one(pending->word, os::Sleepers::kOfThisProcess);
    return;
  }
  (first_settled_ == nullptr ? first_settled_ : last_settled_->next) = pending;
  last_settled_ = pending;
  ring();
}

Requests::Pending* Requests::pop_settled() noexcept {
  Pending* const first = first_settled_;
  first_settled_ = std::exchange(first->next, nullptr);
  return first;
}

// When the next request is due.
std::int64_t Requests::due_ns() const noexcept { return on_heap_ == 0 ? os::kNoDeadline : heap_[0]->due_ns; }

void Requests::expire() noexcept {
  if (due_ns() == os::kNoDeadline) return;
  const std::int64_t now = os::now_ns();
  while (on_heap_ > 0 && heap_[0]->due_ns <= now) {
    ++counts_.timed_out;
    settle(take_out(heap_[0]->number));
  }
}

// With the last failure of this thread. If it is the end of a peer, what was asked before that fails; else
// everything. False: nothing was outstanding.
bool Requests::fail_all(Status status) noexcept {
  const std::uint64_t end = error_tag();
  const auto is_spared = [end](const Pending& pending) { return end != 0 && pending.ends_before >= end; };
  const std::uint64_t before = on_heap_;
  Ending* ending = nullptr;
  on_heap_ = 0;
  for (std::uint64_t place = 0; place < before; ++place) {
    Pending* const pending = heap_[place];
    if (is_spared(*pending)) {
      set_place(on_heap_++, pending);
      continue;
    }
    Pending** const at = find(pending->number);
    *at = std::exchange(pending->next, nullptr);
    if (ending == nullptr) ending = Ending::of(status);
    pending->ending = ending;  // null where memory is short: then it counts as timed out
    if (ending != nullptr) ++ending->users;
    ++counts_.lost;
    settle(pending);
  }
  for (std::uint64_t place = on_heap_ / 2; place-- > 0;) sift_down(place);
  return on_heap_ < before;
}

// ---- Asking -----------------------------------------------------------------------------------------

// With the mutex.
Status Requests::check_open() const noexcept {
  if (closed_.status() != LWMQ_OK) return closed_.tell();
  if (channel_ == nullptr) return fail(LWMQ_E_CLOSED, "the channel was destroyed (%s)", address_.c_str());
  return LWMQ_OK;
}

// `out_awaited`: if it is given, only the caller is told of the outcome, and drops the request.
Status Requests::enlist(const Message& message, std::uint32_t timeout_ms, bool will_wait,
                        Pending** out_awaited, std::uint64_t* out_number,
                        std::optional<Channel::Inside>* out_inside) noexcept {
  wire::RequestHead head;
  const std::lock_guard lock(mutex_);
  if (const Status status = check_open(); status != LWMQ_OK) return status;
  if (!head_of(message, &head) || head.kind != wire::RequestKind::kRequest || head.asker != asker_ ||
      head.number == 0 || head.number > made_ || (capacity_ > 0 && *find(head.number) != nullptr)) {
    return fail(LWMQ_E_INVALID,
                "a message that lwmq_requests_make has not made for these requests, or that is outstanding "
                "already (%s)",
                address_.c_str());
  }
  // A thread that waits for a reply receives, which needs an open channel.
  if (out_awaited != nullptr && !channel_->first().was_opened()) return channel_->first().refuse_phase();
  if (held_ >= outstanding_max_) return LWMQ_E_FULL;
  auto* pending = reserve() ? new (std::nothrow) Pending : nullptr;
  if (pending == nullptr) return fail(LWMQ_E_NO_MEMORY, "no memory for one more request");
  pending->number = head.number;
  pending->timeout_ms = timeout_ms;
  pending->due_ns = os::deadline_of(timeout_ms);
  pending->is_awaited = out_awaited != nullptr;
  pending->ends_before = channel_->ends();
  *find(head.number) = pending;
  put_on_heap(pending);
  ++held_;
  ++counts_.asked;
  if (!will_wait) call_attendant();
  if (pending->due_ns < sleeps_until_ns_) ring();
  out_inside->emplace(*channel_);
  *out_number = head.number;
  if (out_awaited != nullptr) *out_awaited = pending;
  return LWMQ_OK;
}

// LWMQ_OK unless something keeps the peer away; then its status. Called after enlist: a failure that is
// received from then on fails the request, too.
Status Requests::check_peer() noexcept {
  Channel& channel = *queue_->channel;  // not destroyed until the post is over
  if (!may_be_kept_away_.load(std::memory_order_relaxed) || !channel.first().was_opened()) return LWMQ_OK;
  may_be_kept_away_.store(false, std::memory_order_relaxed);
  const Status status = channel.wait_connected(0);
  if (!is_failure(status)) return LWMQ_OK;  // connected, or the peer may come by itself
  may_be_kept_away_.store(true, std::memory_order_relaxed);
  return status;
}

// Posts what was enlisted. From then on other threads may be told of the outcome and drop the request, unless
// it is awaited. If the post fails, it is outstanding no more.
Status Requests::post(Message* message, std::uint64_t number, Pending* awaited) noexcept {
  Status status = check_peer();
  if (status == LWMQ_OK) status = queue_->post(message, 0);
  if (status == LWMQ_OK) return LWMQ_OK;
  Completions dropped;
  const std::lock_guard lock(mutex_);
  Pending* gone = take_out(number);
  if (gone != nullptr) ++counts_.given_up;
  if (gone == nullptr) gone = awaited != nullptr ? awaited : take_settled(number);
  if (gone != nullptr) drop(gone, dropped);
  return status;
}

Status Requests::submit(Message* message, std::uint32_t timeout_ms, bool will_wait,
                        std::uint64_t* out_number) noexcept {
  std::optional<Channel::Inside> inside;
  const Status status = enlist(*message, timeout_ms, will_wait, nullptr, out_number, &inside);
  return status == LWMQ_OK ? post(message, *out_number, nullptr) : status;
}

Status Requests::ask(Message* message, std::uint32_t timeout_ms, bool* out_taken,
                     Message** out_reply) noexcept {
  Pending* pending = nullptr;
  std::uint64_t number = 0;
  Status status = LWMQ_OK;
  {
    std::optional<Channel::Inside> inside;
    status = enlist(*message, timeout_ms, true, &pending, &number, &inside);
    if (status == LWMQ_OK) status = post(message, number, pending);
  }
  *out_taken = status == LWMQ_OK;
  if (status != LWMQ_OK) return status;
  std::unique_lock lock(mutex_);
  status = await(lock, pending, LWMQ_FOREVER);
  if (pending->is_settled) {
    lock.unlock();
    return tell(pending, out_reply);
  }
  Completions dropped;  // a signal has ended the wait, or memory is short
  if (take_out(number) != nullptr) ++counts_.given_up;
  drop(pending, dropped);
  lock.unlock();
  return status;
}

// Null: its outcome was told, or there is no such request.
Requests::Pending* Requests::take_settled(std::uint64_t number) noexcept {
  Pending* before = nullptr;
  Pending* settled = first_settled_;
  for (; settled != nullptr && settled->number != number; settled = settled->next) before = settled;
  if (settled == nullptr) return nullptr;
  (before == nullptr ? first_settled_ : before->next) = settled->next;
  if (last_settled_ == settled) last_settled_ = before;
  return settled;
}

Status Requests::cancel(std::uint64_t number) noexcept {
  Completions dropped;
  const std::lock_guard lock(mutex_);
  Pending* pending = take_out(number);
  if (pending != nullptr) {
    ++counts_.given_up;
  } else if ((pending = take_settled(number)) == nullptr) {
    return LWMQ_E_EMPTY;
  }
  if (pending->is_awaited) {
    pending->is_cancelled = true;
    settle(pending);  // the thread that waits for it drops it
  } else {
    drop(pending, dropped);
  }
  return LWMQ_OK;
}

// ---- Receiving --------------------------------------------------------------------------------------

void Requests::file_with_mutex(Message* message, Completions& dropped) noexcept {
  wire::RequestHead head;
  Pending* pending = nullptr;
  if (!head_of(*message, &head) || !is_well_formed(*message, head.kind)) {
    ++counts_.malformed;
  } else if (head.asker != asker_) {
    ++counts_.foreign;
  } else if (head.number == 0 || head.number > made_) {
    ++counts_.malformed;
  } else if ((pending = take_out(head.number)) == nullptr) {
    ++counts_.late;
  }
  if (pending == nullptr) return dropped.add(message);
  ++(head.kind == wire::RequestKind::kReply ? counts_.answered : counts_.failed);
  pending->reply = message;
  pending->is_failure = head.kind != wire::RequestKind::kReply;
  settle(pending);
}

void Requests::file(Message* message) noexcept {
  Completions dropped;
  const std::lock_guard lock(mutex_);
  file_with_mutex(message, dropped);
}

void Requests::lose(Status status) noexcept {
  const std::lock_guard lock(mutex_);
  if (may_last(status)) may_be_kept_away_.store(true, std::memory_order_relaxed);
  fail_all(status);
}

// Receives without the mutex, and files what has come. What concerns no request is the answer. But an asker
// is not told of the end of a peer that was never asked. What keeps the peer away is answered once, and later
// as LWMQ_E_EMPTY.
Status Requests::receive_some(std::unique_lock<std::mutex>& lock, std::uint32_t timeout_ms,
                              bool is_asking) noexcept {
  Message* messages[kAtOnce];
  std::uint32_t count = 0;
  is_receiving_ = true;
  Status status = LWMQ_OK;
  bool was_open = true;
  {
    Channel& channel = *channel_;
    const Channel::Inside inside(channel);  // with the mutex, which a destroy of the channel takes first
    was_open = channel.first().was_opened();
    lock.unlock();
    status = channel.receive(timeout_ms, kAtOnce, messages, &count);
  }
  lock.lock();
  is_receiving_ = false;
  Completions dropped;
  const bool fails = is_failure(status) && status != LWMQ_E_NO_MEMORY && was_open;
  const Status kept_away_by = fails && may_last(status) ? status : LWMQ_OK;
  if (kept_away_by != LWMQ_OK) may_be_kept_away_.store(true, std::memory_order_relaxed);
  if (status == LWMQ_OK) {
    for (std::uint32_t i = 0; i < count; ++i) file_with_mutex(messages[i], dropped);
  } else if (fails && (fail_all(status) || (error_tag() != 0 && is_asking))) {
    status = LWMQ_OK;
  } else if (kept_away_by != LWMQ_OK && kept_away_by == kept_away_by_) {
    status = LWMQ_E_EMPTY;
  }
  if (status == LWMQ_OK || fails) kept_away_by_ = kept_away_by;
  wake_others();
  if (!dropped.empty()) {  // RELEASE call-backs may run: without the mutex
    lock.unlock();
    dropped.destroy();
    lock.lock();
  }
  return status;
}

// ---- Who receives -----------------------------------------------------------------------------------

// Wakes the attendant, so that it looks again.
void Requests::ring() noexcept {
  if (std::exchange(sleeps_, false)) os::ring_event_fd(bell_.get());
}

// A request was made whose reply the attendant has to receive, unless an asker does.
void Requests::call_attendant() noexcept {
  if (is_receiving_ || apart_until_ns_ == 0) return;
  apart_until_ns_ = 0;
  if (!listens_) ring();
}

// If no thread attends, one of the askers that follow has to receive.
void Requests::wake_one_asker() noexcept {
  if (askers_ == nullptr || is_attended_ || is_receiving_) return;
  askers_->word.fetch_add(1, std::memory_order_relaxed);  // under the mutex
  os::futex_wake_one(askers_->word, os::Sleepers::kOfThisProcess);
}

void Requests::wake_others() noexcept {
  if (sleepers_ == 0) return;
  looks_.fetch_add(1, std::memory_order_relaxed);  // under the mutex
  os::futex_wake_all(looks_, os::Sleepers::kOfThisProcess);
}

// An asker sleeps until its request is settled, or until it has to receive.
Status Requests::follow(std::unique_lock<std::mutex>& lock, Pending* own, std::uint32_t timeout_ms) noexcept {
  own->next_asker = std::exchange(askers_, own);
  const std::uint32_t seen = own->word.load(std::memory_order_relaxed);
  lock.unlock();
  const Status status = os::wait_for_change(seen, os::deadline_of(timeout_ms), own->word);
  lock.lock();
  Pending** at = &askers_;
  while (*at != own) at = &(*at)->next_asker;
  *at = own->next_asker;
  return status;
}

// Sleeps until a receive is over, or the attendant has left.
Status Requests::sleep_beside(std::unique_lock<std::mutex>& lock, std::uint32_t timeout_ms) noexcept {
  const std::uint32_t seen = looks_.load(std::memory_order_relaxed);
  ++sleepers_;
  lock.unlock();
  const Status status = os::wait_for_change(seen, os::deadline_of(timeout_ms), looks_);
  lock.lock();
  --sleepers_;
  return status;
}

// Sleeps until somebody rings. `listens`: also until the channel, which was found empty, has something.
Status Requests::sleep_at_bell(std::unique_lock<std::mutex>& lock, std::int64_t deadline,
                               bool listens) noexcept {
  pollfd items[2] = {{bell_.get(), POLLIN, 0}, {channel_fd_, POLLIN, 0}};
  std::optional<Channel::Inside> inside;
  if (listens) inside.emplace(*channel_);  // so that the descriptor stays
  sleeps_ = true;
  listens_ = listens;
  sleeps_until_ns_ = deadline;
  lock.unlock();
  const std::uint32_t left = os::ms_left(deadline);
  const int ms = left == LWMQ_FOREVER ? -1 : static_cast<int>(std::min<std::uint32_t>(left, INT_MAX));
  const bool interrupted = poll(items, listens ? 2 : 1, ms) < 0;
  inside.reset();
  lock.lock();
  sleeps_ = listens_ = false;
  sleeps_until_ns_ = 0;
  os::drain_event_fd(bell_.get());
  return interrupted ? LWMQ_E_INTERRUPTED : LWMQ_OK;
}

// The attendant receives, or sleeps while nothing happens. With the mutex, which is given up meanwhile.
Status Requests::attend(std::unique_lock<std::mutex>& lock, std::int64_t deadline) noexcept {
  std::int64_t until = std::min(deadline, due_ns());
  if (channel_fd_ < 0) {
    const std::uint32_t most = std::min(os::ms_left(until), kSliceMs);
    if (is_receiving_) return sleep_beside(lock, most);
    const Status status = receive_some(lock, most, false);
    return status == LWMQ_E_EMPTY ? sleep_beside(lock, std::min(most, kPauseMs)) : status;
  }
  if (is_receiving_) {  // looks again soon while askers come and go, and ever later while one stays
    look_ns_ = std::exchange(leads_seen_, leads_) == leads_ ? 2 * look_ns_ : kApartNs;
    return sleep_at_bell(lock, std::min(until, os::now_ns() + look_ns_), false);
  }
  if (apart_until_ns_ > os::now_ns()) return sleep_at_bell(lock, std::min(until, apart_until_ns_), false);
  apart_until_ns_ = 0;
  Status status = receive_some(lock, std::min(os::ms_left(until), kListenMs), false);
  // A receive that does not wait and finds nothing readies the descriptor; so does a wait in vain.
  if (status == LWMQ_E_EMPTY) status = receive_some(lock, 0, false);
  const bool is_quiet = status == LWMQ_E_EMPTY || status == LWMQ_E_TIMED_OUT;
  if (!is_quiet || first_settled_ != nullptr || check_open() != LWMQ_OK) return status;
  return sleep_at_bell(lock, std::min(deadline, due_ns()), true);
}

// Waits until `own` is settled. LWMQ_E_EMPTY: it was not settled in time. With the mutex, which is given up
// meanwhile.
Status Requests::await(std::unique_lock<std::mutex>& lock, Pending* own, std::uint32_t timeout_ms) noexcept {
  const std::int64_t deadline = os::deadline_of(timeout_ms);
  Status status = LWMQ_OK;
  bool has_led = false;
  for (bool looked = false;; looked = true) {
    expire();
    if (own->is_settled) break;
    const bool leads = !is_receiving_ && (!is_attended_ || on_heap_ == 1);
    const std::uint32_t left = timeout_ms == 0 ? 0 : os::ms_left(deadline);
    if (left == 0 && (looked || !leads)) {
      status = LWMQ_E_EMPTY;
      break;
    }
    const std::uint32_t most = std::min(left, os::ms_left(due_ns()));
    if (leads && !std::exchange(has_led, true)) ++leads_;
    status = leads ? receive_some(lock, std::min(most, kSliceMs), true) : follow(lock, own, most);
    if (!own->is_settled && (status == LWMQ_E_INTERRUPTED || is_failure(status))) break;
  }
  wake_one_asker();  // this thread may have been the one that was to receive
  apart_until_ns_ = os::now_ns() + kApartNs;
  if (on_heap_ > 0 || first_settled_ != nullptr) {
    call_attendant();
  } else if (!listens_ && sleeps_until_ns_ > apart_until_ns_) {
    ring();
  }
  return status;
}

Status Requests::wait(std::uint64_t number, std::uint32_t timeout_ms, Message** out_reply) noexcept {
  *out_reply = nullptr;
  std::unique_lock lock(mutex_);
  Pending* own = capacity_ == 0 ? nullptr : *find(number);
  if (own != nullptr && own->is_awaited) return LWMQ_E_EMPTY;
  Status status = LWMQ_OK;
  if (own != nullptr) {
    own->is_awaited = true;
    status = await(lock, own, timeout_ms);
    own->is_awaited = false;
    if (!own->is_settled) return status;
  } else if (own = take_settled(number); own == nullptr) {
    return LWMQ_E_EMPTY;
  }
  lock.unlock();
  return tell(own, out_reply);
}

// Makes the descriptors at which the attendant sleeps. Without them it wakes now and then.
void Requests::make_bell() noexcept {
  std::optional<Channel::Inside> inside;
  Channel* channel = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (channel_fd_ >= 0 || channel_ == nullptr) return;
    channel = channel_;
    inside.emplace(*channel);
  }
  os::UniqueFd bell;
  std::int32_t fd = -1;
  if (os::create_event_fd(&bell) != LWMQ_OK || channel->descriptor(&fd) != LWMQ_OK) return;
  const std::lock_guard lock(mutex_);
  if (channel_fd_ >= 0) return;
  bell_ = std::move(bell);
  channel_fd_ = fd;
}

// Gives the outcome of a settled request, and drops the request.
Status Requests::tell(Pending* pending, Message** out_reply) noexcept {
  Status status = LWMQ_OK;
  Message* const reply = std::exchange(pending->reply, nullptr);
  Completions none;
  std::unique_lock lock(mutex_);
  if (pending->is_cancelled) {
    status = LWMQ_E_EMPTY;
  } else if (reply != nullptr && !pending->is_failure) {
    *out_reply = reply;
  } else if (reply != nullptr) {
    const Frame& kind = reply->frames()[1];
    const Frame& text = reply->frames()[2];
    status = fail(LWMQ_E_HANDLER, "the peer's handler failed: %.*s%s%.*s (%s)", static_cast<int>(kind.bytes),
                  reinterpret_cast<const char*>(kind.data), kind.bytes > 0 && text.bytes > 0 ? ": " : "",
                  static_cast<int>(text.bytes), reinterpret_cast<const char*>(text.data), address_.c_str());
    if (keeps_failures_) {
      *out_reply = reply;
    } else {
      none.add(reply);
    }
  } else if (pending->ending != nullptr) {
    status = fail(pending->ending->status, "%s", pending->ending->text);
  } else {
    const bool is_alone = channel_ != nullptr && !channel_->has_peer();
    status = fail(LWMQ_E_TIMED_OUT, "no reply to request %" PRIu64 " within %u ms (%s)%s", pending->number,
                  pending->timeout_ms, address_.c_str(), is_alone ? ": nobody is connected" : "");
  }
  drop(pending, none);
  lock.unlock();
  return status;
}

Status Requests::next(std::uint32_t timeout_ms, std::uint64_t* out_number, Message** out_reply) noexcept {
  *out_number = 0;
  *out_reply = nullptr;
  if (timeout_ms != 0) make_bell();
  const std::int64_t deadline = os::deadline_of(timeout_ms);
  Status status = LWMQ_OK;
  Pending* settled = nullptr;
  std::unique_lock lock(mutex_);
  bool attends = false;
  for (bool looked = false;; looked = true) {
    expire();
    if (first_settled_ != nullptr) {
      settled = pop_settled();
      break;
    }
    if (status == LWMQ_E_INTERRUPTED || is_failure(status)) break;
    if (status = check_open(); status != LWMQ_OK) break;
    const std::uint32_t left = timeout_ms == 0 ? 0 : os::ms_left(deadline);
    if (left == 0 && (looked || is_receiving_)) {
      status = timeout_ms == 0 ? LWMQ_E_EMPTY : LWMQ_E_TIMED_OUT;
      break;
    }
    if (left > 0) attends = attends || !std::exchange(is_attended_, true);
    if (left == 0) {
      status = receive_some(lock, 0, false);
    } else {
      status = attends ? attend(lock, deadline) : sleep_beside(lock, left);
    }
  }
  if (attends) {
    is_attended_ = false;
    wake_one_asker();
    wake_others();
  }
  lock.unlock();
  if (settled == nullptr) return status;
  *out_number = settled->number;
  return tell(settled, out_reply);
}

void Requests::close() noexcept {
  std::unique_lock lock(mutex_);
  if (closed_.status() == LWMQ_OK) {
    closed_.keep(fail(LWMQ_E_CLOSED, "the requests on %s are closed", address_.c_str()));
    fail_all(LWMQ_E_CLOSED);
  }
  ring();
  wake_others();
  // A receive that is still under way would take messages from the application.
  while (is_receiving_) sleep_beside(lock, kSliceMs);
}

void Requests::forget(const Channel* channel) noexcept {
  const std::lock_guard lock(mutex_);
  if (channel_ != channel) return;
  fail_all(fail(LWMQ_E_CLOSED, "the channel was destroyed (%s)", address_.c_str()));
  channel_ = nullptr;
  ring();
  wake_others();
}

void Requests::query(lwmq_requests_statistics* out_statistics) noexcept {
  const std::lock_guard lock(mutex_);
  *out_statistics = counts_;
  out_statistics->outstanding = on_heap_;
  out_statistics->due_ms = os::ms_left(due_ns());
}

// ---- Answering --------------------------------------------------------------------------------------

Status Requests::begin_answer(const Message& request, wire::RequestKind kind, Message** out_answer) noexcept {
  wire::RequestHead head;
  if (!head_of(request, &head) || head.kind != wire::RequestKind::kRequest)
    return fail(LWMQ_E_CORRUPT, "the message is no request: its first frame is none's head");
  head.kind = kind;
  Message* made = Message::copy_of(&head, sizeof head);
  if (made == nullptr) return fail(LWMQ_E_NO_MEMORY, "no memory for a reply");
  *out_answer = made;
  return LWMQ_OK;
}

Status Requests::make_failure(const Message& request, const char* kind, const char* text,
                              Message** out_answer) noexcept {
  Message* made = nullptr;
  Status status = begin_answer(request, wire::RequestKind::kFailure, &made);
  if (status != LWMQ_OK) return status;
  status = made->append(kind, bytes_of_text(kind));
  if (status == LWMQ_OK) status = made->append(text, bytes_of_text(text));
  if (status != LWMQ_OK) {
    Message::destroy(made);
    return status;
  }
  *out_answer = made;
  return LWMQ_OK;
}

}  // namespace lwmq::patterns
