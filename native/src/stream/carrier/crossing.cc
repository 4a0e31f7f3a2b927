#include "stream/carrier/crossing.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <span>

#include "base/checked.h"
#include "os/clock.h"
#include "os/deadline.h"
#include "os/identity.h"
#include "os/process_name.h"

namespace lwmq::stream {
namespace {

using wire::StreamKind;

constexpr std::uint32_t kMessagesPerRound = 256;
constexpr std::uint32_t kLastRounds = 64;
constexpr std::int64_t kLookEveryNs = os::kMillisecond;
constexpr std::uint32_t kPushesMax =
    32768;  // under way to one reader, for all the batches that it has credit for

}  // namespace

Crossing::Crossing(std::unique_ptr<Link> far, std::unique_ptr<Link> near, std::string address,
                   std::string near_address)
    : far_(std::move(far)),
      near_(std::move(near)),
      address_(std::move(address)),
      near_address_(std::move(near_address)) {}

Crossing::~Crossing() {
  for (std::uint32_t i = 0; i < kLastRounds && !is_over_ && pump_near(); ++i) {
  }
}

// ---- Passing on ---------------------------------------------------------------------------------------

bool Crossing::pump() {
  if (is_over_) return false;
  bool busy = near_->has_backlog() && near_->flush();
  busy |= far_->has_backlog() && far_->flush();
  if (const Status status = show_mirrors(); status != LWMQ_OK) end(*near_, status);
  busy |= pump_far();
  busy |= pump_near();
  has_news_ |= busy;
  // A writer hears which blocks are free before it hears that there is room.
  bool has_room = false;
  do {
    has_room = std::exchange(has_room_, false);
    if (has_room || may_have_freed()) busy |= release_freed();
    if (has_room && !is_over_) far_->send(StreamKind::kRoom, nullptr, 0);
  } while (has_room_);
  return busy;
}

bool Crossing::pump_near() {
  std::string bytes;
  bool busy = false;
  for (std::uint32_t i = 0; i < kMessagesPerRound && !is_over_ && !far_->has_backlog(); ++i) {
    auto kind = StreamKind::kBatch;
    Status status = LWMQ_OK;
    if (held_) {
      bytes = *std::exchange(held_, std::nullopt);
    } else {
      status = near_->receive(&kind, &bytes);
      if (status == LWMQ_E_EMPTY) break;
    }
    if (status == LWMQ_OK) status = from_near(kind, bytes);
    if (held_) break;
    busy = true;
    if (status != LWMQ_OK) end(*near_, status);
  }
  return busy;
}

bool Crossing::pump_far() {
  std::string bytes;
  bool busy = false;
  for (std::uint32_t i = 0; i < kMessagesPerRound && !is_over_ && !near_->has_backlog(); ++i) {
    StreamKind kind{};
    Status status = far_->receive(&kind, &bytes);
    if (status == LWMQ_E_EMPTY) break;
    busy = true;
    if (status == LWMQ_OK) status = from_far(kind, bytes);
    if (status != LWMQ_OK) end(*far_, status);
  }
  return busy;
}

// `gone` has ended, or cannot go on, for the reason that the status and this thread's text say.
void Crossing::end(Link& gone, Status why) {
  if (is_over_) return;
  is_over_ = true;
  const std::string text = address_ + ": " + last_error();
  if (&gone == near_.get()) {  // the endpoint has said itself why it ends a conversation
    if (why == LWMQ_E_CLOSED || why == LWMQ_E_PEER_LOST) return;
    far_->send_letter(StreamKind::kFailed, wire::Text{why, text});
    return;
  }
  if (why == LWMQ_E_CLOSED) return;
  if (why != LWMQ_E_PEER_LOST) far_->send_letter(StreamKind::kFailed, wire::Text{why, text});
  const std::uint32_t pid = far_->peer().pid;
  const std::string how = why != LWMQ_E_PEER_LOST ? "broke the protocol: " + text
                          : pid != 0              ? os::process_end(pid)
                                                  : std::string("died or cannot be reached");
  near_->send_letter(StreamKind::kGone, wire::Text{LWMQ_E_PEER_LOST, how.substr(0, kReasonBytesMax)});
}

bool Crossing::must_look() const noexcept {
  if (is_over_) return false;
  const bool hides = std::ranges::any_of(mirrors_, [](const Mirror& mirror) { return !mirror.is_shown; });
  return hides || ((wants_room_ || has_news_) && !in_flight_.empty()) || far_->has_backlog() ||
         near_->has_backlog();
}

std::int32_t Crossing::arm() noexcept {
  const std::int32_t far = far_->arm();
  const std::int32_t near = near_->arm();
  return far == 0 ? near : far;
}

void Crossing::disarm() noexcept {
  far_->disarm();
  near_->disarm();
}

// ---- From the endpoint --------------------------------------------------------------------------------

Status Crossing::from_near(StreamKind kind, const std::string& bytes) {
  switch (kind) {
    case StreamKind::kJoined:
      return pass_joined(bytes);
    case StreamKind::kOpened:
      return pass_opened(bytes);
    case StreamKind::kDeclared:
      return pass_declared(bytes);
    case StreamKind::kLease:
      return add_lease_page(bytes);
    case StreamKind::kWindow:
      return add_view_window(bytes);
    case StreamKind::kBatch:
      return pass_batch(bytes);
    case StreamKind::kRoom:
      has_room_ = true;
      wants_room_ = false;
      return LWMQ_OK;
    default:
      return far_->send(kind, bytes.data(), bytes.size());
  }
}

Status Crossing::pass_joined(const std::string& bytes) {
  wire::Joined letter;
  if (!wire::decode(bytes, &letter)) return malformed("Joined");
  letter.near = near_address_;
  letter.boot_id = os::identity().boot_id;
  letter.netns = os::identity().netns;
  return far_->send_letter(StreamKind::kJoined, letter);
}

// The ledger of a writer is read here.
Status Crossing::pass_opened(const std::string& bytes) {
  wire::Opened letter;
  if (!wire::decode(bytes, &letter)) return malformed("Opened");
  if (letter.ledger.size() == 16 && !ledger_) {
    const auto* id = reinterpret_cast<const std::uint8_t*>(letter.ledger.data());
    if (const Status status = near_->find_page(id, &ledger_); status != LWMQ_OK) return status;
  }
  letter.ledger.clear();
  return far_->send_letter(StreamKind::kOpened, letter);
}

// A schema that does not fit the columns and filters is the reader's error, which it finds by itself.
Status Crossing::pass_declared(const std::string& bytes) {
  wire::Text letter;
  if (!wire::decode(bytes, &letter)) return malformed("Declared");
  columns_.declare(letter.text, address_);
  filters_.declare(letter.text, address_);
  return far_->send(StreamKind::kDeclared, bytes.data(), bytes.size());
}

Status Crossing::add_lease_page(const std::string& bytes) {
  wire::Lease record;
  if (!read_record(bytes, &record)) return malformed("Lease");
  LapPage page;
  const Status status = near_->find_page(record.id, &page);
  if (status == LWMQ_OK) lease_pages_.push_back(std::move(page));
  return status;
}

Status Crossing::add_view_window(const std::string& bytes) {
  wire::Window record;
  if (!read_record(bytes, &record)) return malformed("Window");
  auto [found, is_new] = views_.try_emplace(record.pool);
  View& view = found->second;
  if (is_new) {
    if (const Status status = near_->lease(record.pool, &view.leases); status != LWMQ_OK) return status;
  }
  if (record.index != view.windows.size()) return malformed("Window");
  Window window;
  Status status = near_->find_window(record.id, &window);
  if (status == LWMQ_OK) status = far_->prepare(window);
  if (status != LWMQ_OK) return status;
  record.bytes = window.bytes();
  if (far_->peer().pid == 0) record.pid = 0;  // means nothing there
  view.windows.push_back(std::move(window));
  view.grants.emplace_back();
  return far_->send_record(StreamKind::kWindow, record);
}

// Leased before the endpoint can hear that the reader has moved past it.
Status Crossing::pass_batch(const std::string& bytes) {
  wire::Batch record;
  if (!read_record(bytes, &record)) return malformed("Batch");
  const wire::Publish& block = record.block;
  const auto found = views_.find(record.pool);
  if (found == views_.end() || block.window >= found->second.windows.size() || block.slot >= kFinishedSlot ||
      !fits(block.offset, block.bytes, found->second.windows[block.window].bytes()))
    return malformed("Batch");
  View& view = found->second;
  if (view.grants[block.window].bytes == 0) {
    held_ = bytes;
    return LWMQ_OK;
  }
  view.leases[block.slot].store(block.lap, std::memory_order_release);  // sync: block-leased
  const std::uint8_t* data = view.windows[block.window].base() + block.offset;
  record.pushed = 0;
  const bool is_excluded = filters_.exclude(data, block.bytes, block.flags);
  const std::uint64_t bounds_at = bytes_before_bounds(data, block.bytes, block.flags);
  const ByteRange bounds{bounds_at, block.bytes - bounds_at};
  const std::span<const ByteRange> ranges =
      is_excluded ? std::span(&bounds, 1) : std::span(columns_.find(data, block.bytes, block.flags));
  for (const auto& [at, size] : ranges) {
    const Status status = far_->push(view.grants[block.window], block.offset + at, data + at, size);
    if (status != LWMQ_OK) return status;
    record.pushed += size;
  }
  return far_->send_record(StreamKind::kBatch, record);
}

// There may be many blocks: while nobody waits for one, they are looked at now and then.
bool Crossing::may_have_freed() const noexcept {
  return wants_room_ || (has_news_ && os::now_ns() - looked_ns_ >= kLookEveryNs);
}

// Tells a writer which of its blocks nobody looks at any more. As WindowPool::reclaim, in this order: what
// the endpoint has dropped, which readers have come, what their pages say.
bool Crossing::release_freed() {
  if (in_flight_.empty()) return false;
  has_news_ = false;
  looked_ns_ = os::now_ns();
  std::vector<bool> dropped(in_flight_.size());
  bool any = false;
  for (std::size_t i = 0; i < dropped.size(); ++i) {
    dropped[i] = ledger_[in_flight_[i].slot].load(std::memory_order_acquire) ==
                 in_flight_[i].lap;  // sync: block-dropped
    any = any || dropped[i];
  }
  if (!any || is_over_) return false;
  pump_near();
  std::erase_if(lease_pages_, [](const LapPage& page) { return !page.is_in_use(); });
  const auto is_leased = [this](const Block& block) {
    return std::ranges::any_of(lease_pages_, [&block](const LapPage& page) {
      return page[block.slot].load(std::memory_order_acquire) == block.lap;  // sync: block-leased
    });
  };
  bool some = false;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < in_flight_.size(); ++i) {
    const Block block = in_flight_[i];
    if (i < dropped.size() && dropped[i] && !is_leased(block)) {
      some = true;
      far_->send_record(StreamKind::kReleased, wire::Released{0, block.slot, block.lap});
    } else {
      in_flight_[kept++] = block;
    }
  }
  in_flight_.resize(kept);
  return some;
}

