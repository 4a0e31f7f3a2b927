#include "conformance/far_transport.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "os/clock.h"
#include "os/deadline.h"
#include "os/event_fd.h"

namespace lwmq::far {
namespace {

constexpr std::size_t kPiecesMax = 32;

os::Mapping zeroed(std::uint64_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? os::Mapping{} : os::Mapping{memory, bytes};
}

}  // namespace

Door make_door() { return std::make_shared<os::UniqueFd>(epoll_create1(EPOLL_CLOEXEC)); }

// ---- Beginning and end ----------------------------------------------------------------------------------

Status Transport::create(Parts parts, Transport** out_transport) {
  auto* made = new Transport(std::move(parts));
  const lwmq_tli_options& options = made->parts_.options;
  const lwmq_tli_peer& peer = made->parts_.peer;
  const auto bytes_of = [](std::uint32_t buffers, std::uint64_t buffer_bytes) {
    return lane::SideLayout::of(buffers, buffer_bytes).bytes;
  };
  made->own_ = zeroed(bytes_of(options.buffers_send, options.buffer_bytes));
  made->copy_ = zeroed(bytes_of(peer.buffers, peer.buffer_bytes));
  lane::Sides& sides = made->sides_;
  sides.own = made->own_.data();
  sides.peer = made->copy_.data();
  sides.freed = [](void* self, std::uint32_t index) { static_cast<Transport*>(self)->freed(index); };
  sides.context = made;
  made->waker_.init(sides);
  if (sides.own == nullptr || sides.peer == nullptr ||
      !made->sender_.init(sides, &made->waker_, options.buffers_send, options.buffer_bytes) ||
      !made->receiver_.init(sides, &made->waker_, peer.buffers, peer.buffer_bytes) ||
      !made->feed_.init(sides, made->sender_, options.buffers_send, options.buffer_bytes, peer.buffers) ||
      !made->mirror_.init(made->copy_.data(), made->copy_.bytes())) {
    delete made;
    return fail(LWMQ_E_NO_MEMORY, "no memory for a transport");
  }
  *out_transport = made;
  return LWMQ_OK;
}

void Transport::close(std::uint32_t lent, std::uint64_t unsent) {
  watch(0);
  {
    const std::lock_guard lock(out_mutex_);
    is_closed_ = true;
    sides_.own_header().unsent.store(unsent, std::memory_order_relaxed);
    sides_.own_header().closed.store(1, std::memory_order_relaxed);
    feed_.count();
    feed_.close();
    send_some();
    if (parts_.socket && feed_.has_unfinished()) {
      give_up();  // the pieces are read no more, and no orderly end comes behind them
      parts_.socket.reset();
    }
  }
  regions_.clear();
  if (outstanding_.close(lent)) drop_reference();
}

void Transport::abandon(lwmq_tli_buffer* buffer) {
  sender_.abandon(buffer);
  if (outstanding_.keeps_lent() && outstanding_.came_back(1)) drop_reference();
}

void Transport::release(lwmq_tli_extent* extent) {
  receiver_.release(extent->token, 1);
  {
    const std::lock_guard lock(out_mutex_);
    if (!is_closed_) want_service();  // the peer learns of it, if nobody has anything else to send
  }
  if (outstanding_.came_back(1)) drop_reference();
}

Status Transport::over() {
  const char* address = parts_.address.c_str();
  const std::lock_guard lock(in_mutex_);
  if (breach_.status() != LWMQ_OK) return breach_.tell();
  if (end_.load() == LWMQ_TLI_CLOSED)
    return fail(LWMQ_E_CLOSED, "%s: the peer (%s) has closed", address, parts_.peer.name);
  return fail(LWMQ_E_PEER_LOST, "%s: the peer (%s) died or vanished", address, parts_.peer.name);
}

std::int32_t Transport::state(lwmq_tli_figures* out_figures) {
  look();
  if (out_figures != nullptr) {
    *out_figures = {};
    out_figures->free_buffers = sender_.free_buffers();
    out_figures->unread_extents = sender_.unread_extents();
    out_figures->unsent = sides_.peer_header().unsent.load(std::memory_order_relaxed);
  }
  return end_.load(std::memory_order_acquire);
}

// ---- Input ----------------------------------------------------------------------------------------------

// The reader's: all that has come. True: something had, if only the end.
bool Transport::read_all() {
  bool has_come = false;
  while (end_.load(std::memory_order_relaxed) == LWMQ_TLI_CONNECTED) {
    iovec places[2];
    const std::size_t count = mirror_.places(places);
    const ssize_t bytes = readv(parts_.socket.get(), places, static_cast<int>(count));
    const int error = bytes < 0 ? errno : 0;
    const Status status = mirror_.came(bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0);
    if (error == EINTR) continue;
    if (error == EAGAIN) return has_come;
    has_come = true;
    if (status != LWMQ_OK) {
      break_off(status);
    } else if (sides_.peer_header().closed.load(std::memory_order_relaxed) != 0) {  // nothing comes behind it
      end_.store(LWMQ_TLI_CLOSED, std::memory_order_release);
    } else if (bytes <= 0) {
      end_.store(LWMQ_TLI_LOST, std::memory_order_release);
    }
  }
  return has_come;
}

// Of a peer that broke the protocol: nothing more is believed.
void Transport::break_off(Status status) {
  add_context(parts_.address.c_str());
  const std::lock_guard lock(in_mutex_);
  if (breach_.status() == LWMQ_OK) breach_.keep(status);
  is_broken_.store(true, std::memory_order_relaxed);
  end_.store(LWMQ_TLI_LOST, std::memory_order_release);
}

// Takes what has come, if nobody else does just now.
void Transport::look() {
  std::unique_lock lock(in_mutex_);
  if (is_reading_ || end_.load(std::memory_order_relaxed) != LWMQ_TLI_CONNECTED) return;
  is_reading_ = true;
  lock.unlock();
  const bool has_come = read_all();
  lock.lock();
  is_reading_ = false;
  if (!has_come) return;
  came_.notify_all();
  lock.unlock();
  ring_armed();
}

// Whoever polls has not seen what this thread has read.
void Transport::ring_armed() {
  const std::lock_guard lock(door_mutex_);
  if (armed_for_ != 0) os::ring_event_fd(bell_.get());
}

Status Transport::land(lwmq_tli_extent* out_extent) {
  if (is_broken_.load(std::memory_order_relaxed)) return over();
  Status status = receiver_.land(out_extent);
  if (status == LWMQ_E_EMPTY) {
    look();
    const bool is_over = end_.load(std::memory_order_acquire) != LWMQ_TLI_CONNECTED;
    status = receiver_.land(out_extent);
    if (status == LWMQ_E_EMPTY) return is_over ? over() : LWMQ_E_EMPTY;
  }
  if (status == LWMQ_OK) {
    outstanding_.landed(1);
    return LWMQ_OK;
  }
  break_off(status);
  return status;
}

bool Transport::is_ready(std::uint32_t what) {
  return ((what & LWMQ_TLI_WAIT_EXTENT) != 0 && receiver_.has_extent()) ||
         ((what & LWMQ_TLI_WAIT_ROOM) != 0 && sender_.has_room()) ||
         ((what & LWMQ_TLI_WAIT_REAP) != 0 && has_finished_.load(std::memory_order_acquire)) ||
         end_.load(std::memory_order_acquire) != LWMQ_TLI_CONNECTED;
}

void Transport::say_received(std::uint32_t what) {
  receiver_.say_received(what);
  const std::lock_guard lock(out_mutex_);
  feed_.count();
  send_some();
}

Status Transport::wait(std::uint32_t what, std::uint32_t timeout_ms) {
  look();
  if (is_ready(what)) return LWMQ_OK;
  say_received(what);
  if (timeout_ms == 0) return LWMQ_E_TIMED_OUT;
  const std::int64_t deadline = os::deadline_of(timeout_ms);
  std::unique_lock lock(in_mutex_);
  while (!is_ready(what)) {
    const std::uint32_t left = os::ms_left(deadline);
    if (left == 0) return LWMQ_E_TIMED_OUT;
    if (is_reading_) {
      came_.wait_for(lock, std::chrono::milliseconds(std::min(left, 1000u)));
      continue;
    }
    is_reading_ = true;
    lock.unlock();
    const int bell = (what & LWMQ_TLI_WAIT_REAP) != 0 ? reap_bell_.get() : -1;
    pollfd at[] = {{parts_.socket.get(), POLLIN, 0}, {bell, POLLIN, 0}};
    const int ready = poll(at, 2, left == LWMQ_FOREVER ? -1 : static_cast<int>(left));
    const bool interrupted = ready < 0;
    if (at[1].revents != 0) os::drain_event_fd(bell);
    const bool has_come = !interrupted && read_all();
    lock.lock();
    is_reading_ = false;
    came_.notify_all();
    if (has_come) {
      lock.unlock();
      ring_armed();
      lock.lock();
    }
    if (interrupted) return LWMQ_E_INTERRUPTED;
  }
  return LWMQ_OK;
}

// ---- Descriptors ----------------------------------------------------------------------------------------

void Transport::watch(std::uint32_t what) {
  const std::lock_guard lock(door_mutex_);
  armed_for_ = what;
  const bool is_armed = what != 0;
  const Door& door = own_door_ != nullptr ? own_door_ : parts_.door;
  if (door == nullptr || !bell_) return;
  epoll_event event{is_armed ? std::uint32_t{EPOLLIN} : 0u, {}};
  for (const int fd : {parts_.socket.get(), bell_.get()}) {
    if (!is_armed) {
      epoll_ctl(door->get(), EPOLL_CTL_DEL, fd, nullptr);
    } else if (fd == bell_.get() || end_.load() == LWMQ_TLI_CONNECTED) {  // an end would be readable for ever
      epoll_ctl(door->get(), EPOLL_CTL_ADD, fd, &event);
    }
  }
}

std::int32_t Transport::descriptor() {
  const std::lock_guard lock(door_mutex_);
  if (own_door_ == nullptr) {
    own_door_ = make_door();
    if (parts_.door != nullptr && bell_) {
      for (const int fd : {parts_.socket.get(), bell_.get()})
        epoll_ctl(parts_.door->get(), EPOLL_CTL_DEL, fd, nullptr);
    }
  }
  return own_door_->get();
}

std::int32_t Transport::arm(std::uint32_t what) {
  watch(0);
  if (what == 0) return 0;
  if (!bell_ && os::create_event_fd(&bell_) != LWMQ_OK) return -1;
  if (parts_.door == nullptr) descriptor();
  os::drain_event_fd(bell_.get());
  look();
  say_received(what);
  watch(what);
  return has_news(what);
}

// Room counts where somebody has asked for it in vain: else it is nearly always there.
std::int32_t Transport::has_news(std::uint32_t what) {
  const bool has_room = (what & LWMQ_TLI_WAIT_ROOM) != 0 && wants_room_ && sender_.has_room();
  return has_room || is_ready(what & (LWMQ_TLI_WAIT_EXTENT | LWMQ_TLI_WAIT_REAP)) ? 1 : 0;
}

// ---- Output ---------------------------------------------------------------------------------------------

Status Transport::acquire(lwmq_tli_buffer* out_buffer) {
  if (state(nullptr) != LWMQ_TLI_CONNECTED) return over();
  const Status status = sender_.acquire(out_buffer);
  wants_room_ = status == LWMQ_E_FULL;
  return status;
}

Status Transport::show(lwmq_tli_buffer* buffer, std::uint64_t bytes, std::uint32_t kind) {
  if (end_.load(std::memory_order_acquire) != LWMQ_TLI_CONNECTED) return over();
  if (const Status status = sender_.show(buffer, bytes, kind); status != LWMQ_OK) return status;
  const std::lock_guard lock(out_mutex_);
  feed_.shown(*buffer);
  return LWMQ_OK;
}

void Transport::flush() {
  const std::lock_guard lock(out_mutex_);
  send_some();
}

Status Transport::ship(lwmq_tli_buffer* buffer) {
  sender_.ship(buffer);
  const std::lock_guard lock(out_mutex_);
  feed_.shipped(*buffer);
  send_some();
  return LWMQ_OK;
}

void Transport::freed(std::uint32_t index) {
  const std::lock_guard lock(out_mutex_);
  if (is_closed_) return;
  feed_.freed(index);
  feed_.count();
  send_some();
}

// How much the socket has taken; 0: nothing now; -1: it never will.
std::int64_t Transport::write(const iovec* pieces, std::size_t count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces);
  message.msg_iovlen = count;
  for (;;) {
    const ssize_t bytes = sendmsg(parts_.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (bytes >= 0) return bytes;
    if (errno == EAGAIN) return 0;
    if (errno != EINTR) return -1;
  }
}

// With out_mutex_, as the three that follow: what can go out does, and the service goes on with the rest.
void Transport::send_some() {
  if (!parts_.socket) return;
  const bool is_done = parts_.delay_ms == 0 ? send_now() : send_delayed();
  if (!is_done) return want_service();
  if (is_closed_) parts_.socket.reset();
}

// True: all is out, or never will be.
bool Transport::send_now() {
  iovec pieces[kPiecesMax];
  while (const std::size_t count = feed_.pieces(pieces, kPiecesMax)) {
    const std::int64_t bytes = write(pieces, count);
    is_blocked_ = bytes == 0;
    if (bytes < 0) return true;
    if (is_blocked_) return false;
    finished(feed_.sent(static_cast<std::uint64_t>(bytes)));
  }
  return true;
}

bool Transport::send_delayed() {
  iovec pieces[kPiecesMax];
  while (const std::size_t count = feed_.pieces(pieces, kPiecesMax)) {
    const Clock::time_point due = Clock::now() + std::chrono::milliseconds(parts_.delay_ms);
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) {
      delay(due, pieces[i]);
      bytes += pieces[i].iov_len;
    }
    delayed_.back().pushes += feed_.sent(bytes);
  }
  for (is_blocked_ = false; !delayed_.empty() && delayed_.front().due <= Clock::now();) {
    Delayed& late = delayed_.front();
    const iovec all = late.copied.empty() ? late.lent : iovec{late.copied.data(), late.copied.size()};
    const iovec piece{static_cast<std::uint8_t*>(all.iov_base) + late.sent, all.iov_len - late.sent};
    const std::int64_t bytes = write(&piece, 1);
    if (bytes < 0) return true;
    is_blocked_ = bytes == 0;
    if (is_blocked_) return false;
    late.sent += static_cast<std::size_t>(bytes);
    if (late.sent < all.iov_len) continue;
    finished(late.pushes);
    delayed_.pop_front();
  }
  return delayed_.empty();
}

