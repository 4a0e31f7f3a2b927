#include "sockets/transport.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <new>

#include "base/checked.h"
#include "base/crc32c.h"
#include "os/clock.h"
#include "os/deadline.h"
#include "os/identity.h"
#include "os/spin.h"
#include "sockets/handshake.h"
#include "sockets/net.h"
#include "stats/process_counters.h"

namespace lwmq::sockets {
namespace {

constexpr std::uint64_t kHeadBytes = sizeof(lane::MirrorHead);
// So much is shown before it goes out although nobody has flushed: the connection works meanwhile.
constexpr std::uint64_t kSendAfterBytes = 64 * kKiB;
// So much is summed and sent, or received and summed, before the next: it is still in a cache the second
// time.
constexpr std::uint64_t kAtOnceBytes = 512 * kKiB;
// If so much of a piece is to come, io_uring receives the rest with one call.
constexpr std::uint64_t kRestBytes = 64 * kKiB;
constexpr auto kRange = static_cast<std::uint32_t>(lane::MirrorKind::kRange);
constexpr auto kOpening = static_cast<std::uint32_t>(lane::MirrorKind::kOpening);
constexpr auto kPush = static_cast<std::uint32_t>(lane::MirrorKind::kPush);
constexpr auto kSide = static_cast<std::uint32_t>(lane::MirrorKind::kSide);
// So many flushes make a burst, with no more than that between the end of one and the next.
constexpr std::uint32_t kBurst = 16;
constexpr std::int64_t kBurstGapNs = 5'000;
constexpr int kLooksForMore = 10;  // of the net thread, which all find nothing: the burst is over
constexpr const char kSilent[] = "gives no sign of life";
// Of a piece that goes through the stream of a link although its bytes could be written to the peer's memory.
constexpr std::uint64_t kInStreamMax = 256;
constexpr std::size_t kPushesMax = 65536;  // pieces that wait to go
constexpr int kReadsAtOnce = 16;           // so that a peer that sends without end holds up nobody
// How long a thread looks at the socket before it sleeps: what a sleep and a wake-up cost.
constexpr std::int64_t kLookNs = 50'000;
// Where so much came at a time, more has gathered after that time. Each look is a system call.
constexpr std::uint64_t kFloodBytes = 16 * kKiB;
constexpr std::int64_t kFloodPauseNs = 16'000;

bool is_written_range(std::uint32_t kind) noexcept {
  return kind == (kRange | lane::kWritten) || kind == (kOpening | lane::kWritten);
}

Status forked_text() noexcept {
  return fail(LWMQ_E_CLOSED, "forked: this transport is the parent process's");
}

}  // namespace

// ---- Beginning ---------------------------------------------------------------------------------------

Transport::Transport() noexcept = default;
// Before the lane's memory goes, the peer can write there no more.
Transport::~Transport() { socket_.reset(); }

// The lanes, once both ends know of each other. `socket_` is there.
Status Transport::begin(const lwmq_tli_options& options, const Hello& hello, const std::string& place) {
  describe_peer(hello, place, &peer_);
  buffers_owed_max_ = std::max(hello.buffers / 4, 1u);
  is_checked_ = socket_.tls() == nullptr && socket_.link() == nullptr;
  const Wishes& wishes = socket_.wishes();
  if (wishes.uring) engine_.store(Engine::kUringAsked, std::memory_order_relaxed);
  if (wishes.silent_s != family_->silent_s && family_->prepare != nullptr)
    family_->prepare(socket(), wishes.silent_s);
  in_.reset(new (std::nothrow) std::uint8_t[kInBytes]);
  if (in_ == nullptr || !mirror_.init(options, hello.buffers, hello.buffer_bytes)) {
    return fail(LWMQ_E_NO_MEMORY, "%s: no memory for %u and %u buffers", address_.c_str(),
                options.buffers_send, hello.buffers);
  }
  const bool is_raw = options.purpose == LWMQ_TLI_FOR_RAW;
  if (options.secure_erase != 0) mirror_.sender().erase_buffers(is_raw);
  wake_ = os::UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE));
  if (!wake_) return fail_call(LWMQ_E_SYSTEM, errno, "%s: eventfd", address_.c_str());
  return socket_.link() != nullptr ? share_memory() : LWMQ_OK;
}

// Over a link: the peer writes into our mirror of its buffers, and we write from our own.
Status Transport::share_memory() {
  Link& link = *socket_.link();
  const auto [own, own_bytes] = mirror_.own_buffers();
  const auto [mirror, mirror_bytes] = mirror_.peer_buffers();
  Status status = link.know(own, own_bytes);
  if (status == LWMQ_OK) status = link.expose(mirror, mirror_bytes, &exposed_);
  if (status != LWMQ_OK) {
    add_context(address_.c_str());
    return status;
  }
  if (socket_.wishes().silent_s > 0) Net::instance().watch_answers(shared_from_this(), look_ms());
  const std::lock_guard lock(out_mutex_);
  send_some();
  return LWMQ_OK;
}

Status Transport::serve(Socket* socket, const Address& address, const lwmq_tli_options& options,
                        const Hello& hello, const Place& peer, std::shared_ptr<Poll> door,
                        Transport** out_transport) {
  auto made = std::make_shared<Transport>();
  made->family_ = address.family;
  made->address_ = address.text;
  made->socket_ = std::move(*socket);
  Status status = made->begin(options, hello, address.family->text(peer));
  if (status == LWMQ_OK) status = door->add(made->socket(), 0);
  if (status != LWMQ_OK) {
    *socket = std::move(made->socket_);
    return status;
  }
  made->poll_ = std::move(door);
  made->self_ = made;
  *out_transport = made.get();
  return LWMQ_OK;
}