// ---- From the client ----------------------------------------------------------------------------------

Status Crossing::from_far(StreamKind kind, const std::string& bytes) {
  switch (kind) {
    case StreamKind::kJoin:
      return pass_join(bytes);
    case StreamKind::kOpenReader:
      return pass_open_reader(bytes);
    case StreamKind::kWindow:
      return add_mirror(bytes);
    case StreamKind::kPublish:
      return pass_publish(bytes);
    case StreamKind::kGranted:
      return add_grant(bytes);
    case StreamKind::kReleased:
      return end_lease(bytes);
    case StreamKind::kWantRoom:
      wants_room_ = true;
      break;
    case StreamKind::kLease:
    case StreamKind::kGone:
      return fail(LWMQ_E_CORRUPT, "message of kind %u and %zu bytes is not one that a remote client sends",
                  static_cast<unsigned>(kind), bytes.size());
    default:
      break;
  }
  return near_->send(kind, bytes.data(), bytes.size());
}

Status Crossing::pass_join(const std::string& bytes) {
  wire::Join letter;
  if (!wire::decode(bytes, &letter)) return malformed("Join");
  const lwmq_tli_peer peer = far_->peer();
  letter.client = peer.name;
  letter.instance.assign(reinterpret_cast<const char*>(peer.instance), sizeof peer.instance);
  return near_->send_letter(StreamKind::kJoin, letter);
}

