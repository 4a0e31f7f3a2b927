#include "patterns/requests.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <new>
#include <utility>

#include "os/clock.h"
#include "os/deadline.h"
#include "os/futex.h"
#include "os/identity.h"

namespace lwmq::patterns {

using conversation::Messages;

namespace {

constexpr std::uint64_t kCapacityMin = 64;
constexpr std::uint32_t kAtOnce = 32;  // messages
// A request that another thread makes may be due before what the receiver waits for.
constexpr std::uint32_t kSliceMs = 200;

std::uint64_t fresh_asker() noexcept {
  std::uint64_t asker = 0;
  os::random_bytes(&asker, sizeof asker);
  return asker;
}

bool head_of(const Message& message, wire::RequestHead* out_head) noexcept {
  return message.frame_count() > 0 &&
         wire::read_head(message.frames()[0].data, message.frames()[0].bytes, out_head);
}

// A failure has a kind and a text behind its head.
bool is_well_formed(const Message& message, wire::RequestKind kind) noexcept {
  if (kind == wire::RequestKind::kReply) return true;
  return kind == wire::RequestKind::kFailure && message.frame_count() == 3 &&
         message.frames()[1].bytes <= wire::kFailureTextMax &&
         message.frames()[2].bytes <= wire::kFailureTextMax;
}

// So much of a text as a failure may have, without half a character at its end.
std::uint64_t bytes_of_text(const char* text) noexcept {
  std::uint64_t bytes = strnlen(text, wire::kFailureTextMax + 1);
  if (bytes <= wire::kFailureTextMax) return bytes;
  --bytes;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) --bytes;
  return bytes;
}

}  // namespace

// ---- Making -----------------------------------------------------------------------------------------

Requests::Requests(Channel* channel, ChannelQueue* queue, std::uint64_t outstanding_max)
    : asker_(fresh_asker()),
      outstanding_max_(outstanding_max),
      queue_(queue),
      address_(channel->address()),
      channel_(channel) {}

Status Requests::create(Channel* channel, ChannelQueue* queue, std::uint64_t outstanding_max,
                        Requests** out_requests) {
  if (queue == nullptr) {
    if (const Status status = channel->common_queue(&queue); status != LWMQ_OK) return status;
  } else if (queue->channel != channel) {
    return fail(LWMQ_E_INVALID, "a send queue of %s, not of the channel that is asked over (%s)",
                queue->channel->address().c_str(), channel->address().c_str());
  }
  auto* made = new (std::nothrow) Requests(channel, queue, outstanding_max);
  if (made == nullptr) return fail(LWMQ_E_NO_MEMORY, "no memory for requests");
  *out_requests = made;
  return LWMQ_OK;
}

// In a forked child it is the parent's, in the middle of whatever a thread of that did.
Requests::~Requests() {
  if (os::forked()) return;
  Completions dropped;
  {
    const std::lock_guard lock(mutex_);
    channel_ = nullptr;  // from here on forget leaves us alone
  }
  while (on_heap_ > 0) drop(take_out(heap_[0]->number), dropped);
  while (first_settled_ != nullptr) drop(pop_settled(), dropped);
}

// With the mutex, or alone.
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

// Where it hangs, or would: then it is null there.
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
  if (pending->is_awaited) return;  // whoever waits for it has it
  (first_settled_ == nullptr ? first_settled_ : last_settled_->next) = pending;
  last_settled_ = pending;
}

Requests::Pending* Requests::pop_settled() noexcept {
  Pending* const first = first_settled_;
  first_settled_ = std::exchange(first->next, nullptr);
  return first;
}

void Requests::expire() noexcept {
  if (on_heap_ == 0 || heap_[0]->due_ns == os::kNoDeadline) return;
  const std::int64_t now = os::now_ns();
  while (on_heap_ > 0 && heap_[0]->due_ns <= now) {
    ++counts_.timed_out;
    settle(take_out(heap_[0]->number));
  }
}

// With the last failure of this thread: where that tells of the end of a peer, what was asked before it.
// False: nothing was.
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
    pending->ending = ending;  // where memory is short, its time is over
    if (ending != nullptr) ++ending->users;
    ++counts_.lost;
    settle(pending);
  }
  for (std::uint64_t place = on_heap_ / 2; place-- > 0;) sift_down(place);
  return on_heap_ < before;
}

// ---- Asking -----------------------------------------------------------------------------------------

// `out_awaited`: where it is given, the caller alone is told of it, and drops it.
Status Requests::enlist(const Message& message, std::uint32_t timeout_ms, Pending** out_awaited,
                        std::uint64_t* out_number, std::optional<Shared::Inside>* out_inside) noexcept {
  wire::RequestHead head;
  const std::lock_guard lock(mutex_);
  if (channel_ == nullptr) return fail(LWMQ_E_CLOSED, "the channel was destroyed (%s)", address_.c_str());
  if (!head_of(message, &head) || head.kind != wire::RequestKind::kRequest || head.asker != asker_ ||
      head.number == 0 || head.number > made_ || (capacity_ > 0 && *find(head.number) != nullptr)) {
    return fail(LWMQ_E_INVALID,
                "a message that lwmq_requests_make has not made for these requests, or that is outstanding "
                "already (%s)",
                address_.c_str());
  }
  // Who waits for a reply receives, and that needs an open channel.
  if (out_awaited != nullptr && channel_->first().is_created()) return channel_->first().refuse_phase();
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
  out_inside->emplace(channel_->shared());
  *out_number = head.number;
  if (out_awaited != nullptr) *out_awaited = pending;
  return LWMQ_OK;
}