Status Transport::connect(const Family& family, const char* address, const lwmq_tli_options* options,
                          Transport** out_transport) {
  auto made = std::make_shared<Transport>();
  made->meeting_ = std::make_unique<Meeting>();
  made->family_ = &family;
  made->address_ = address;
  const Status status = made->meeting_->begin(family, address, *options);
  if (status != LWMQ_OK) return status;
  made->self_ = made;
  *out_transport = made.get();
  return LWMQ_OK;
}

Status Transport::proceed() {
  if (meeting_ == nullptr) return LWMQ_OK;
  Greeting greeting{};
  Status status = meeting_->proceed(&greeting);
  if (status != LWMQ_OK) return status;
  socket_ = std::move(meeting_->socket);
  socket_.wish(meeting_->own.wishes);
  status = begin(meeting_->options, greeting.hello, meeting_->place());
  if (status != LWMQ_OK) return status;
  {
    const std::lock_guard lock(poll_mutex_);
    poll_.reset();  // that of the meeting
    has_own_poll_ = false;
  }
  meeting_.reset();
  return LWMQ_OK;
}

// ---- State -------------------------------------------------------------------------------------------

void Transport::end(std::int32_t state) noexcept {
  std::int32_t connected = LWMQ_TLI_CONNECTED;
  end_.compare_exchange_strong(connected, state, std::memory_order_release, std::memory_order_relaxed);
}

Status Transport::over() noexcept {
  if (os::forked()) return forked_text();
  if (end_.load(std::memory_order_acquire) == LWMQ_TLI_CLOSED)
    return fail(LWMQ_E_CLOSED, "%s: the peer (%s) has closed", address_.c_str(), peer_.name);
  const bool is_broken = is_broken_.load(std::memory_order_relaxed);
  return fail(LWMQ_E_PEER_LOST, "%s: the peer (%s) %s", address_.c_str(), peer_.name,
              is_broken                                    ? "broke the protocol"
              : is_silent_.load(std::memory_order_relaxed) ? kSilent
                                                           : "died or vanished");
}

void Transport::peer(lwmq_tli_peer* out_peer) const noexcept {
  *out_peer = peer_;
  if (!is_silent_.load(std::memory_order_relaxed)) return;
  std::snprintf(out_peer->name, sizeof out_peer->name, "%.70s, whose host %s", peer_.name, kSilent);
}

std::int32_t Transport::state(lwmq_tli_figures* out_figures) noexcept {
  if (os::forked()) return LWMQ_TLI_LOST;
  read_some();
  go_on();
  if (out_figures != nullptr) mirror_.sender().fill(out_figures);
  return end_.load(std::memory_order_acquire);
}

// ---- Sending -----------------------------------------------------------------------------------------

Status Transport::acquire(lwmq_tli_buffer* out_buffer) noexcept {
  if (!is_connected()) return over();
  Status status = mirror_.sender().acquire(out_buffer);
  if (status == LWMQ_E_FULL) {
    send_now();  // the peer gives back what it has got
    read_some();
    go_on();
    if (!is_connected()) return over();
    status = mirror_.sender().acquire(out_buffer);
  }
  wants_room_.store(status == LWMQ_E_FULL, std::memory_order_relaxed);
  return status;
}

Status Transport::show(lwmq_tli_buffer* buffer, std::uint64_t bytes, std::uint32_t kind) noexcept {
  if (!is_connected()) [[unlikely]]
    return over();
  if (const Status status = mirror_.sender().show(buffer, bytes, kind); status != LWMQ_OK) return status;
  shown(*buffer, bytes);
  return LWMQ_OK;
}

std::uint64_t Transport::show_run(lwmq_tli_buffer* buffer, const lwmq_bytes* frames, std::uint64_t count,
                                  std::uint32_t kind, std::uint64_t* out_bytes) noexcept {
  if (!is_connected()) return 0;
  const std::uint64_t frames_shown = mirror_.sender().show_run(buffer, frames, count, kind, out_bytes);
  if (frames_shown > 0) shown(*buffer, *out_bytes);
  return frames_shown;
}

// `bytes` more of the buffer, up to where it goes on now.
void Transport::shown(const lwmq_tli_buffer& buffer, std::uint64_t bytes) noexcept {
  const auto place = lane::LaneSender::place_of(buffer);
  if (pending_ && pending_->buffer != place.buffer) [[unlikely]] {
    const std::lock_guard lock(out_mutex_);
    note_pending();
  }
  pending_ = place;
  unflushed_ += bytes;
  // Over a link, a message is one write and one note, however large it is.
  if (unflushed_ >= kSendAfterBytes && socket_.link() == nullptr) [[unlikely]]
    flush();
}

Status Transport::ship(lwmq_tli_buffer* buffer) noexcept {
  if (os::forked()) return forked_text();
  const auto place = lane::LaneSender::place_of(*buffer);
  const std::lock_guard lock(out_mutex_);
  note_pending();
  mirror_.sender().ship(buffer);
  mirror_.shipped(place);
  has_shipped_ = true;
  return LWMQ_OK;
}

void Transport::abandon(lwmq_tli_buffer* buffer) noexcept {
  mirror_.sender().abandon(buffer);
  if (outstanding_.keeps_lent() && outstanding_.came_back(1)) self_.reset();
}