Status Crossing::pass_open_reader(const std::string& bytes) {
  wire::OpenReader letter;
  if (!wire::decode(bytes, &letter)) return malformed("OpenReader");
  if (letter.has_columns != 0) {
    std::vector<std::string> names;
    for (wire::ColumnField& column : letter.columns) names.push_back(std::move(column.name));
    columns_ = Columns(std::move(names), kPushesMax / std::clamp(letter.credit, 1u, kReaderCreditMax));
  }
  if (!filters_.take(letter.filters)) return malformed("OpenReader");
  return near_->send(StreamKind::kOpenReader, bytes.data(), bytes.size());
}

Status Crossing::add_mirror(const std::string& bytes) {
  Mirror mirror;
  if (!read_record(bytes, &mirror.record) || !ledger_ || mirror.record.index != mirrors_.size() ||
      mirror.record.index >= kWindowSlotsMax || mirror.record.bytes == 0)
    return malformed("Window");
  const Status status = Window::create(near_->provider(), mirror.record.bytes, &mirror.window);
  if (status != LWMQ_OK) return status;
  mirrors_.push_back(std::move(mirror));
  return show_mirrors();
}

// A mirror is granted when the endpoint knows it: then every batch in it can be published.
Status Crossing::show_mirrors() {
  for (Mirror& mirror : mirrors_) {
    if (mirror.is_shown) continue;
    Status status = near_->try_show(mirror.window);
    if (status == LWMQ_E_FULL) return LWMQ_OK;  // the endpoint has not looked: later
    if (status != LWMQ_OK) return status;
    mirror.is_shown = true;
    wire::Window record = mirror.record;
    mirror.window.copy_id(record.id);
    status = near_->send_record(StreamKind::kWindow, record);
    if (status == LWMQ_OK) status = far_->grant(mirror.window, 0, record.index);
    if (status != LWMQ_OK) return status;
  }
  return LWMQ_OK;
}

