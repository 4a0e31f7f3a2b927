#include "providers/rdma/connection.h"

#include <sys/epoll.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <new>

#include "base/checked.h"
#include "os/clock.h"
#include "os/deadline.h"
#include "providers/rdma/counters.h"
#include "providers/rdma/devices.h"
#include "providers/rdma/regions.h"
#include "sockets/ip.h"

namespace lwmq::rdma {
namespace {

constexpr std::uint64_t kReceive = std::uint64_t{1} << 63;  // in a request's number: it is a receive
constexpr std::uint32_t kEndFlag = 1;
constexpr int kResolveMs = 2'000;
constexpr std::int64_t kLookNs = os::kMillisecond;  // for events, while nobody sleeps
constexpr std::int64_t kNudgeNs = 50 * os::kMillisecond;
constexpr std::uint32_t kInlineBytes = 128;  // a head, and a small message
// The device repeats seven times what the peer's device does not acknowledge. For a peer that has posted no
// receive it waits for ever.
constexpr std::uint8_t kRepeats = 7, kRepeatsForReceive = 7;

rdma_conn_param connection_parameters() noexcept {
  rdma_conn_param parameters{};
  parameters.responder_resources = parameters.initiator_depth = 1;  // reads at a time, of either end
  parameters.retry_count = kRepeats;
  parameters.rnr_retry_count = kRepeatsForReceive;
  return parameters;
}

void add(std::atomic<std::uint64_t>& counter, std::uint64_t number = 1) noexcept {
  counter.fetch_add(number, std::memory_order_relaxed);
}

}  // namespace

// ---- Beginning ---------------------------------------------------------------------------------------

Status Connection::dial(const sockets::Address& address, const sockets::Own& own, const sockets::Place& place,
                        std::unique_ptr<Link>* out_link) {
  const Verbs* verbs = nullptr;
  if (const Status status = open_verbs(&verbs); status != LWMQ_OK) return status;
  sockets::Place source, to = place;
  const bool is_local = sockets::ip::is_loopback(place);
  if (is_local || !own.device.empty()) {
    if (const Status status = find_device(address, own, &source); status != LWMQ_OK) return status;
    if (is_local) to = with_port(source, sockets::ip::port_of(place));
  }
  std::unique_ptr<Connection> made(new Connection(*verbs));
  made->is_client_ = made->is_dialing_ = true;
  made->channel_ = verbs->rdma_create_event_channel();
  if (made->channel_ == nullptr) return fail_call(LWMQ_E_SYSTEM, errno, "rdma_create_event_channel");
  rdma_cm_id* id = nullptr;
  if (verbs->rdma_create_id(made->channel_, &id, nullptr, RDMA_PS_TCP) != 0)
    return fail_call(LWMQ_E_SYSTEM, errno, "rdma_create_id");
  Status status = made->open(id);
  if (status != LWMQ_OK) return status;
  if (verbs->rdma_resolve_addr(id, source.bytes > 0 ? source.get() : nullptr, to.get(), kResolveMs) != 0)
    return LWMQ_E_EMPTY;
  *out_link = std::move(made);
  return LWMQ_OK;
}

Status Connection::answer(const Verbs& verbs, rdma_cm_id* id, bool can_ask, std::unique_ptr<Link>* out_link) {
  std::unique_ptr<Connection> made(new Connection(verbs));
  made->can_ask_ = can_ask;
  made->channel_ = verbs.rdma_create_event_channel();
  Status status = made->channel_ != nullptr && verbs.rdma_migrate_id(id, made->channel_) == 0
                      ? made->open(id)
                      : fail_call(LWMQ_E_SYSTEM, errno, "rdma_migrate_id");
  if (made->id_ == nullptr) verbs.rdma_destroy_id(id);
  if (status == LWMQ_OK) status = made->make_queues();
  rdma_conn_param parameters = connection_parameters();
  if (status == LWMQ_OK && verbs.rdma_accept(id, &parameters) != 0)
    status = fail_call(LWMQ_E_SYSTEM, errno, "rdma_accept");
  if (status == LWMQ_OK) *out_link = std::move(made);
  return status;
}

// Takes the id, which lies behind channel_.
Status Connection::open(rdma_cm_id* id) noexcept {
  id_ = id;
  epoll_ = os::UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return fail_call(LWMQ_E_SYSTEM, errno, "epoll_create1");
  do_not_block(channel_->fd);
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, channel_->fd, &event) != 0)
    return fail_call(LWMQ_E_SYSTEM, errno, "epoll_ctl");
  return LWMQ_OK;
}