void Transport::flush() noexcept {
  if (os::forked()) return;
  unflushed_ = 0;
  const std::lock_guard lock(out_mutex_);
  note_pending();
  if (is_gathering_ && !has_shipped_) return;
  has_shipped_ = false;
  if (!is_gathering_ && is_burst()) {
    is_gathering_ = true;
    looks_for_more_ = 0;
    Net::instance().gather(shared_from_this());
  }
  send_some();
  flushed_ns_ = os::now_ns();
}

// For the sending thread, before it waits.
void Transport::send_now() noexcept {
  const std::lock_guard lock(out_mutex_);
  note_pending();
  send_some();
}

// Since the last flush the sending thread has done nothing but show the next message, again and again.
bool Transport::is_burst() noexcept {
  const bool is_next = os::now_ns() - flushed_ns_ < kBurstGapNs;
  const std::uint32_t burst = is_next ? burst_.load(std::memory_order_relaxed) + 1 : 0;
  burst_.store(burst, std::memory_order_relaxed);
  return burst >= kBurst;
}

bool Transport::send_gathered() noexcept {
  const std::lock_guard lock(out_mutex_);
  looks_for_more_ = mirror_.has_pieces() ? 0 : looks_for_more_ + 1;
  is_gathering_ = looks_for_more_ < kLooksForMore && !is_blocked_;  // blocked: EPOLLOUT goes on
  send_some();
  return is_gathering_;
}

// With out_mutex_, on the sending thread.
void Transport::note_pending() noexcept {
  if (pending_) mirror_.shown(*pending_);
  pending_.reset();
}

// The next piece for the socket. An account goes with whatever else goes.
bool Transport::next_out(Out* out) noexcept {
  Link* const link = socket_.link();
  if (link != nullptr && !has_told_side_) {
    has_told_side_ = true;
    *out = {};
    out->piece = {{static_cast<std::uint32_t>(lane::MirrorKind::kSide), 0, 0, exposed_.at, exposed_.key, 0},
                  nullptr};
    return true;
  }
  if (!pushes_.empty()) {  // first: what is shown later must not overtake them
    *out = pushes_.front();
    pushes_.pop_front();
    ++pushes_out_;
    return true;
  }
  *out = {};
  if (mirror_.next_piece(&out->piece)) {
    wants_account_ = true;
    out->is_written = link != nullptr && out->piece.head.bytes > kInStreamMax;
    if (out->is_written) out->piece.head.kind |= lane::kWritten;
    return true;
  }
  if (wants_account_ && !has_account_out_) {
    wants_account_ = false;
    if (mirror_.account(&out->piece)) {
      out->is_account = has_account_out_ = true;
      return true;
    }
  }
  if (!is_closing_ || has_said_closing_) return false;
  has_said_closing_ = true;
  out->piece = {{static_cast<std::uint32_t>(lane::MirrorKind::kClosing), 0, 0, unsent_, 0, 0}, nullptr};
  return true;
}

// What is to be sent of a piece, as up to three of the socket's. Takes up to `*room` of its bytes.
std::size_t Transport::gather(Out& out, std::uint64_t* room, iovec* out_pieces) noexcept {
  std::size_t count = 0;
  const std::uint64_t bytes = out.is_written ? 0 : out.piece.head.bytes;
  if (out.is_push && out.is_written) return 0;
  if (out.sent < kHeadBytes) {
    auto* const head = reinterpret_cast<std::uint8_t*>(&out.piece.head);
    out_pieces[count++] = {head + out.sent, kHeadBytes - out.sent};
  }
  const std::uint64_t from = std::min(bytes, out.sent > kHeadBytes ? out.sent - kHeadBytes : 0);
  const std::uint64_t to = from + std::min(bytes - from, *room);
  if (to > from) out_pieces[count++] = {const_cast<std::uint8_t*>(out.piece.bytes) + from, to - from};
  *room -= to - from;
  if (!is_checked_) return count;
  if (to > out.summed) {
    out.crc = crc32c(out.crc, out.piece.bytes + out.summed, to - out.summed);
    out.summed = to;
  }
  if (to == bytes) {
    const std::uint64_t gone = out.sent > kHeadBytes + bytes ? out.sent - kHeadBytes - bytes : 0;
    out_pieces[count++] = {reinterpret_cast<std::uint8_t*>(&out.crc) + gone, sizeof out.crc - gone};
  }
  return count;
}

// As much as the socket takes; the net thread goes on with the rest.
void Transport::send_some() noexcept {
  while (!is_blocked_ && end_.load(std::memory_order_relaxed) == LWMQ_TLI_CONNECTED) {
    if (out_begin_ == out_end_) out_begin_ = out_end_ = 0;
    while (out_end_ < kOutMax && next_out(&out_[out_end_])) {
      out_[out_end_].crc = is_checked_ ? crc32c(0, &out_[out_end_].piece.head, kHeadBytes) : 0;
      ++out_end_;
    }
    if (out_begin_ == out_end_ && !socket_.has_unsent()) return;
    iovec pieces[3 * kOutMax];
    std::size_t count = 0;
    std::uint64_t room = kAtOnceBytes;
    bool lacks_room = false;
    std::uint32_t gathered = out_begin_;
    for (; gathered < out_end_ && room > 0 && !lacks_room; ++gathered) {
      lacks_room = out_[gathered].is_written && !write_memory(out_[gathered]);
      if (!lacks_room) count += gather(out_[gathered], &room, &pieces[count]);
    }
    const ssize_t sent =
        count > 0 || (!lacks_room && gathered == out_begin_) ? socket_.write(pieces, count) : 0;
    if (sent < 0 && errno == EINTR) continue;
    if ((sent < 0 && (errno == EAGAIN || errno == ENOBUFS)) || (sent == 0 && lacks_room)) {
      if (wait_for_room()) continue;
      return;
    }
    if (sent < 0) return;  // the peer has gone: whoever reads finds out how
    if (!is_looked_at_ && family_->answer != nullptr && socket_.wishes().silent_s > 0) {
      is_looked_at_ = true;
      Net::instance().watch_answers(shared_from_this(), kLookMs);
    }
    pop_sent(static_cast<std::uint64_t>(sent));
  }
}