// With out_mutex_, the same. What is pinned belongs to pushes and stays as it is; the rest is copied.
void Transport::delay(Clock::time_point due, const iovec& piece) {
  if (is_pinned(piece.iov_base, piece.iov_len)) {
    delayed_.push_back({due, {}, piece});
    return;
  }
  if (delayed_.empty() || delayed_.back().due != due || delayed_.back().copied.empty())
    delayed_.push_back({due, {}});
  const auto* from = static_cast<const std::uint8_t*>(piece.iov_base);
  delayed_.back().copied.insert(delayed_.back().copied.end(), from, from + piece.iov_len);
}

// ---- Pushes ---------------------------------------------------------------------------------------------

Status Transport::pin(void* base, std::uint64_t bytes, std::uint32_t uses, lwmq_tli_region** out_region) {
  if (end_.load(std::memory_order_acquire) != LWMQ_TLI_CONNECTED) return over();
  auto made = std::make_unique<Region>(Region{this, static_cast<std::uint8_t*>(base), bytes, uses});
  *out_region = reinterpret_cast<lwmq_tli_region*>(made.get());
  const std::lock_guard lock(regions_mutex_);
  regions_.push_back(std::move(made));
  return LWMQ_OK;
}

void Transport::unpin(Region* region) {
  const std::lock_guard lock(regions_mutex_);
  std::erase_if(regions_, [region](const auto& one) { return one.get() == region; });
}