// Once the device is known.
Status Connection::make_queues() noexcept {
  ibv_context* const device = id_->verbs;
  const char* name = v_.ibv_get_device_name(device->device);
  make_usable(v_, device);
  completions_ = v_.ibv_create_comp_channel(device);
  if (completions_ == nullptr) return fail_call(LWMQ_E_SYSTEM, errno, "%s: ibv_create_comp_channel", name);
  do_not_block(completions_->fd);
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, completions_->fd, &event) != 0)
    return fail_call(LWMQ_E_SYSTEM, errno, "epoll_ctl");
  queue_ = v_.ibv_create_cq(device, kRequests + kNotes, nullptr, completions_, 0);
  if (queue_ == nullptr) return fail_call(LWMQ_E_NO_MEMORY, errno, "%s: ibv_create_cq", name);
  ibv_port_attr port{};
  v_.ibv_query_port(device, id_->port_num, reinterpret_cast<_compat_ibv_port_attr*>(&port));
  write_bytes_max_ = std::min<std::uint64_t>(port.max_msg_sz, kSignalBytes);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = queue_;
  wanted.cap.max_send_wr = kRequests;
  wanted.cap.max_recv_wr = kNotes;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  wanted.cap.max_inline_data = kInlineBytes;
  wanted.qp_type = IBV_QPT_RC;
  int made = v_.rdma_create_qp(id_, nullptr, &wanted);
  if (made != 0 && errno == EINVAL) {  // the device has no room for that much in a request
    wanted.cap.max_inline_data = 0;
    made = v_.rdma_create_qp(id_, nullptr, &wanted);
  }
  if (made != 0) {
    const int error = errno;
    ibv_device_attr limits{};
    v_.ibv_query_device(device, &limits);
    return fail_call(LWMQ_E_NO_MEMORY, error, "%s: rdma_create_qp; the device has at most %d queue pairs",
                     name, limits.max_qp);
  }
  inline_bytes_max_ = wanted.cap.max_inline_data;
  void* const memory = mmap(nullptr, std::size_t{2} * kNotes * kNoteBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return fail_call(LWMQ_E_NO_MEMORY, errno, "mmap");
  notes_ = static_cast<std::uint8_t*>(memory);
  const Status status = make_region(v_, id_->pd, notes_, std::uint64_t{2} * kNotes * kNoteBytes,
                                    IBV_ACCESS_LOCAL_WRITE, &notes_region_);
  if (status != LWMQ_OK) return status;
  for (std::uint32_t slot = 0; slot < kNotes; ++slot) {
    if (!post_receive(slot)) return fail_call(LWMQ_E_SYSTEM, errno, "%s: ibv_post_recv", name);
  }
  return LWMQ_OK;
}

Connection::~Connection() {
  if (id_ != nullptr && id_->qp != nullptr) {
    v_.rdma_disconnect(id_);
    v_.rdma_destroy_qp(id_);
  }
  if (queue_ != nullptr) v_.ibv_destroy_cq(queue_);
  if (completions_ != nullptr) v_.ibv_destroy_comp_channel(completions_);
  for (const auto& [key, region] : exposed_) drop_region(v_, region);
  for (const Known& known : known_) drop_region(v_, known.region);
  if (copies_region_ != nullptr) drop_region(v_, copies_region_);
  if (copies_ != nullptr) munmap(copies_, kCopies * kCopyBytes);
  if (notes_region_ != nullptr) drop_region(v_, notes_region_);
  if (notes_ != nullptr) munmap(notes_, std::size_t{2} * kNotes * kNoteBytes);
  if (id_ != nullptr) v_.rdma_destroy_id(id_);
  if (channel_ != nullptr) v_.rdma_destroy_event_channel(channel_);
}