// So many bytes of out_ have gone by the stream, and perhaps others to the peer's memory.
void Transport::pop_sent(std::uint64_t bytes) noexcept {
  for (; out_begin_ < out_end_; ++out_begin_) {
    Out& out = out_[out_begin_];
    const std::uint64_t rest = size_of(out) - out.sent;
    if (bytes < rest || (out.is_written && out.summed < out.piece.head.bytes)) {
      out.sent += bytes;
      return;
    }
    bytes -= rest;
    if (out.is_account) has_account_out_ = false;
    if (out.is_push) --pushes_out_;
    if (out.ends_push) pushed_.emplace_back(out.token, out.last_write);
  }
}

// Over a link: as much as it takes of the bytes for the peer's memory. False: there is more, or the peer has
// not told yet where its memory is.
bool Transport::write_memory(Out& out) noexcept {
  Exposed to = out.to;
  if (!out.is_push) {
    if (!can_write_.load(std::memory_order_acquire)) return false;
    const std::uint8_t* const from = mirror_.own_buffers().data;
    to = {peer_mirror_.at + static_cast<std::uint64_t>(out.piece.bytes - from), peer_mirror_.key};
  }
  const std::uint64_t bytes = out.piece.head.bytes;
  while (out.summed < bytes) {
    const ssize_t begun =
        socket_.link()->write_memory(out.piece.bytes + out.summed, bytes - out.summed,
                                     {to.at + out.summed, to.key}, out.ends_push, &out.last_write);
    if (begun < 0) return false;
    out.summed += static_cast<std::uint64_t>(begun);
  }
  return true;
}

// True: there is room again. Else the net thread goes on, or a thread that reads from a link: that has no
// news of room alone.
bool Transport::wait_for_room() noexcept {
  if (socket_.link() != nullptr) {
    waits_for_room_.store(true);
    if (socket_.arm() && read_some()) return true;  // else another thread reads now, and goes on behind that
  }
  is_blocked_ = true;
  Net::instance().watch(shared_from_this(), socket_.link() != nullptr ? EPOLLIN : EPOLLOUT);
  return false;
}

// Of a thread that has read from a link.
void Transport::go_on() noexcept {
  if (!waits_for_room_.load(std::memory_order_relaxed) || !waits_for_room_.exchange(false)) return;
  const std::lock_guard lock(out_mutex_);
  is_blocked_ = false;
  send_some();
}

// What the peer may know of its buffers, now.
void Transport::tell_account() noexcept {
  const std::lock_guard lock(out_mutex_);
  wants_account_ = true;
  send_some();
}

// The same, of buffers that it waits for, perhaps.
void Transport::tell_owed() noexcept {
  if (mirror_.owes_buffers()) tell_account();
}

// ---- Receiving ---------------------------------------------------------------------------------------

// That of a thread that waits. Null: epoll serves. The first wait decides, and counts what it has decided.
os::Uring* Transport::ring() noexcept {
  Engine engine = engine_.load(std::memory_order_relaxed);
  if (engine == Engine::kEpoll) return nullptr;
  os::Uring* ring = socket_.tls() == nullptr ? os::Uring::of_this_thread() : nullptr;
  if (engine == Engine::kUringAsked &&
      engine_.compare_exchange_strong(engine, ring != nullptr ? Engine::kUring : Engine::kEpoll)) {
    stats::ProcessCounters& counters = stats::process();
    stats::add(ring != nullptr ? counters.uring_connections : counters.uring_refused, 1);
  }
  return ring;
}

// With in_mutex_: receives by io_uring. Looks for as long as a thread does before it sleeps, and then sleeps.
ssize_t Transport::receive(const iovec* room, std::size_t count, bool all, const Sleep& sleep) noexcept {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(room);
  message.msg_iovlen = count;
  os::Uring& ring = sleep.ring;
  ring.begin(socket(), &message, all);
  const bool looks = !all;  // a large rest takes longer than a sleep costs
  if (looks && ring.look(kLookNs)) return ring.finish(0);
  sleepers_.fetch_add(1);
  mirror_.receiver().say_received(sleep.what);
  tell_account();
  const ssize_t got = ring.finish(sleep.timeout_ms);
  sleepers_.fetch_sub(1);
  return got;
}