bool Transport::is_pinned(const void* data, std::uint64_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  const std::lock_guard lock(regions_mutex_);
  return std::any_of(regions_.begin(), regions_.end(), [&](const auto& one) {
    const auto base = reinterpret_cast<std::uintptr_t>(one->base);
    return (one->uses & LWMQ_TLI_PIN_PUSH) != 0 && at >= base && at - base <= one->bytes &&
           bytes <= one->bytes - (at - base);
  });
}

Status Transport::grant(const Region& region, std::uint64_t offset, std::uint64_t bytes,
                        lwmq_tli_grant* out_grant) {
  if ((region.uses & LWMQ_TLI_PIN_GRANT) == 0)
    return fail(LWMQ_E_INVALID, "a grant of a region that is pinned for pushes alone");
  if (offset > region.bytes || bytes > region.bytes - offset) {
    return fail(LWMQ_E_TOO_BIG, "a grant of %llu bytes at offset %llu of a region of %llu",
                static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(offset),
                static_cast<unsigned long long>(region.bytes));
  }
  return mirror_.grant(region.base + offset, bytes, out_grant);
}

Status Transport::push(const lwmq_tli_grant& grant, std::uint64_t offset, const lwmq_bytes* pieces,
                       std::uint32_t count, std::uint64_t token) {
  if (end_.load(std::memory_order_acquire) != LWMQ_TLI_CONNECTED) return over();
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!is_pinned(pieces[i].data, pieces[i].bytes))
      return fail(LWMQ_E_INVALID, "piece %u of a push is not pinned for it", i);
  }
  const std::lock_guard lock(out_mutex_);
  if (!reap_bell_) os::create_event_fd(&reap_bell_);
  return feed_.push(grant, offset, pieces, count, token);
}