// What was enlisted; from then on others may tell of it, and drop it, but for what is awaited. Where the post
// fails it is outstanding no more.
Status Requests::post(Message* message, std::uint64_t number, Pending* awaited) noexcept {
  const Status status = Channel::post(queue_, message, 0);
  if (status == LWMQ_OK) return LWMQ_OK;
  Completions dropped;
  const std::lock_guard lock(mutex_);
  Pending* const outstanding = take_out(number);
  if (outstanding != nullptr) ++counts_.given_up;
  if (outstanding == nullptr && awaited == nullptr) {
    cancel_settled(number, dropped);
  } else {
    drop(outstanding != nullptr ? outstanding : awaited, dropped);
  }
  return status;
}

Status Requests::submit(Message* message, std::uint32_t timeout_ms, std::uint64_t* out_number) noexcept {
  std::optional<Shared::Inside> inside;
  const Status status = enlist(*message, timeout_ms, nullptr, out_number, &inside);
  return status == LWMQ_OK ? post(message, *out_number, nullptr) : status;
}

Status Requests::ask(Message* message, std::uint32_t timeout_ms, bool* out_taken,
                     Message** out_reply) noexcept {
  Pending* pending = nullptr;
  std::uint64_t number = 0;
  Status status = LWMQ_OK;
  {
    std::optional<Shared::Inside> inside;
    status = enlist(*message, timeout_ms, &pending, &number, &inside);
    if (status == LWMQ_OK) status = post(message, number, pending);
  }
  *out_taken = status == LWMQ_OK;
  if (status != LWMQ_OK) return status;
  Pending* settled = nullptr;
  status = wait(pending, LWMQ_FOREVER, &settled);
  if (settled != nullptr) return tell(settled, out_reply);
  Completions dropped;
  const std::lock_guard lock(mutex_);  // a signal has ended the wait, or memory is short: nobody asks again
  if (take_out(number) != nullptr) ++counts_.given_up;
  drop(pending, dropped);
  return status;
}

// False: it was told, or is none.
bool Requests::cancel_settled(std::uint64_t number, Completions& dropped) noexcept {
  Pending* before = nullptr;
  Pending* settled = first_settled_;
  for (; settled != nullptr && settled->number != number; settled = settled->next) before = settled;
  if (settled == nullptr) return false;
  (before == nullptr ? first_settled_ : before->next) = settled->next;
  if (last_settled_ == settled) last_settled_ = before;
  drop(settled, dropped);
  return true;
}

Status Requests::cancel(std::uint64_t number) noexcept {
  Completions dropped;
  const std::lock_guard lock(mutex_);
  Pending* const outstanding = capacity_ == 0 ? nullptr : *find(number);
  if (outstanding == nullptr) return cancel_settled(number, dropped) ? LWMQ_OK : LWMQ_E_EMPTY;
  if (outstanding->is_awaited) return LWMQ_E_EMPTY;
  ++counts_.given_up;
  drop(take_out(number), dropped);
  return LWMQ_OK;
}

// ---- Waiting ----------------------------------------------------------------------------------------