Status Connection::connect() noexcept {
  const std::lock_guard lock(mutex_);
  take_events();
  if (state_ == State::kConnecting) return LWMQ_E_FULL;
  is_dialing_ = false;
  if (state_ == State::kConnected) return LWMQ_OK;
  return failure_.status() != LWMQ_OK ? failure_.tell() : LWMQ_E_EMPTY;
}

// ---- Events ------------------------------------------------------------------------------------------

void Connection::take_events() noexcept {
  looked_ns_ = os::now_ns();
  rdma_cm_event* event = nullptr;
  while (v_.rdma_get_cm_event(channel_, &event) == 0) {
    const rdma_cm_event taken = *event;
    v_.rdma_ack_cm_event(event);
    take_event(taken);
  }
}

void Connection::take_event(const rdma_cm_event& event) noexcept {
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (v_.rdma_resolve_route(id_, kResolveMs) != 0) refuse(LWMQ_E_EMPTY);
      break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED: {
      if (const Status status = make_queues(); status != LWMQ_OK) return refuse(status);
      rdma_conn_param parameters = connection_parameters();
      if (v_.rdma_connect(id_, &parameters) != 0) refuse(LWMQ_E_EMPTY);
      break;
    }
    case RDMA_CM_EVENT_ESTABLISHED:
      if (state_ == State::kConnecting) state_ = State::kConnected;
      if (is_client_) can_ask_ = event.param.conn.initiator_depth > 0;
      nudged_ns_ = os::now_ns();
      break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_REJECTED:
      refuse(LWMQ_E_EMPTY);
      break;
    case RDMA_CM_EVENT_DISCONNECTED:
      v_.rdma_disconnect(id_);  // the other half of it
      take_completions();       // what had come before
      end(0);
      break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      end(ENETDOWN);
      break;
    default:
      break;
  }
}

// With the text of this thread's failure.
void Connection::refuse(Status status) noexcept {
  if (status != LWMQ_E_EMPTY) failure_.keep(status);
  state_ = state_ == State::kConnecting ? State::kRefused : State::kEnded;
}

void Connection::end(int error) noexcept {
  if (state_ == State::kEnded) return;
  error_ = error;
  state_ = State::kEnded;
}

bool Connection::arm() noexcept {
  const std::lock_guard lock(mutex_);
  take_events();
  if (queue_ == nullptr) return has_news();
  nudge();
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  unsigned events = 0;
  while (v_.ibv_get_cq_event(completions_, &queue, &context) == 0) ++events;
  if (events > 0) {
    v_.ibv_ack_cq_events(queue_, events);
    add(counters().wake_ups, events);
  }
  ibv_req_notify_cq(queue_, 0);
  take_completions();
  return has_news();
}

// Linux's soft-iWARP may overlook what comes before it has made its end of a new connection ready, until more
// comes. So a client that hears nothing says nothing, once more.
void Connection::nudge() noexcept {
  if (!is_client_ || state_ != State::kConnected || notes_end_ > 0 || posted_ == 0) return;
  const std::int64_t now = os::now_ns();
  if (now - nudged_ns_ < kNudgeNs || credits_ < kNotes / 2 || !has_room(2, 1)) return;
  nudged_ns_ = now;
  send_note(nullptr, 0, 0, 0, 0);
}

void Connection::take_completions() noexcept {
  if (queue_ == nullptr) return;
  ibv_wc done[16];
  int count = 0;
  while ((count = ibv_poll_cq(queue_, 16, done)) > 0) {
    for (int i = 0; i < count; ++i) {
      const ibv_wc& one = done[i];
      has_heard_ = has_heard_ || one.status == IBV_WC_SUCCESS;
      if (one.status == IBV_WC_WR_FLUSH_ERR) {
        end(0);
      } else if (one.status == IBV_WC_RETRY_EXC_ERR || one.status == IBV_WC_RNR_RETRY_EXC_ERR) {
        end(ETIMEDOUT);
      } else if (one.status != IBV_WC_SUCCESS) {
        end(ECONNRESET);
      } else if ((one.wr_id & kReceive) != 0) {
        take_note(static_cast<std::uint32_t>(one.wr_id & ~kReceive), one.byte_len);
      } else {
        done_ = std::max(done_, one.wr_id);
      }
    }
  }
}