// With out_mutex_, as `finished`: nothing is read any more.
void Transport::give_up() {
  feed_.give_up();
  delayed_.clear();
  is_blocked_ = false;
}

std::uint32_t Transport::reap(std::uint64_t* out_tokens, std::uint32_t limit) {
  const std::lock_guard lock(out_mutex_);
  if (end_.load(std::memory_order_acquire) != LWMQ_TLI_CONNECTED) give_up();
  const std::uint32_t reaped = feed_.reap(out_tokens, limit);
  has_finished_.store(feed_.has_finished(), std::memory_order_relaxed);
  return reaped;
}

// Wakes whoever waits to reap: behind the thread that reads, at the socket, or at a descriptor.
void Transport::finished(std::uint32_t pushes) {
  if (pushes == 0) return;
  feed_.finished(pushes);
  has_finished_.store(true, std::memory_order_release);
  {
    const std::lock_guard lock(in_mutex_);
    came_.notify_all();
  }
  os::ring_event_fd(reap_bell_.get());
  const std::lock_guard lock(door_mutex_);
  if ((armed_for_ & LWMQ_TLI_WAIT_REAP) != 0) os::ring_event_fd(bell_.get());
}

// ---- The service ----------------------------------------------------------------------------------------

struct Transport::Service {
  std::mutex mutex;
  std::vector<Transport*> wanted;  // came since the last round; a reference of each
  os::UniqueFd bell;