// Takes what has come; with `sleep`, waits for it. False: nothing has, or another thread does so.
bool Transport::read_some(Sleep* sleep) noexcept {
  const std::unique_lock lock(in_mutex_, std::try_to_lock);
  if (!lock.owns_lock() || end_.load(std::memory_order_acquire) != LWMQ_TLI_CONNECTED) return false;
  const bool by_uring = engine_.load(std::memory_order_relaxed) == Engine::kUring;
  bool some = false, slept = false;
  std::uint64_t bytes = 0;
  if (sleep != nullptr) sleep->has_read = true;
  for (int i = 0; !slept; ++i) {
    if (in_begin_ == in_end_) in_begin_ = in_end_ = 0;
    if (in_end_ == kInBytes) {  // what is left of a head goes to the front
      std::memmove(&in_[0], &in_[in_begin_], in_end_ - in_begin_);
      in_end_ -= in_begin_;
      in_begin_ = 0;
    }
    // Straight to where it belongs.
    const std::uint64_t direct = in_begin_ == in_end_ ? std::min(left_, kAtOnceBytes) : 0;
    slept = sleep != nullptr;
    const bool is_one_call = by_uring && direct >= kRestBytes && family_->takes_wait_all;
    if (i > 0 && is_one_call) break;  // a wait makes it
    const bool all = slept && is_one_call;
    const std::uint64_t behind = direct < left_ ? 0 : all ? sizeof crc_ : kInBytes - in_end_;
    const iovec room[2] = {{where_, direct}, {&in_[in_end_], behind}};
    const iovec* first = direct > 0 ? room : room + 1;
    const std::size_t count = direct > 0 ? 2 : 1;
    // The rest has left the kernel: no poll would tell of it.
    const ssize_t got = slept              ? receive(first, count, all, *sleep)
                        : i < kReadsAtOnce ? socket_.read(first, count)
                                           : socket_.read_rest(first, count);
    if (slept) sleep->was_interrupted = got < 0 && errno == EINTR;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    some = true;
    if (got < 0 && (errno == ETIMEDOUT || errno == EHOSTUNREACH || errno == ENETUNREACH))
      is_silent_.store(true, std::memory_order_relaxed);
    if (got < 0 && errno == EPROTO) {
      add_context(address_.c_str());
      breach_.keep(LWMQ_E_CORRUPT);
      is_broken_.store(true, std::memory_order_relaxed);
    }
    if (got <= 0) {
      end(mirror_.peer_has_closed() ? LWMQ_TLI_CLOSED : LWMQ_TLI_LOST);
      break;
    }
    const auto came = static_cast<std::uint64_t>(got);
    bytes += came;
    const std::uint64_t placed = std::min(came, direct);
    in_end_ += came - placed;
    if (const Status status = parse(placed); status != LWMQ_OK) {
      add_context(address_.c_str());
      breach_.keep(status);
      is_broken_.store(true, std::memory_order_relaxed);
      end(LWMQ_TLI_LOST);
      break;
    }
    if (mirror_.peer_has_closed()) {  // nothing comes behind that
      end(LWMQ_TLI_CLOSED);
      break;
    }
    if (came < direct + room[1].iov_len) break;
  }
  if (some) {
    burst_.store(0, std::memory_order_relaxed);
    is_flood_.store(bytes >= kFloodBytes, std::memory_order_relaxed);
    tell_others();
  }
  return some;
}

// With in_mutex_: `bytes` more of a piece lie where they belong.
void Transport::placed(std::uint64_t bytes) noexcept {
  if (is_checked_ && bytes > 0) crc_ = crc32c(crc_, where_, bytes);
  where_ += bytes;
  left_ -= bytes;
}

// With in_mutex_: `direct` bytes lie where they belong already, the others in in_.
Status Transport::parse(std::uint64_t direct) noexcept {
  placed(direct);
  for (;;) {
    if (has_head_) {
      const std::uint64_t here = std::min(left_, in_end_ - in_begin_);
      if (here > 0) std::memcpy(where_, &in_[in_begin_], here);
      in_begin_ += here;
      placed(here);
      if (left_ > 0) return LWMQ_OK;
      if (is_checked_) {
        std::uint32_t told = 0;
        if (in_end_ - in_begin_ < sizeof told) return LWMQ_OK;
        std::memcpy(&told, &in_[in_begin_], sizeof told);
        in_begin_ += sizeof told;
        if (told != crc_) {
          return fail(LWMQ_E_CORRUPT,
                      "a piece of %" PRIu64 " bytes came damaged: its checksum is %08x, the sender's %08x",
                      head_.bytes, crc_, told);
        }
      }
      has_head_ = false;
      if (head_.kind == kPush) {
        landing_.store(0, std::memory_order_release);
      } else if (head_.kind == kSide) {
        peer_mirror_ = {head_.at, static_cast<std::uint32_t>(head_.word)};
        can_write_.store(true, std::memory_order_release);
      } else {
        if (const Status status = mirror_.take(head_); status != LWMQ_OK) return status;
      }
    }
    if (in_end_ - in_begin_ < kHeadBytes) return LWMQ_OK;
    std::memcpy(&head_, &in_[in_begin_], kHeadBytes);
    in_begin_ += kHeadBytes;
    const bool is_written = socket_.link() != nullptr && is_written_range(head_.kind);
    if (is_written) head_.kind &= ~lane::kWritten;
    if (const Status status = place(head_); status != LWMQ_OK) return status;
    left_ = is_written ? 0 : head_.bytes;
    if (is_checked_) crc_ = crc32c(0, &head_, kHeadBytes);
    has_head_ = true;
  }
}

// With in_mutex_: where the bytes behind the head go.
Status Transport::place(const lane::MirrorHead& head) noexcept {
  const bool is_side =
      head.kind == kSide && socket_.link() != nullptr && head.bytes == 0 && !can_write_.load();
  if (is_side) return LWMQ_OK;
  if (head.kind != kPush || socket_.link() != nullptr) return mirror_.place(head, &where_);
  const std::lock_guard lock(grants_mutex_);
  const auto found = grants_.find(head.word);
  if (found == grants_.end() || !fits(head.at, head.bytes, found->second.bytes)) {
    return fail(
        LWMQ_E_CORRUPT,
        "a push of %" PRIu64 " bytes at %" PRIu64 " of grant %" PRIu64 ", which has %" PRIu64 " bytes",
        head.bytes, head.at, head.word, found == grants_.end() ? std::uint64_t{0} : found->second.bytes);
  }
  where_ = found->second.memory + head.at;
  landing_.store(head.word, std::memory_order_relaxed);
  return LWMQ_OK;
}