// ---- Notes -------------------------------------------------------------------------------------------

void Connection::take_note(std::uint32_t slot, std::uint32_t bytes) noexcept {
  NoteHead head{};
  if (bytes < sizeof head) return break_off("a note without a head", bytes);
  std::memcpy(&head, received(slot), sizeof head);
  if (head.bytes != bytes - sizeof head)
    return break_off("a note of another length than it says", head.bytes);
  if (head.taken > kNotes - credits_) return break_off("more notes taken than there were", head.taken);
  credits_ += head.taken;
  if ((head.flags & kEndFlag) != 0) has_heard_end_ = true;
  inbox_[notes_end_++ % kNotes] = {slot, sizeof head, bytes};
}

// The peer breaks the protocol.
void Connection::break_off(const char* why, std::uint64_t number) noexcept {
  failure_.keep(fail(LWMQ_E_CORRUPT, "%s: %" PRIu64, why, number));
  end(EPROTO);
}

ssize_t Connection::read(const iovec* room, std::size_t count) noexcept {
  const std::lock_guard lock(mutex_);
  if (os::now_ns() - looked_ns_ > kLookNs) take_events();
  ssize_t read = 0;
  std::size_t at = 0;  // in room[0]
  for (;;) {
    while (count > 0 && at == room->iov_len) {
      ++room, --count;
      at = 0;
    }
    if (count == 0) break;
    if (notes_begin_ == notes_end_) take_completions();
    if (notes_begin_ == notes_end_) break;
    Note& note = inbox_[notes_begin_ % kNotes];
    const auto bytes =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(note.end - note.begin, room->iov_len - at));
    std::memcpy(static_cast<std::uint8_t*>(room->iov_base) + at, received(note.slot) + note.begin, bytes);
    note.begin += bytes;
    at += bytes;
    read += bytes;
    if (note.begin < note.end) continue;
    ++notes_begin_;
    if (state_ != State::kEnded && !post_receive(note.slot)) end(ECONNRESET);
    ++taken_;
  }
  if (taken_ >= kTakenMax && state_ != State::kEnded && has_room(1, 1)) send_note(nullptr, 0, 0, 0, 0);
  if (read > 0) return read;
  if (!is_over()) {
    errno = EAGAIN;
    return -1;
  }
  has_told_end_ = true;
  if (error_ == EPROTO) failure_.tell();
  errno = error_;
  return error_ == 0 ? 0 : -1;
}

// Whether so many notes, and requests, may be posted.
bool Connection::has_room(std::uint32_t credits, std::uint32_t requests) noexcept {
  if (credits_ < credits || posted_ - done_ + requests > kRequests) take_completions();
  return credits_ >= credits && posted_ - done_ + requests <= kRequests;
}

ssize_t Connection::write(const iovec* pieces, std::size_t count) noexcept {
  const std::lock_guard lock(mutex_);
  std::uint64_t all = 0, gone = 0;
  for (std::size_t i = 0; i < count; ++i) all += pieces[i].iov_len;
  while (gone < all) {
    if (state_ == State::kEnded || end_note_ != 0) {
      errno = EPIPE;
      return -1;
    }
    if (queue_ == nullptr || !has_room(2, 1)) break;
    const auto bytes =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(all - gone, kNoteBytes - sizeof(NoteHead)));
    if (!send_note(pieces, count, gone, bytes, 0)) break;
    gone += bytes;
  }
  if (gone > 0 || all == 0) return static_cast<ssize_t>(gone);
  errno = EAGAIN;
  return -1;
}