  Service() { os::create_event_fd(&bell); }
};

Transport::Service& Transport::service() {
  static auto* instance = new Service;
  return *instance;
}

void Transport::wake_service() { os::ring_event_fd(service().bell.get()); }

// With out_mutex_.
void Transport::want_service() {
  if (std::exchange(is_served_, true)) return;
  references_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard lock(service().mutex);
    service().wanted.push_back(this);
  }
  wake_service();
}

// Sends for those that have something left, until they have nothing.
void Transport::serve(const volatile std::uint32_t* stop) {
  Service& all = service();
  std::vector<Transport*> served;
  while (*stop == 0) {
    os::drain_event_fd(all.bell.get());
    {
      const std::lock_guard lock(all.mutex);
      served.insert(served.end(), all.wanted.begin(), all.wanted.end());
      all.wanted.clear();
    }
    std::vector<pollfd> polled{{all.bell.get(), POLLIN, 0}};
    int timeout_ms = -1;
    std::erase_if(served, [&](Transport* one) {
      std::unique_lock lock(one->out_mutex_);
      if (!one->is_closed_) one->feed_.count();
      one->send_some();
      const bool is_over =
          one->end_.load() != LWMQ_TLI_CONNECTED && !one->is_blocked_ && one->delayed_.empty();
      if (one->parts_.socket && one->is_blocked_) {
        polled.push_back({one->parts_.socket.get(), POLLOUT, 0});
      } else if (one->parts_.socket && !one->delayed_.empty() && !is_over) {
        timeout_ms = 1;
      } else {
        one->is_served_ = false;
        lock.unlock();
        one->drop_reference();
        return true;
      }
      return false;
    });
    poll(polled.data(), polled.size(), timeout_ms);
  }
  const std::lock_guard lock(all.mutex);
  all.wanted.insert(all.wanted.end(), served.begin(), served.end());
}

}  // namespace lwmq::far