// Other threads may wait for what this one has read.
void Transport::tell_others() noexcept {
  if (is_armed_.load(std::memory_order_relaxed) && is_armed_.exchange(false)) {
    if (const auto at = poll(); at != nullptr) at->ring();
  }
  if (const std::uint32_t sleepers = sleepers_.load(); sleepers > 0) {  // sync: sleeper
    const std::uint64_t wakes = sleepers;
    [[maybe_unused]] const auto written = write(wake_.get(), &wakes, sizeof wakes);
  }
}

Status Transport::land(std::uint32_t limit, std::uint32_t how, lwmq_tli_extent* out_extents,
                       lwmq_tli_landing* out_landing) noexcept {
  if (!os::still_ours()) return over();
  auto& receiver = mirror_.receiver();
  Status status = receiver.land(limit, out_extents, out_landing);
  if (status == LWMQ_E_EMPTY) {
    if (is_gathering_.load(std::memory_order_relaxed)) tell_account();  // a question goes out at once
    if ((how & LWMQ_TLI_LAND_SOON) != 0 && engine_.load(std::memory_order_relaxed) == Engine::kEpoll) {
      look(LWMQ_TLI_WAIT_EXTENT);
    } else {
      read_some();
    }
    // The end first: what the peer showed before it is then seen by land.
    const bool over_by_now = !is_connected();
    status = receiver.land(limit, out_extents, out_landing);
    if (status == LWMQ_E_EMPTY) {
      go_on();
      tell_account();
      if (!over_by_now) return LWMQ_E_EMPTY;
      if (!is_broken_.load(std::memory_order_relaxed)) return over();
      const std::lock_guard lock(in_mutex_);
      return breach_.status() != LWMQ_OK ? breach_.tell() : over();
    }
  }
  if (status == LWMQ_OK) [[likely]] {
    outstanding_.landed(out_landing->count);
    if (mirror_.owed_buffers() >= buffers_owed_max_) tell_owed();
    return LWMQ_OK;
  }
  add_context(address_.c_str());
  is_broken_.store(true, std::memory_order_relaxed);
  end(LWMQ_TLI_LOST);
  return status;
}

void Transport::release(const lwmq_tli_landing& landing, std::uint32_t count) noexcept {
  if (os::forked()) return;
  mirror_.receiver().release(landing, count);
  if (outstanding_.came_back(count)) {
    self_.reset();
    return;
  }
  // A thread that sleeps here has told what it knew; the others tell soon.
  if (mirror_.owed_buffers() >= buffers_owed_max_ || sleepers_.load() > 0 || is_armed_.load()) tell_owed();
}

void Transport::release_last(const lwmq_tli_landing& landing, std::uint32_t count) noexcept {
  if (!os::still_ours()) return;
  mirror_.receiver().release_last(landing, count);
  outstanding_.released_last(count);
  if (mirror_.owed_buffers() >= buffers_owed_max_) tell_owed();
}

// ---- Waiting -----------------------------------------------------------------------------------------

bool Transport::is_ready(std::uint32_t what) noexcept {
  return ((what & LWMQ_TLI_WAIT_EXTENT) != 0 && mirror_.receiver().has_extent()) ||
         ((what & LWMQ_TLI_WAIT_ROOM) != 0 && mirror_.sender().has_room()) || !is_connected();
}

// Reads the socket until something is ready, or for as long as a thread looks before it sleeps.
bool Transport::look(std::uint32_t what) noexcept {
  const std::int64_t until = os::now_ns() + kLookNs;
  for (;;) {
    read_some();
    go_on();
    if (is_ready(what)) return true;
    const std::int64_t now = os::now_ns();
    if (now >= until) return false;
    const std::int64_t next = is_flood_.load(std::memory_order_relaxed) ? now + kFloodPauseNs : now;
    do {
      os::pause();
    } while (os::now_ns() < next);
  }
}