Status Crossing::pass_publish(const std::string& bytes) {
  wire::Publish record;
  if (!read_record(bytes, &record) || !ledger_ || record.slot >= kFinishedSlot || record.lap == 0 ||
      in_flight_.size() >= kWindowSlotsMax)
    return malformed("Publish");
  in_flight_.push_back({record.slot, record.lap});
  return near_->send(StreamKind::kPublish, bytes.data(), bytes.size());
}

Status Crossing::add_grant(const std::string& bytes) {
  wire::Granted record;
  if (!read_record(bytes, &record)) return malformed("Granted");
  const auto found = views_.find(record.pool);
  if (found == views_.end() || record.index >= found->second.grants.size()) return malformed("Granted");
  lwmq_tli_grant& grant = found->second.grants[record.index];
  const std::uint64_t bytes_needed = found->second.windows[record.index].bytes();
  if (grant.bytes != 0) return malformed("Granted");
  std::memcpy(&grant, record.grant, sizeof grant);
  if (grant.bytes == bytes_needed) return LWMQ_OK;
  const std::uint64_t granted = std::exchange(grant.bytes, 0);
  return fail(LWMQ_E_CORRUPT, "a mirror of %" PRIu64 " bytes for a window of %" PRIu64, granted,
              bytes_needed);
}

Status Crossing::end_lease(const std::string& bytes) {
  wire::Released record;
  if (!read_record(bytes, &record) || record.slot >= kFinishedSlot || record.lap == 0)
    return malformed("Released");
  const auto found = views_.find(record.pool);
  if (found == views_.end()) return malformed("Released");
  auto& leased = found->second.leases[record.slot];
  if (leased.load(std::memory_order_relaxed) != record.lap) return malformed("Released");
  leased.store(0, std::memory_order_release);  // sync: block-leased
  return LWMQ_OK;
}

}  // namespace lwmq::stream