void Requests::file_with_mutex(Message* message, Completions& dropped) noexcept {
  wire::RequestHead head;
  Pending* pending = nullptr;
  if (!head_of(*message, &head) || !is_well_formed(*message, head.kind)) {
    ++counts_.malformed;
  } else if (head.asker != asker_) {
    ++counts_.foreign;
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
  tell_followers();
}

void Requests::lose(Status status) noexcept {
  const std::lock_guard lock(mutex_);
  fail_all(status);
  tell_followers();
}

void Requests::tell_followers() noexcept {
  looks_.fetch_add(1, std::memory_order_relaxed);  // under the mutex
  if (followers_ > 0) os::futex_wake_all(looks_, os::Sleepers::kOfThisProcess);
}

// Receives with the mutex given up, and files what has come. What concerns nobody is the answer; but who
// waits for one reply does not want to hear of the end of a peer that was never asked for it.
Status Requests::receive_some(std::unique_lock<std::mutex>& lock, std::uint32_t timeout_ms,
                              bool is_asking) noexcept {
  Message* messages[kAtOnce];
  Messages into(messages, kAtOnce);
  is_receiving_ = true;
  Status status = LWMQ_OK;
  bool was_open = true;
  {
    Channel& channel = *channel_;
    const Shared::Inside inside(channel.shared());  // under the mutex: who destroys it takes that first
    was_open = !channel.first().is_created();
    lock.unlock();
    status = channel.take({timeout_ms}, into);
  }
  lock.lock();
  is_receiving_ = false;
  Completions dropped;
  if (status == LWMQ_OK) {
    for (std::uint32_t i = 0; i < into.count(); ++i) file_with_mutex(messages[i], dropped);
  } else if (is_failure(status) && status != LWMQ_E_NO_MEMORY && was_open &&
             (fail_all(status) || (error_tag() != 0 && is_asking))) {
    status = LWMQ_OK;
  }
  tell_followers();
  if (!dropped.empty()) {  // RELEASE call-backs may run, under no lock of ours
    lock.unlock();
    dropped.destroy();
    lock.lock();
  }
  return status;
}

// Sleeps until whoever receives has looked.
Status Requests::follow(std::unique_lock<std::mutex>& lock, std::uint32_t timeout_ms) noexcept {
  const std::uint32_t seen = looks_.load(std::memory_order_relaxed);
  ++followers_;
  lock.unlock();
  const Status status = os::wait_for_change(seen, os::deadline_of(timeout_ms), looks_);
  lock.lock();
  --followers_;
  return status;
}

// Until `own` is settled, or where it is null any that nobody waits for: then *out_pending is the caller's. A
// receiver with a limit of 0 looks once.
Status Requests::wait(Pending* own, std::uint32_t timeout_ms, Pending** out_pending) noexcept {
  const std::int64_t deadline = os::deadline_of(timeout_ms);
  std::unique_lock lock(mutex_);
  for (bool looked = false;;) {
    expire();
    if (own != nullptr ? own->is_settled : first_settled_ != nullptr) {
      *out_pending = own != nullptr ? own : pop_settled();
      return LWMQ_OK;
    }
    if (channel_ == nullptr) return fail(LWMQ_E_CLOSED, "the channel was destroyed (%s)", address_.c_str());
    const std::uint32_t left = timeout_ms == 0 ? 0 : os::ms_left(deadline);
    if (left == 0 && (looked || is_receiving_)) return timeout_ms == 0 ? LWMQ_E_EMPTY : LWMQ_E_TIMED_OUT;
    const std::uint32_t due = on_heap_ == 0 ? LWMQ_FOREVER : os::ms_left(heap_[0]->due_ns);
    const std::uint32_t most = std::min({left, due, kSliceMs});
    looked = true;
    const Status status = is_receiving_ ? follow(lock, most) : receive_some(lock, most, own != nullptr);
    const bool is_there = own != nullptr && own->is_settled;  // filed by another thread meanwhile
    if (!is_there && (status == LWMQ_E_INTERRUPTED || is_failure(status))) return status;
  }
}

// Takes what was settled.
Status Requests::tell(Pending* pending, Message** out_reply) noexcept {
  Status status = LWMQ_OK;
  Message* const reply = std::exchange(pending->reply, nullptr);
  if (reply != nullptr && !pending->is_failure) {
    *out_reply = reply;
  } else if (reply != nullptr) {
    const Frame& kind = reply->frames()[1];
    const Frame& text = reply->frames()[2];
    status = fail(LWMQ_E_HANDLER, "the peer's handler failed: %.*s%s%.*s (%s)", static_cast<int>(kind.bytes),
                  reinterpret_cast<const char*>(kind.data), kind.bytes > 0 && text.bytes > 0 ? ": " : "",
                  static_cast<int>(text.bytes), reinterpret_cast<const char*>(text.data), address_.c_str());
    Message::destroy(reply);
  } else if (pending->ending != nullptr) {
    status = fail(pending->ending->status, "%s", pending->ending->text);
  } else {
    status = fail(LWMQ_E_TIMED_OUT, "no reply to request %" PRIu64 " within %u ms (%s)", pending->number,
                  pending->timeout_ms, address_.c_str());
  }
  Completions none;
  const std::lock_guard lock(mutex_);
  drop(pending, none);
  return status;
}

Status Requests::next(std::uint32_t timeout_ms, std::uint64_t* out_number, Message** out_reply) noexcept {
  *out_number = 0;
  *out_reply = nullptr;
  Pending* settled = nullptr;
  const Status status = wait(nullptr, timeout_ms, &settled);
  if (settled == nullptr) return status;
  *out_number = settled->number;
  return tell(settled, out_reply);
}

void Requests::forget(const Channel* channel) noexcept {
  const std::lock_guard lock(mutex_);
  if (channel_ != channel) return;
  fail_all(fail(LWMQ_E_CLOSED, "the channel was destroyed (%s)", address_.c_str()));
  channel_ = nullptr;
  tell_followers();
}

void Requests::query(lwmq_requests_statistics* out_statistics) noexcept {
  const std::lock_guard lock(mutex_);
  *out_statistics = counts_;
  out_statistics->outstanding = on_heap_;
  out_statistics->due_ms = on_heap_ == 0 ? LWMQ_FOREVER : os::ms_left(heap_[0]->due_ns);
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