// `bytes` of the pieces, behind `skip` of them. There is room.
bool Connection::send_note(const iovec* pieces, std::size_t count, std::uint64_t skip, std::uint32_t bytes,
                           std::uint32_t flags) noexcept {
  std::uint8_t* const note = sent(notes_sent_);
  const NoteHead head{static_cast<std::uint16_t>(bytes), static_cast<std::uint16_t>(taken_), flags};
  std::memcpy(note, &head, sizeof head);
  std::uint32_t filled = sizeof head;
  for (std::size_t i = 0; i < count && filled < sizeof head + bytes; ++i) {
    const std::uint64_t from = std::min<std::uint64_t>(skip, pieces[i].iov_len);
    skip -= from;
    const auto take = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(pieces[i].iov_len - from, sizeof head + bytes - filled));
    if (take > 0)
      std::memcpy(note + filled, static_cast<const std::uint8_t*>(pieces[i].iov_base) + from, take);
    filled += take;
  }
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(note), filled, notes_region_->lkey};
  ibv_send_wr request{};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  if (filled <= inline_bytes_max_) request.send_flags = IBV_SEND_INLINE;
  if (!post(&request, 0, (flags & kEndFlag) != 0)) return false;
  add(counters().sends);
  ++notes_sent_;
  --credits_;
  taken_ = 0;
  return true;
}

// `bytes`: of the peer's memory that are written.
bool Connection::post(ibv_send_wr* request, std::uint64_t bytes, bool is_signalled) noexcept {
  request->wr_id = posted_ + 1;
  unsignalled_bytes_ += bytes;
  if (is_signalled || request->wr_id % kSignalEvery == 0 || unsignalled_bytes_ > kSignalBytes) {
    request->send_flags |= IBV_SEND_SIGNALED;
    unsignalled_bytes_ = 0;
    add(counters().signalled);
  }
  ibv_send_wr* refused = nullptr;
  if (ibv_post_send(id_->qp, request, &refused) != 0) {
    end(ECONNRESET);
    return false;
  }
  ++posted_;
  return true;
}

bool Connection::post_receive(std::uint32_t slot) noexcept {
  ibv_sge room{reinterpret_cast<std::uintptr_t>(received(slot)), kNoteBytes, notes_region_->lkey};
  ibv_recv_wr request{};
  request.wr_id = kReceive | slot;
  request.sg_list = &room;
  request.num_sge = 1;
  ibv_recv_wr* refused = nullptr;
  return ibv_post_recv(id_->qp, &request, &refused) == 0;
}

// ---- The end -----------------------------------------------------------------------------------------

sockets::Answer Connection::ask() noexcept {
  const std::lock_guard lock(mutex_);
  take_completions();
  if (state_ == State::kEnded || !can_ask_) return sockets::Answer::kNoneAwaited;
  if (has_heard_) {
    has_heard_ = false;
    return sockets::Answer::kCame;
  }
  if (done_ >= asked_ && has_room(0, 1)) {
    ibv_sge none{reinterpret_cast<std::uintptr_t>(notes_), 0, notes_region_->lkey};
    ibv_send_wr request{};
    request.sg_list = &none;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_READ;
    if (post(&request, 0, true)) asked_ = posted_;
    add(counters().asks);
  }
  return sockets::Answer::kMissing;
}

bool Connection::finish() noexcept {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kEnded || end_note_ != 0) return true;
  if (queue_ == nullptr || !has_room(1, 1) || !send_note(nullptr, 0, 0, 0, kEndFlag)) return false;
  end_note_ = posted_;
  return true;
}

void Connection::shut() noexcept {
  const std::lock_guard lock(mutex_);
  if (id_->qp != nullptr) v_.rdma_disconnect(id_);
  end(ECONNRESET);
}

// ---- Memory ------------------------------------------------------------------------------------------