Status Transport::wait(std::uint32_t what, std::uint32_t timeout_ms) noexcept {
  if (is_ready(what)) return LWMQ_OK;
  if (is_gathering_.load(std::memory_order_relaxed)) tell_account();
  os::Uring* const ring = timeout_ms > 0 ? this->ring() : nullptr;
  if (ring == nullptr) read_some();
  if (is_ready(what)) return LWMQ_OK;
  if (ring == nullptr && (timeout_ms == 0 || !look(what))) {
    mirror_.receiver().say_received(what);
    tell_account();
    if (timeout_ms == 0) return LWMQ_E_TIMED_OUT;
  }
  const std::int64_t deadline = os::deadline_of(timeout_ms);
  while (!is_ready(what)) {
    const std::uint32_t left_ms = os::ms_left(deadline);
    if (left_ms == 0) return LWMQ_E_TIMED_OUT;
    if (ring != nullptr) {
      Sleep sleep{*ring, what, left_ms};
      read_some(&sleep);
      if (sleep.was_interrupted) return LWMQ_E_INTERRUPTED;
      if (sleep.has_read) continue;
    }
    sleepers_.fetch_add(1);  // sync: sleeper
    read_some();
    int polled = 0;
    if (!is_ready(what) && !socket_.arm()) {
      pollfd both[2] = {{socket(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
      const int ms =
          left_ms == LWMQ_FOREVER ? -1 : static_cast<int>(std::min<std::uint32_t>(left_ms, INT32_MAX));
      polled = ::poll(both, 2, ms);
      if (polled < 0 && errno != EINTR) polled = 0;
      std::uint64_t one = 0;
      if (polled > 0 && (both[1].revents & POLLIN) != 0) {
        [[maybe_unused]] const auto taken = ::read(wake_.get(), &one, sizeof one);
      }
    }
    sleepers_.fetch_sub(1);
    if (polled < 0) return LWMQ_E_INTERRUPTED;
    read_some();
    go_on();
  }
  return LWMQ_OK;
}

std::shared_ptr<Poll> Transport::poll() noexcept {
  const std::lock_guard lock(poll_mutex_);
  return poll_;
}

// With poll_mutex_: one of our own.
Status Transport::make_poll() noexcept {
  if (has_own_poll_) return LWMQ_OK;
  auto made = std::make_shared<Poll>();
  Status status = made->open();
  const int fd = meeting_ != nullptr ? meeting_->socket.fd() : socket();
  if (status == LWMQ_OK && fd >= 0)
    status = made->add(fd, meeting_ == nullptr      ? 0u
                           : meeting_->wants_room() ? std::uint32_t{EPOLLIN | EPOLLOUT}
                                                    : std::uint32_t{EPOLLIN});
  if (status == LWMQ_OK && meeting_ != nullptr && meeting_->looked_up() >= 0)
    status = made->add(meeting_->looked_up(), EPOLLIN);
  if (status != LWMQ_OK) return status;
  if (poll_ != nullptr) poll_->remove(socket());
  poll_ = std::move(made);
  has_own_poll_ = true;
  return LWMQ_OK;
}

std::int32_t Transport::descriptor() noexcept {
  if (os::forked()) return -1;
  const std::lock_guard lock(poll_mutex_);
  if (meeting_ != nullptr) {  // its sockets come and go
    has_own_poll_ = false;
    poll_.reset();
  }
  return make_poll() == LWMQ_OK ? poll_->fd() : -1;
}

std::int32_t Transport::arm(std::uint32_t what) noexcept {
  if (os::forked()) return 1;
  std::shared_ptr<Poll> at;
  {
    const std::lock_guard lock(poll_mutex_);
    if (poll_ == nullptr && make_poll() != LWMQ_OK) return -1;
    at = poll_;
    if (has_own_poll_) at->drain();
  }
  if (what == 0) {
    is_armed_.store(false);
    at->change(socket(), 0);
    return 0;
  }
  read_some();
  if ((what & LWMQ_TLI_WAIT_EXTENT) != 0) mirror_.receiver().say_received(what);
  tell_account();
  is_armed_.store(true);
  // Room counts where somebody has asked for it in vain: else it is nearly always there.
  const std::uint32_t asked =
      wants_room_.load(std::memory_order_relaxed) ? what : what & LWMQ_TLI_WAIT_EXTENT;
  if (is_ready(asked)) return 1;
  while (socket_.arm()) {
    read_some();
    go_on();
    if (is_ready(asked)) return 1;
  }
  at->change(socket(), EPOLLIN | EPOLLONESHOT);
  return 0;
}

// ---- Memory that the peer writes -----------------------------------------------------------------------

Status Transport::grant(void* memory, std::uint64_t bytes, lwmq_tli_grant* out_grant) {
  if (!is_connected()) return over();
  *out_grant = {};
  out_grant->bytes = bytes;
  if (Link* link = socket_.link(); link != nullptr) {
    Exposed exposed{};
    const Status status = link->expose(memory, bytes, &exposed);
    if (status != LWMQ_OK) add_context(address_.c_str());
    std::memcpy(out_grant->key, &exposed, sizeof exposed);
    return status;
  }
  const std::lock_guard lock(grants_mutex_);
  const std::uint64_t number = next_grant_++;
  grants_[number] = {static_cast<std::uint8_t*>(memory), bytes};
  std::memcpy(out_grant->key, &number, sizeof number);
  return LWMQ_OK;
}

// A peer that is in the middle of writing there breaks off with us: nothing of it can go anywhere else.
void Transport::revoke(const lwmq_tli_grant& grant) noexcept {
  if (os::forked()) return;
  if (Link* link = socket_.link(); link != nullptr) {
    Exposed exposed{};
    std::memcpy(&exposed, grant.key, sizeof exposed);
    link->hide(exposed.key);
    return;
  }
  std::uint64_t number = 0;
  std::memcpy(&number, grant.key, sizeof number);
  {
    const std::lock_guard lock(grants_mutex_);
    grants_.erase(number);
    if (landing_.load(std::memory_order_acquire) != number) return;
  }
  end(LWMQ_TLI_LOST);
  socket_.shut();
  const std::lock_guard lock(in_mutex_);  // whoever reads has left
}

Status Transport::register_memory(const void* memory, std::uint64_t bytes) {
  if (!is_connected()) return over();
  const Status status = socket_.link() != nullptr ? socket_.link()->know(memory, bytes) : LWMQ_OK;
  if (status != LWMQ_OK) add_context(address_.c_str());
  return status;
}

void Transport::unregister_memory(const void* memory) noexcept {
  if (os::forked()) return;
  if (Link* link = socket_.link(); link != nullptr) link->forget(memory);
}

Status Transport::push(const lwmq_tli_grant& grant, std::uint64_t offset, const lwmq_bytes* pieces,
                       std::uint32_t count, std::uint64_t token) {
  if (!is_connected()) return over();
  const bool has_link = socket_.link() != nullptr;
  std::uint64_t number = 0;  // over a socket
  Exposed exposed{};         // over a link
  std::memcpy(has_link ? static_cast<void*>(&exposed) : &number, grant.key,
              has_link ? sizeof exposed : sizeof number);
  const std::lock_guard lock(out_mutex_);
  if (pushes_.size() + count > kPushesMax) return LWMQ_E_FULL;
  std::uint64_t at = offset;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!fits(at, pieces[i].bytes, grant.bytes)) {
      return fail(LWMQ_E_INVALID,
                  "%s: a push of %" PRIu64 " bytes at %" PRIu64
                  " of memory of which the peer grants %" PRIu64,
                  address_.c_str(), static_cast<std::uint64_t>(pieces[i].bytes), at, grant.bytes);
    }
    at += pieces[i].bytes;
  }
  at = offset;
  for (std::uint32_t i = 0; i < count; ++i) {
    Out& out = pushes_.emplace_back();
    out.piece = {{kPush, 0, 0, at, number, pieces[i].bytes},
                 static_cast<const std::uint8_t*>(pieces[i].data)};
    out.is_push = true;
    out.is_written = has_link;
    out.to = {exposed.at + at, exposed.key};
    out.ends_push = i + 1 == count;
    out.token = token;
    at += pieces[i].bytes;
  }
  return LWMQ_OK;
}

std::uint32_t Transport::reap(std::uint32_t limit, std::uint64_t* out_tokens) noexcept {
  const std::lock_guard lock(out_mutex_);
  const std::uint64_t written = socket_.link() != nullptr && !pushed_.empty() ? socket_.link()->written() : 0;
  std::uint32_t count = 0;
  for (; count < limit && !pushed_.empty() && pushed_.front().second <= written; ++count) {
    out_tokens[count] = pushed_.front().first;
    pushed_.pop_front();
  }
  return count;
}

// ---- The end -----------------------------------------------------------------------------------------

void Transport::close(std::uint32_t lent, std::uint64_t unsent) noexcept {
  if (os::forked()) return;
  const std::shared_ptr<Transport> here = self_;
  if (meeting_ != nullptr) {
    self_.reset();
    return;
  }
  outstanding_.keep_lent(lent);
  {
    const std::lock_guard lock(out_mutex_);
    note_pending();
    is_closing_ = wants_account_ = true;
    unsent_ = unsent;
    send_some();
    // The memory of a push is the caller's again from now on: what has not gone must not go.
    const bool are_pushed =
        pushed_.empty() || socket_.link() == nullptr || pushed_.back().second <= socket_.link()->written();
    if (!pushes_.empty() || pushes_out_ > 0 || !are_pushed) {
      pushes_.clear();
      end(LWMQ_TLI_LOST);
      socket_.shut();
    }
  }
  mirror_.sender().erase_rest(false, outstanding_.keeps_lent());
  {
    const std::lock_guard lock(poll_mutex_);
    if (poll_ != nullptr) poll_->remove(socket());
    poll_.reset();
  }
  Net::instance().watch_closing(here, EPOLLIN | EPOLLOUT);
  if (outstanding_.close()) self_.reset();
}

// A host that is gone answers nothing. A process that is busy or stopped reads nothing, but its kernel or its
// device answers.
std::uint32_t Transport::look_for_answers() noexcept {
  const std::lock_guard lock(out_mutex_);
  Link* const link = socket_.link();
  const Answer answer = link != nullptr ? link->ask() : family_->answer(socket());
  is_looked_at_ = answer != Answer::kNoneAwaited;
  looks_in_vain_ = answer == Answer::kMissing ? looks_in_vain_ + 1 : 0;
  // Up to one interval has passed before the first look in vain at a link.
  const std::uint32_t in_vain_max = socket_.wishes().silent_s * 1000 / look_ms() - (link != nullptr ? 1 : 0);
  if (looks_in_vain_ < in_vain_max) return is_looked_at_ ? look_ms() : 0;
  is_silent_.store(true, std::memory_order_relaxed);
  socket_.shut();  // whoever reads finds out
  is_looked_at_ = false;
  return 0;
}

bool Transport::serve_net(std::uint32_t /*events*/) noexcept {
  if (socket_.link() != nullptr) read_some();
  int looks = 0;
  do {
    waits_for_room_.store(false, std::memory_order_relaxed);
    {
      const std::lock_guard lock(out_mutex_);
      is_blocked_ = false;
      send_some();
      if (!is_closing_) return false;
    }
    if (end_closing()) return true;
  } while (waits_for_room_.load(std::memory_order_relaxed) &&
           ++looks < kReadsAtOnce);  // what was read has made some
  const std::lock_guard lock(out_mutex_);
  Net::instance().watch_closing(shared_from_this(),
                                is_blocked_ ? std::uint32_t{EPOLLIN | EPOLLOUT} : std::uint32_t{EPOLLIN});
  return false;
}

// Of a connection that we have closed: everything goes out, then its end; what the peer says is dropped,
// until it closes its end. A socket that is closed with something unread would tell the peer to drop what it
// has.
bool Transport::end_closing() noexcept {
  if (end_.load(std::memory_order_acquire) == LWMQ_TLI_LOST) return true;
  {
    const std::lock_guard lock(out_mutex_);
    const bool is_out = has_said_closing_ && out_begin_ == out_end_;
    if (is_out && !has_shut_down_) {
      has_shut_down_ = socket_.finish();
      if (!has_shut_down_) is_blocked_ = true;
    }
  }
  const std::lock_guard lock(in_mutex_);
  for (int i = 0; i < kReadsAtOnce; ++i) {
    const ssize_t got = socket_.read_to_drop(&in_[0], kInBytes);
    if (got > 0) continue;
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) return true;
    if (!socket_.arm()) return false;
  }
  return false;
}

}  // namespace lwmq::sockets
