#include "stream/reader.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/cache_line.h"
#include "base/checked.h"
#include "base/yield_point.h"
#include "os/identity.h"
#include "os/process_name.h"
#include "stats/process_counters.h"
#include "stream/elsewhere.h"
#include "stream/kept_windows.h"
#include "stream/window_pool.h"

namespace lwmq::stream {
namespace {

// How long a close that is not to linger tries to tell what was consumed.
constexpr std::uint32_t kTellMs = 1000;

std::string own_name() {
  std::uint8_t random[8];
  os::random_bytes(random, sizeof random);
  char name[64];
  int used = std::snprintf(name, sizeof name, "reader-%u-", os::identity().pid);
  for (const std::uint8_t byte : random)
    used += std::snprintf(name + used, sizeof name - static_cast<std::size_t>(used), "%02x", byte);
  return name;
}

Status finish(lwmq_reader& reader, Status status, std::string text) {
  reader.final_status = status;
  reader.final_text = std::move(text);
  return LWMQ_OK;
}

// Makes the page of leases for a writer's windows and has the endpoint show it to the writer.
Status open_view(lwmq_reader& reader, const wire::Window& record, std::shared_ptr<PoolView>* out_view) {
  Link& link = *reader.reach.link;
  auto made = std::make_shared<PoolView>();
  made->pid = record.pid;
  made->keeps_mapped = reader.keeps_mapped;
  made->entry = reader.entry;
  Status status = LapPage::create(link.provider(), &made->page);
  if (status != LWMQ_OK) return status;
  LWMQ_YIELD("reader.page_made");
  status = link.show(made->page.window());
  if (status != LWMQ_OK) return status;
  LWMQ_YIELD("reader.page_exported");
  wire::Lease lease{};
  lease.pool = record.pool;
  made->page.window().copy_id(lease.id);
  status = link.send_record(wire::StreamKind::kLease, lease);
  LWMQ_YIELD("reader.page_told");
  if (status == LWMQ_OK) *out_view = std::move(made);
  return status;
}

Status add_window(lwmq_reader& reader, const std::string& bytes) {
  wire::Window record;
  if (!read_record(bytes, &record))
    return fail(LWMQ_E_CORRUPT, "%s: Window is malformed", reader.address.c_str());
  Link& link = *reader.reach.link;
  std::shared_ptr<PoolView> view;
  if (const auto found = reader.views.find(record.pool); found != reader.views.end()) {
    view = found->second;
  } else {
    const Status status = open_view(reader, record, &view);
    if (status != LWMQ_OK) return status;
    reader.views.emplace(record.pool, view);
  }
  view->window_bytes = record.window_bytes;
  if (record.index != view->windows.size() || record.index >= kWindowSlotsMax) {
    return fail(LWMQ_E_CORRUPT, "%s: window %u was announced, %zu was expected", reader.address.c_str(),
                record.index, view->windows.size());
  }
  Window window;
  const Status status = link.find_window(record.id, &window);
  if (status == LWMQ_OK) view->windows.push_back(std::move(window));
  return status;
}

Status add_batch(lwmq_reader& reader, const std::string& bytes) {
  Pending pending;
  if (!read_record(bytes, &pending.batch))
    return fail(LWMQ_E_CORRUPT, "%s: Batch is malformed", reader.address.c_str());
  const wire::Publish& block = pending.batch.block;
  const auto found = reader.views.find(pending.batch.pool);
  if (found == reader.views.end() || block.window >= found->second->windows.size() ||
      block.slot >= kFinishedSlot || block.lap == 0 || block.offset % kCacheLine != 0 ||
      !fits(block.offset, block.bytes, found->second->windows[block.window].bytes())) {
    return fail(LWMQ_E_CORRUPT,
                "%s: batch %" PRIu64 " of partition %u lies outside of what its writer has shown",
                reader.address.c_str(), pending.batch.seq, block.partition);
  }
  if (reader.pending.size() >= reader.credit) {
    return fail(LWMQ_E_CORRUPT, "%s: the endpoint hands over more batches than the %u it has credit for",
                reader.address.c_str(), reader.credit);
  }
  pending.view = found->second;
  reader.pending.push_back(std::move(pending));
  return LWMQ_OK;
}

// What was handed over and not lent is not ours any more. The answer says that we have heard: what we lease
// stands on our pages, and no more will.
Status be_expelled(lwmq_reader& reader, const wire::Text& letter) {
  reader.pending.clear();
  reader.has_current = false;
  finish(reader, told_failure(letter.status), letter.text);
  LWMQ_YIELD("reader.expelled");
  reader.reach.link->send(wire::StreamKind::kExpelled, nullptr, 0);
  return LWMQ_OK;
}

Status handle(lwmq_reader& reader, wire::StreamKind kind, const std::string& bytes) {
  wire::Text letter;
  const bool after_end = reader.final_status == LWMQ_E_END;
  if (after_end && kind != wire::StreamKind::kPong && kind != wire::StreamKind::kExpelled) {
    return fail(LWMQ_E_CORRUPT, "%s: the endpoint sent a message of kind %u behind the end",
                reader.address.c_str(), static_cast<unsigned>(kind));
  }
  switch (kind) {
    case wire::StreamKind::kWindow:
      return add_window(reader, bytes);
    case wire::StreamKind::kBatch:
      return add_batch(reader, bytes);
    case wire::StreamKind::kDeclared:
      // Once: the schema is lent to the application until the reader closes.
      if (reader.declared || !wire::decode(bytes, &letter)) break;
      reader.schema = std::move(letter.text);
      reader.declared = true;
      return LWMQ_OK;
    case wire::StreamKind::kEnd:
      return finish(reader, LWMQ_E_END, {});
    case wire::StreamKind::kPong:
      return LWMQ_OK;  // the link has counted it
    case wire::StreamKind::kExpelled:
      if (!wire::decode(bytes, &letter)) break;
      return be_expelled(reader, letter);
    case wire::StreamKind::kFailed:
      if (!wire::decode(bytes, &letter)) break;
      return finish(reader, told_failure(letter.status), std::move(letter.text));
    default:
      break;
  }
  return fail(LWMQ_E_CORRUPT, "%s: the endpoint sent a message of kind %u and %zu bytes to a reader",
              reader.address.c_str(), static_cast<unsigned>(kind), bytes.size());
}

// Takes in what has come. A conversation that is over becomes the final status, behind what was handed over.
// Behind the end only an expulsion is news.
void pump(lwmq_reader& reader) {
  std::string bytes;
  while (reader.final_status == LWMQ_OK || reader.final_status == LWMQ_E_END) {
    wire::StreamKind kind{};
    Status status = reader.reach.link->receive(&kind, &bytes);
    if (status == LWMQ_E_EMPTY) return;
    if (status == LWMQ_OK) status = handle(reader, kind, bytes);
    if (status == LWMQ_E_CLOSED || status == LWMQ_E_PEER_LOST) {
      if (reader.final_status == LWMQ_E_END) return;
      reader.endpoint_is_lost = true;
      const std::uint32_t pid = reader.reach.link->peer().pid;
      if (std::ranges::any_of(reader.views, [&](const auto& view) { return view.second->pid == pid; }))
        reader.reach.server_is = wire::Server::kWriter;  // it came after us
      finish(reader, LWMQ_E_PEER_LOST, reader.address + ": " + how_it_was_lost(reader.reach, status));
    } else if (status != LWMQ_OK) {
      finish(reader, status, last_error());
    }
  }
}

// Waits until `done` answers true. LWMQ_E_TIMED_OUT without a text; LWMQ_E_STALLED.
template <typename Done>
Status wait_for(lwmq_reader& reader, const Deadline& deadline, Done&& done) {
  pump(reader);
  if (done()) return LWMQ_OK;
  const std::int64_t began = os::now_ns();
  reader.waiting.begin(*reader.entry, began);
  Status status = LWMQ_OK;
  while (!done()) {
    if (deadline.over()) {
      status = LWMQ_E_TIMED_OUT;
      break;
    }
    status = reader.reach.wait(deadline.left_ms());
    if (status == LWMQ_E_INTERRUPTED || status == LWMQ_E_STALLED) break;
    status = LWMQ_OK;
    reader.reach.link->flush();
    pump(reader);
  }
  const std::int64_t now = os::now_ns();
  reader.waiting.end(*reader.entry, now, status != LWMQ_OK);
  stats::set(reader.entry->flags, reader.reach.pulse.is_stalled() ? stats::kEntryStalled : 0);
  reader.statistics.wait_ns += static_cast<std::uint64_t>(now - began);
  return status;
}

// The endpoint lives, and a producer has given up or died.
bool has_lost_a_producer(const lwmq_reader& reader) {
  return reader.final_status == LWMQ_E_ABORTED ||
         (reader.final_status == LWMQ_E_PEER_LOST && !reader.endpoint_is_lost);
}

// Says again what ended the reader. A reader that follows goes on after the end of a producer.
Status say_final(lwmq_reader& reader) {
  const Status status = reader.final_status;
  if (status == LWMQ_E_END) return status;
  const bool goes_on = reader.follows && has_lost_a_producer(reader);
  if (goes_on) reader.final_status = LWMQ_OK;
  if (status != LWMQ_E_PEER_LOST) return fail(status, "%s", reader.final_text.c_str());
  const auto& counted = reader.statistics;
  return fail(status,
              "%s. This reader got %" PRIu64 " batches (%" PRIu64
              " rows) before, which are not the whole stream: "
              "start the producer again%s",
              reader.final_text.c_str(), counted.batches, counted.rows,
              goes_on ? "; this reader goes on with the next one" : ", and open the reader anew");
}

// Whoever hears of the end may call nothing more: what he has consumed is told before.
bool may_say_final(lwmq_reader& reader) {
  if (reader.final_status == LWMQ_OK) return false;
  Link& link = *reader.reach.link;
  return link.flush() || reader.final_status != LWMQ_E_END || !link.is_connected();
}

// A reader that holds more than half of a writer's window, or its part of that where others hold other
// batches, would stop it: what follows is copied.
Status lend(lwmq_reader& reader, Pending&& pending, lwmq_batch** out_batch) {
  const wire::Publish& block = pending.batch.block;
  PoolView& view = *pending.view;
  const Window& window = view.windows[block.window];
  auto batch = std::make_unique<lwmq_batch>();
  batch->slot = block.slot;
  auto& info = batch->info;
  info.size = sizeof info;
  info.data = window.base() + block.offset;
  info.bytes = block.bytes;
  info.rows = block.rows;
  info.seq = pending.batch.seq;
  info.timestamp_ns = block.timestamp_ns;
  info.partition = block.partition;
  info.flags = block.flags;
  info.writer_pid = view.pid;
  info.window_data = window.base();
  info.window_bytes = window.bytes();
  auto& counted = reader.statistics;
  const std::uint64_t leased_max = view.window_bytes / 2 / std::max(block.sharers, 1u);
  if (view.leased_bytes.load(std::memory_order_relaxed) + block.bytes > leased_max &&
      view.leased_batches.load(std::memory_order_relaxed) > 0) {
    const std::uint64_t bytes = align_up(std::max<std::uint64_t>(block.bytes, 1), kCacheLine);
    batch->copy = {static_cast<std::uint8_t*>(std::aligned_alloc(kCacheLine, bytes)), std::free};
    if (!batch->copy) {
      return fail(LWMQ_E_NO_MEMORY, "%s: no memory for a private copy of %" PRIu64 " bytes",
                  reader.address.c_str(), bytes);
    }
    std::memcpy(batch->copy.get(), info.data, block.bytes);
    info.data = batch->copy.get();
    info.copied = 1;
    info.window_data = nullptr;
    info.window_bytes = 0;
    counted.bytes_copied += block.bytes;
    ++counted.batches_copied;
    stats::add(stats::process().bytes_copied, block.bytes);
    stats::add(stats::process().batches_copied, 1);
  } else {
    LWMQ_YIELD("reader.lease");
    view.page[block.slot].store(block.lap, std::memory_order_release);  // sync: block-leased
    LWMQ_YIELD("reader.leased");
    view.leased_bytes.fetch_add(block.bytes, std::memory_order_relaxed);
    view.leased_batches.fetch_add(1, std::memory_order_relaxed);
    stats::add(reader.entry->leased_batches, 1);
    stats::add(reader.entry->leased_bytes, block.bytes);
    batch->view = std::move(pending.view);
  }
  ++counted.batches, counted.rows += block.rows, counted.bytes += block.bytes;
  stats::add(stats::process().batches_read, 1);
  stats::add(stats::process().bytes_read, block.bytes);
  stats::Entry& entry = *reader.entry;
  stats::set(entry.batches, counted.batches);
  stats::set(entry.rows, counted.rows);
  stats::set(entry.bytes, counted.bytes);
  stats::set(entry.peer_pid, info.writer_pid);
  stats::set(entry.moved_ns, static_cast<std::uint64_t>(os::coarse_now_ns()));
  reader.has_current = true;
  reader.current = {};
  reader.current.partition = block.partition;
  reader.current.seq = info.seq;
  *out_batch = batch.release();
  if (LWMQ_PLANTED("acknowledge_early")) consume(reader);
  return LWMQ_OK;
}

// A generation is that of one endpoint: where nobody listens it is gone for good.
Status reach_known(const char* address, const Deadline& deadline, std::uint32_t stall_ms, Reach* out_reach) {
  const std::int64_t began_ns = os::now_ns();
  Status status = LWMQ_OK;
  std::int64_t waited_ms = 0;
  do {
    status = reach_now(address, deadline, stall_ms, out_reach);
    waited_ms = (os::now_ns() - began_ns) / 1'000'000;
  } while (status == LWMQ_E_TIMED_OUT && !deadline.over() &&
           (stall_ms == LWMQ_FOREVER || waited_ms < stall_ms));
  if (status == LWMQ_E_EMPTY || status == LWMQ_E_CLOSED || status == LWMQ_E_PEER_LOST)
    return fail(LWMQ_E_CLOSED, "%s: nobody serves this stream any more", address);
  if (status == LWMQ_E_TIMED_OUT) {
    return fail(waited_ms < stall_ms ? LWMQ_E_TIMED_OUT : LWMQ_E_STALLED,
                "%s: somebody serves this address, and has not answered for %" PRId64 " ms", address,
                waited_ms);
  }
  return status;
}

}  // namespace

PoolView::~PoolView() {
  LWMQ_YIELD("reader.finish");
  if (page) page[kFinishedSlot].store(1, std::memory_order_release);  // sync: block-leased
  LWMQ_YIELD("reader.finished");
  if (!keeps_mapped) return;
  for (Window& window : windows) {
    if (!window.is_own()) keep_mapped(std::move(window));
  }
}

Status open_reader(const char* address, const lwmq_reader_options& options,
                   std::unique_ptr<lwmq_reader>* out_reader) {
  Status named = options.name == nullptr ? LWMQ_OK : check_name(address, "reader", options.name);
  if (named == LWMQ_OK && options.task != nullptr) named = check_name(address, "task", options.task);
  if (named != LWMQ_OK) return named;
  if (options.range_count > kRangesMax || (options.range_count > 0 && options.ranges == nullptr)) {
    return fail(LWMQ_E_INVALID, "%s: %u ranges; up to %u are possible", address, options.range_count,
                kRangesMax);
  }
  if (options.job != nullptr) {
    const Status job = check_name(address, "job", options.job);
    if (job != LWMQ_OK) return job;
    if (options.task_count > kTaskCommitsMax || (options.task_count > 0 && options.tasks == nullptr)) {
      return fail(LWMQ_E_INVALID, "%s: %u tasks of a job; up to %u are possible", address, options.task_count,
                  kTaskCommitsMax);
    }
  }
  const Deadline deadline(options.timeout_ms);
  auto reader = std::make_unique<lwmq_reader>();
  reader->follows = options.follow != 0;
  reader->keeps_mapped = options.keep_mapped != 0;
  reader->credit = std::clamp<std::uint32_t>(options.credit, 1, kReaderCreditMax);
  wire::OpenReader letter;
  letter.acknowledge = options.acknowledge;
  letter.follow = options.follow;
  letter.writers = options.writers;
  letter.credit = reader->credit;
  letter.named = options.name != nullptr ? 1 : 0;
  letter.name = options.name != nullptr ? options.name : own_name();
  if (options.task != nullptr) letter.task = options.task;
  letter.attempt = options.attempt;
  if (options.generation != nullptr)
    letter.generation.assign(reinterpret_cast<const char*>(options.generation), 16);
  for (std::uint32_t i = 0; i < options.range_count; ++i) {
    letter.ranges.push_back({options.ranges[i].partition, options.ranges[i].start, options.ranges[i].end});
  }
  if (options.job != nullptr) {
    letter.job = options.job;
    letter.epoch = options.epoch;
    for (std::uint32_t i = 0; i < options.task_count; ++i) letter.tasks.push_back({options.tasks[i]});
  }
  Status status = LWMQ_OK;
  wire::Opened answer;
  do {
    status = options.generation != nullptr && options.role == LWMQ_ROLE_CLIENT
                 ? reach_known(address, deadline, options.stall_ms, &reader->reach)
                 : reach(address, options.role, deadline, options.stall_ms, &reader->reach);
    if (status == LWMQ_OK) status = reader->reach.link->send_letter(wire::StreamKind::kOpenReader, letter);
    if (status == LWMQ_OK) status = await_opened(reader->reach, deadline, &answer);
  } while (options.generation == nullptr && ask_again(&status, deadline));
  if (status != LWMQ_OK) return status;
  reader->address = reader->reach.address;
  reader->generation = std::move(answer.generation);
  if (reader->generation.size() == 16)
    std::memcpy(reader->statistics.generation, reader->generation.data(), 16);
  reader->entry = stats::open_entry(stats::EntryKind::kReader, reader->address.c_str(), letter.name.c_str());
  stats::set(reader->entry->partitions, answer.partitions);
  *out_reader = std::move(reader);
  return LWMQ_OK;
}

Status await_schema(lwmq_reader& reader, std::uint32_t timeout_ms) {
  if (!reader.reach.link) return fail(LWMQ_E_CLOSED, "%s: this reader is closed", reader.address.c_str());
  const Status status = wait_for(reader, Deadline(timeout_ms),
                                 [&] { return reader.declared || reader.final_status != LWMQ_OK; });
  if (status == LWMQ_E_TIMED_OUT) {
    return fail(LWMQ_E_TIMED_OUT, "%s: no writer has come with a schema to the endpoint in %s%s",
                reader.address.c_str(), server_of(reader.reach).c_str(),
                served_elsewhere(reader.address).c_str());
  }
  if (status != LWMQ_OK) return status;
  return reader.declared ? LWMQ_OK : say_final(reader);
}

namespace {

// What a reader waits for, and of whom.
std::string missed(const lwmq_reader& reader) {
  const std::string endpoint = "the endpoint in " + server_of(reader.reach);
  if (!reader.declared) return "no writer has come to " + endpoint;
  if (reader.final_status != LWMQ_OK)
    return "the stream has ended, and " + endpoint + " has not heard of all that was consumed";
  if (reader.statistics.batches == 0) return "no batch has come to " + endpoint;
  const auto pid = static_cast<std::uint32_t>(reader.entry->peer_pid.load(std::memory_order_relaxed));
  const std::string why =
      reader.follows ? "this reader follows the stream beyond its end" : "the stream has not ended";
  return "no further batch has come to " + endpoint + ", and " + why + "; the last one was of " +
         os::process_name(pid);
}

}  // namespace

Status wait(lwmq_reader& reader, std::uint32_t timeout_ms) {
  if (!reader.reach.link) return fail(LWMQ_E_CLOSED, "%s: this reader is closed", reader.address.c_str());
  Status status = consume(reader);
  if (status != LWMQ_OK && status != LWMQ_E_PEER_LOST && status != LWMQ_E_CLOSED) return status;
  pump(reader);  // also before what is here already: an expulsion takes it away
  if (!reader.pending.empty()) return LWMQ_OK;
  status = wait_for(reader, Deadline(timeout_ms),
                    [&] { return !reader.pending.empty() || may_say_final(reader); });
  if (status != LWMQ_E_TIMED_OUT) return status;
  // Whoever only looks whether there is something does not pay for names.
  const std::string what = timeout_ms == 0 ? "no batch is there" : missed(reader);
  return fail(LWMQ_E_TIMED_OUT, "%s: %s", reader.address.c_str(), what.c_str());
}

Status next(lwmq_reader& reader, std::uint32_t timeout_ms, lwmq_batch** out_batch) {
  const Status status = wait(reader, timeout_ms);
  if (status != LWMQ_OK) return status;
  if (reader.pending.empty()) return say_final(reader);
  Pending pending = std::move(reader.pending.front());
  reader.pending.pop_front();
  return lend(reader, std::move(pending), out_batch);
}

// Whether the endpoint still counts what is consumed. It does behind an end, and behind the loss of a
// producer or of batches: the reader hears of these before it has read what came earlier.
bool is_heard(const lwmq_reader& reader) {
  const Status status = reader.final_status;
  return status == LWMQ_OK || status == LWMQ_E_END || status == LWMQ_E_DATA_LOSS ||
         has_lost_a_producer(reader);
}

Status consume(lwmq_reader& reader) {
  if (!reader.has_current) return LWMQ_OK;
  reader.has_current = false;
  if (!is_heard(reader)) return LWMQ_OK;
  Link& link = *reader.reach.link;
  LWMQ_YIELD("reader.consume");
  const Status status = link.send_record(wire::StreamKind::kConsumed, reader.current);
  LWMQ_YIELD("reader.consumed");
  if (status == LWMQ_OK) reader.reach.pump();
  return status;
}

void release(lwmq_batch* batch) {
  if (batch->view) {
    PoolView& view = *batch->view;
    view.leased_bytes.fetch_sub(batch->info.bytes, std::memory_order_relaxed);
    view.leased_batches.fetch_sub(1, std::memory_order_relaxed);
    stats::subtract(view.entry->leased_batches, 1);
    stats::subtract(view.entry->leased_bytes, batch->info.bytes);
    LWMQ_YIELD("reader.release");
    view.page[batch->slot].store(0, std::memory_order_release);  // sync: block-leased
    LWMQ_YIELD("reader.released");
  }
  delete batch;
}

void abandon(lwmq_reader& reader) {
  if (reader.reach.link && is_heard(reader))
    reader.reach.link->send(wire::StreamKind::kAbandonReader, nullptr, 0);
  close(reader, 0);
}

Status close(lwmq_reader& reader, std::uint32_t linger_ms) {
  if (!reader.reach.link) return LWMQ_OK;
  reader.views.clear();
  reader.pending.clear();
  stats::set(reader.entry->flags, stats::kEntryClosed);
  if (is_heard(reader))
    push_backlog(reader.reach,
                 std::clamp(linger_ms, kTellMs, kStallMs));  // else what it consumed comes again
  return part(&reader.reach, Deadline(linger_ms));
}

}  // namespace lwmq::stream