Status Connection::expose(void* memory, std::uint64_t bytes, sockets::Exposed* out_exposed) {
  ibv_mr* region = nullptr;
  const Status status =
      make_region(v_, id_->pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &region);
  if (status != LWMQ_OK) return status;
  *out_exposed = {reinterpret_cast<std::uintptr_t>(memory), region->rkey};
  const std::lock_guard lock(mutex_);
  exposed_[region->rkey] = region;
  return LWMQ_OK;
}

void Connection::hide(std::uint32_t key) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = exposed_.find(key);
  if (found == exposed_.end()) return;
  drop_region(v_, found->second);
  exposed_.erase(found);
}

Status Connection::know(const void* memory, std::uint64_t bytes) {
  ibv_mr* region = nullptr;
  const Status status = make_region(v_, id_->pd, memory, bytes, 0, &region);
  if (status == LWMQ_E_UNSUPPORTED) return LWMQ_OK;  // it is copied
  if (status != LWMQ_OK) return status;
  const std::lock_guard lock(mutex_);
  known_.push_back({static_cast<const std::uint8_t*>(memory), bytes, region});
  return LWMQ_OK;
}

void Connection::forget(const void* memory) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto at = known_.begin(); at != known_.end(); ++at) {
    if (at->at != memory) continue;
    drop_region(v_, at->region);
    known_.erase(at);
    return;
  }
}

// Null: nobody has told us of it, or the device does not take it. Lowers *out_bytes to what lies in it.
const Connection::Known* Connection::find_known(const std::uint8_t* at,
                                                std::uint64_t* out_bytes) const noexcept {
  for (const Known& known : known_) {
    const auto begin = static_cast<std::uint64_t>(at - known.at);
    if (at < known.at || begin >= known.bytes) continue;
    *out_bytes = std::min(*out_bytes, known.bytes - begin);
    return &known;
  }
  return nullptr;
}

// Room for memory that the device does not take: it is copied, and written from there.
Status Connection::make_copies() noexcept {
  if (copies_region_ != nullptr) return LWMQ_OK;
  void* const memory =
      mmap(nullptr, kCopies * kCopyBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return fail_call(LWMQ_E_NO_MEMORY, errno, "mmap");
  copies_ = static_cast<std::uint8_t*>(memory);
  return make_region(v_, id_->pd, copies_, kCopies * kCopyBytes, 0, &copies_region_);
}

ssize_t Connection::write_memory(const void* from, std::uint64_t bytes, const sockets::Exposed& to,
                                 bool is_last, std::uint64_t* out_number) noexcept {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kEnded || !has_room(0, 2)) return -1;  // a note follows
  auto at = static_cast<const std::uint8_t*>(from);
  std::uint64_t now = std::min(bytes, write_bytes_max_);
  const Known* known = find_known(at, &now);
  std::uint64_t* copy = nullptr;
  std::uint32_t key = 0;
  if (known != nullptr) {
    key = known->region->lkey;
  } else {
    if (make_copies() != LWMQ_OK) {
      end(ENOMEM);
      return -1;
    }
    const auto find_free = [this] {
      return std::find_if(copied_.begin(), copied_.end(),
                          [this](std::uint64_t reader) { return reader <= done_; });
    };
    copy = find_free();
    if (copy == copied_.end()) {
      take_completions();
      copy = find_free();
    }
    if (copy == copied_.end()) return -1;
    now = std::min(bytes, kCopyBytes);
    std::uint8_t* const room = copies_ + static_cast<std::size_t>(copy - copied_.begin()) * kCopyBytes;
    std::memcpy(room, at, now);
    add(counters().copied_bytes, now);
    at = room;
    key = copies_region_->lkey;
  }
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(at), static_cast<std::uint32_t>(now), key};
  ibv_send_wr request{};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = to.at;
  request.wr.rdma.rkey = to.key;
  if (!post(&request, now, copy != nullptr || (is_last && now == bytes))) return -1;
  add(counters().writes);
  *out_number = posted_;
  if (copy != nullptr) *copy = posted_;
  return static_cast<ssize_t>(now);
}

std::uint64_t Connection::written() noexcept {
  const std::lock_guard lock(mutex_);
  take_completions();
  return done_;
}

}  // namespace lwmq::rdma
