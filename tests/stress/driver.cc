// One player of a stress round: endpoint, writer, task, job or reader of a stream; poster or taker of a
// channel, or a hub that takes from many posters. On lwmq.h alone.
//
//   stress_driver ROLE ADDRESS [key=value ...]
//
// Says what happens to it line by line on its standard output: "what time-in-ns ...". Closes in order when
// its standard input says so or ends. What it has achieved lies on the *board*, a file that outlives it: a
// player that is killed cannot say any more how far it got.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lwmq/lwmq.h"

namespace {

// ---- What the player was asked to do -------------------------------------------------------------------

std::map<std::string, std::string> settings;

std::string text(const char* key, const char* otherwise = "") {
  const auto found = settings.find(key);
  return found == settings.end() ? otherwise : found->second;
}

std::uint64_t number(const char* key, std::uint64_t otherwise) {
  const auto found = settings.find(key);
  return found == settings.end() ? otherwise : std::strtoull(found->second.c_str(), nullptr, 10);
}

std::int32_t role() { return number("serves", 0) != 0 ? LWMQ_ROLE_SERVER : LWMQ_ROLE_CLIENT; }

// ---- What it says --------------------------------------------------------------------------------------

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// One write, so that a kill leaves no half line.
[[gnu::format(printf, 2, 3)]] void say(const char* what, const char* format, ...) {
  char line[1024];
  int used = std::snprintf(line, sizeof line, "%s %lld ", what, static_cast<long long>(now_ns()));
  va_list arguments;
  va_start(arguments, format);
  used += std::vsnprintf(line + used, sizeof line - static_cast<std::size_t>(used) - 1, format, arguments);
  va_end(arguments);
  used = std::min<int>(used, sizeof line - 2);
  line[used] = '\n';
  if (write(1, line, static_cast<std::size_t>(used) + 1) < 0) _exit(1);
}

void say_failed(lwmq_status status) { say("failed", "%s %s", lwmq_status_name(status), lwmq_last_error()); }

constexpr std::uint32_t kWriters = 16;
constexpr std::uint32_t kPartitions = 4;

// Read by the harness as 64-bit numbers.
struct Board {
  std::uint64_t batches;                      // written or read in all
  std::uint64_t next[kWriters][kPartitions];  // writer: published of its own; reader: one past the last read
};

Board* board = nullptr;

Board* map_board() {
  const int fd = open(text("board").c_str(), O_RDWR | O_CLOEXEC);
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) _exit(2);
  return static_cast<Board*>(memory);
}

// ---- Being told to close -------------------------------------------------------------------------------

std::atomic<bool> closing{false};
std::atomic<bool> heard{false};  // the playing thread has seen it

// The playing thread waits without a limit of its own: only a signal gets it out of there.
void listen_to_harness(pthread_t player) {
  char byte = 0;
  while (read(0, &byte, 1) < 0) {
  }
  closing = true;
  while (!heard) {
    pthread_kill(player, SIGUSR1);
    usleep(2000);
  }
}

bool told_to_close() {
  if (!closing) return false;
  heard = true;
  return true;
}

void pace() {
  const std::uint64_t us = number("pace_us", 0);
  if (us > 0) usleep(static_cast<useconds_t>(us));
}

// ---- Batches that can tell whether they are whole --------------------------------------------------------

struct Head {
  std::uint64_t writer, partition, number, bytes;
};

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30, x *= 0xbf58476d1ce4e5b9ULL, x ^= x >> 27, x *= 0x94d049bb133111ebULL;
  return x ^ x >> 31;
}

std::uint64_t first_word(const Head& head) {
  return mix(head.writer << 56 ^ head.partition << 48 ^ head.bytes << 32 ^ head.number);
}

void fill(std::uint8_t* data, const Head& head) {
  auto* words = reinterpret_cast<std::uint64_t*>(data);
  std::memcpy(words, &head, sizeof head);
  std::uint64_t value = first_word(head);
  for (std::uint64_t i = sizeof head / 8; i < head.bytes / 8; ++i) words[i] = value += 0x9e3779b97f4a7c15ULL;
}

bool is_whole(const std::uint8_t* data, std::uint64_t bytes, Head* out_head) {
  const auto* words = reinterpret_cast<const std::uint64_t*>(data);
  std::memcpy(out_head, words, sizeof *out_head);
  if (out_head->bytes != bytes || out_head->writer >= kWriters || out_head->partition >= kPartitions)
    return false;
  std::uint64_t value = first_word(*out_head);
  for (std::uint64_t i = sizeof *out_head / 8; i < bytes / 8; ++i) {
    if (words[i] != (value += 0x9e3779b97f4a7c15ULL)) return false;
  }
  return true;
}

// ---- The players -----------------------------------------------------------------------------------------

constexpr char kSchema[] = "numbered batches";
constexpr std::uint32_t kPatienceMs = 120'000;

// What a process may be besides a player: large, or the parent of one that inherits everything.
void be_large() {
  const std::uint64_t bytes = number("resident_mb", 0) << 20;
  if (bytes == 0) return;
  if (mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) ==
      MAP_FAILED)
    _exit(2);
}

void be_parent() {
  if (number("forks", 0) == 0) return;
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  say("child", "%d", child);
}

lwmq_writer_options writer_options() {
  lwmq_writer_options options{};
  options.size = sizeof options;
  options.role = role();
  options.partitions = static_cast<std::uint32_t>(number("partitions", 1));
  options.window_bytes = number("window", 1 << 20);
  options.timeout_ms = kPatienceMs;
  options.delivery = static_cast<std::uint32_t>(number("delivery", LWMQ_DELIVERY_LIVE));
  options.retain = static_cast<std::uint32_t>(number("retain", LWMQ_RETAIN_UNTIL_ACKED));
  options.stall_ms = static_cast<std::uint32_t>(number("stall_ms", 0));
  options.expel_after_ms = static_cast<std::uint32_t>(number("expel_after_ms", 0));
  return options;
}

// Writes the next batch of the partition; the number becomes known to the board when the library has taken
// it.
lwmq_status write_batch(lwmq_writer* writer, std::uint32_t partition, std::uint32_t timeout_ms,
                        bool of_task = false) {
  const std::uint64_t id = number("id", 0);
  Head head{id, partition, board->next[id][partition], 0};
  head.bytes = 64 + mix(head.number ^ id << 32) % number("bytes", 8192) / 8 * 8;
  lwmq_block block{};
  const lwmq_status status = lwmq_writer_allocate(writer, head.bytes, timeout_ms, &block);
  if (status != LWMQ_OK) return status;
  fill(block.data, head);
  const lwmq_status published =
      lwmq_writer_publish(writer, &block, of_task ? LWMQ_PARTITION_OF_TASK : partition, head.bytes, 1, 0);
  if (published != LWMQ_OK) return published;
  ++board->next[id][partition];
  ++board->batches;
  return LWMQ_OK;
}

int play_writer(const char* address) {
  lwmq_writer* writer = nullptr;
  const lwmq_writer_options options = writer_options();
  lwmq_status status = lwmq_writer_open(address, kSchema, sizeof kSchema, &options, &writer);
  if (status != LWMQ_OK) {
    say_failed(status);
    return 0;
  }
  say("open", "%s", "");
  be_parent();
  const std::uint64_t count = number("count", UINT64_MAX);
  const auto timeout_ms = static_cast<std::uint32_t>(number("timeout_ms", kPatienceMs));
  for (std::uint64_t i = 0; i < count && !told_to_close();) {
    status = write_batch(writer, static_cast<std::uint32_t>(i % options.partitions), timeout_ms);
    if (status == LWMQ_E_TIMED_OUT || status == LWMQ_E_STALLED) {
      say("waits", "%s %s", lwmq_status_name(status), lwmq_last_error());
      continue;
    }
    if (status == LWMQ_E_INTERRUPTED) continue;
    if (status != LWMQ_OK) {
      say_failed(status);
      lwmq_writer_destroy(writer);
      return 0;
    }
    ++i;
    pace();
  }
  do status = lwmq_writer_close(writer, kPatienceMs);
  while (status == LWMQ_E_INTERRUPTED || status == LWMQ_E_STALLED);
  lwmq_writer_destroy(writer);
  say("closed", "%s %s", lwmq_status_name(status), status == LWMQ_OK ? "" : lwmq_last_error());
  return 0;
}

// One attempt of a task: writes `count` batches and commits.
int play_task(const char* address) {
  lwmq_writer* writer = nullptr;
  lwmq_writer_options options = writer_options();
  const std::string job = text("job");
  options.job = job.c_str();
  options.task = static_cast<std::uint32_t>(number("task", 0));
  options.attempt = number("attempt", 0);
  lwmq_status status = lwmq_writer_open(address, kSchema, sizeof kSchema, &options, &writer);
  const std::uint64_t count = number("count", 10);
  for (std::uint64_t i = 0; i < count && status == LWMQ_OK; ++i)
    status = write_batch(writer, 0, kPatienceMs, true);
  lwmq_commit_result result{};
  result.size = sizeof result;
  if (status == LWMQ_OK) status = lwmq_writer_commit(writer, kPatienceMs, &result);
  if (status == LWMQ_OK) {
    say("committed", "%u %llu %llu", result.won, static_cast<unsigned long long>(result.attempt),
        static_cast<unsigned long long>(result.batches));
    status = lwmq_writer_close(writer, kPatienceMs);
  }
  if (status == LWMQ_OK) {
    say("closed", "LWMQ_OK");
  } else {
    say_failed(status);
  }
  if (writer != nullptr) lwmq_writer_destroy(writer);
  return 0;
}

// The driver of a job. When told to close it reads what to commit: "task attempt batches" line by line.
int play_job(const char* address) {
  lwmq_job* job = nullptr;
  lwmq_writer_options options = writer_options();
  const std::string name = text("job");
  options.job = name.c_str();
  lwmq_status status = lwmq_job_open(address, kSchema, sizeof kSchema, &options, &job);
  if (status != LWMQ_OK) {
    say_failed(status);
    return 0;
  }
  say("open", "%s", "");
  std::vector<lwmq_task_commit> tasks;
  unsigned task = 0;
  unsigned long long attempt = 0, batches = 0;
  while (std::scanf("%u %llu %llu", &task, &attempt, &batches) == 3)
    tasks.push_back({task, 0, attempt, batches});
  status = lwmq_job_commit(job, 0, tasks.data(), static_cast<std::uint32_t>(tasks.size()), kPatienceMs);
  if (status != LWMQ_OK) {
    say_failed(status);
    lwmq_job_abort(job, "its commit failed", kPatienceMs);
  }
  say("closed", "%s", lwmq_status_name(lwmq_job_close(job)));
  return 0;
}

// Batches that the reader still leases, each looked at again before it goes.
std::deque<lwmq_batch*> held;

// A batch as it is now: its head, and the reader's end if it is not whole.
Head look_at(lwmq_batch* batch, const char* when) {
  lwmq_batch_info info{};
  info.size = sizeof info;
  lwmq_batch_query(batch, &info);
  Head head{};
  if (!is_whole(info.data, info.bytes, &head)) {
    say("torn", "%s: sequence %llu of partition %u, %llu bytes of process %u", when,
        static_cast<unsigned long long>(info.seq), info.partition,
        static_cast<unsigned long long>(info.bytes), info.writer_pid);
    _exit(3);
  }
  return head;
}

void let_go(std::size_t keep) {
  while (held.size() > keep) {
    look_at(held.front(), "held");
    lwmq_batch_release(held.front());
    held.pop_front();
  }
}

// Within a writer's partition no number is missing and none comes twice.
void take(lwmq_batch* batch) {
  const Head head = look_at(batch, "new");
  std::uint64_t& next = board->next[head.writer][head.partition];
  static bool seen[kWriters][kPartitions];
  if (!seen[head.writer][head.partition]) {
    seen[head.writer][head.partition] = true;
    say("first", "%llu %llu %llu", static_cast<unsigned long long>(head.writer),
        static_cast<unsigned long long>(head.partition), static_cast<unsigned long long>(head.number));
  } else if (head.number != next) {
    say("disorder", "writer %llu partition %llu: %llu in place of %llu",
        static_cast<unsigned long long>(head.writer), static_cast<unsigned long long>(head.partition),
        static_cast<unsigned long long>(head.number), static_cast<unsigned long long>(next));
    _exit(4);
  }
  next = head.number + 1;
  ++board->batches;
  held.push_back(batch);
  let_go(number("hold", 0));
}

int play_reader(const char* address) {
  lwmq_reader_options options{};
  options.size = sizeof options;
  options.role = role();
  const std::string name = text("as");
  if (!name.empty()) options.name = name.c_str();
  options.follow = static_cast<std::uint32_t>(number("follow", 1));
  options.timeout_ms = kPatienceMs;
  options.credit = static_cast<std::uint32_t>(number("credit", 8));
  options.stall_ms = static_cast<std::uint32_t>(number("stall_ms", 0));
  std::uint8_t generation[16];
  const std::string hex = text("generation");
  for (std::size_t i = 0; i + 1 < hex.size() && i < 32; i += 2)
    generation[i / 2] = static_cast<std::uint8_t>(std::strtoul(hex.substr(i, 2).c_str(), nullptr, 16));
  if (!hex.empty()) options.generation = generation;
  const lwmq_range from{0, 0, number("start", 0), LWMQ_SEQ_END};
  if (settings.count("start") != 0) {
    options.ranges = &from;
    options.range_count = 1;
  }
  lwmq_reader* reader = nullptr;
  lwmq_status status = lwmq_reader_open(address, &options, &reader);
  if (status != LWMQ_OK) {
    say_failed(status);
    return 0;
  }
  lwmq_reader_statistics statistics{};
  statistics.size = sizeof statistics;
  lwmq_reader_query(reader, &statistics);
  std::string mine;
  for (const std::uint8_t byte : statistics.generation) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", byte);
    mine += two;
  }
  say("open", "%s", mine.c_str());
  be_parent();
  const auto timeout_ms = static_cast<std::uint32_t>(number("timeout_ms", kPatienceMs));
  auto asked_ns = static_cast<long long>(now_ns());  // since when we wait: what was visible comes first
  while (!told_to_close()) {
    lwmq_batch* batch = nullptr;
    status = lwmq_reader_next(reader, timeout_ms, &batch);
    if (status == LWMQ_OK) {
      take(batch);
      pace();
      asked_ns = static_cast<long long>(now_ns());
      continue;
    }
    if (status != LWMQ_E_TIMED_OUT && status != LWMQ_E_INTERRUPTED) say("asked", "%lld", asked_ns);
    const bool goes_on =
        status == LWMQ_E_ABORTED || (status == LWMQ_E_PEER_LOST &&
                                     std::strstr(lwmq_last_error(), "goes on with the next one") != nullptr);
    if (goes_on && options.follow != 0) {
      say("aborted", "%s", lwmq_last_error());
    } else if (status == LWMQ_E_TIMED_OUT || status == LWMQ_E_STALLED) {
      say("waits", "%s %s", lwmq_status_name(status), lwmq_last_error());
    } else if (status != LWMQ_E_INTERRUPTED) {
      if (status == LWMQ_E_END) {
        say("ended", "%s", "");
      } else {
        say_failed(status);
      }
      break;
    }
  }
  let_go(0);
  status = lwmq_reader_close(reader, 0);
  if (status == LWMQ_OK || status == LWMQ_E_TIMED_OUT) say("closed", "%s", lwmq_status_name(status));
  return 0;
}

int play_endpoint(const char* address) {
  lwmq_endpoint* endpoint = nullptr;
  lwmq_status status = lwmq_endpoint_open(address, &endpoint);
  if (status != LWMQ_OK) {
    say_failed(status);
    return 0;
  }
  say("open", "%s", "");
  be_parent();
  std::uint64_t lost = 0;
  while (!told_to_close()) {
    lwmq_statistics counted{};
    counted.size = sizeof counted;
    lwmq_query_statistics(&counted);
    for (; lost < counted.peers_lost; ++lost) say("peer_lost", "%s", "");
    usleep(1000);
  }
  status = lwmq_endpoint_close(endpoint, 0);
  say("closed", "%s", lwmq_status_name(status));
  return 0;
}

// -- Channels: one posts from some threads into a queue of some kind, the other receives

constexpr std::uint64_t kQueuedMost = 500;  // while nobody takes them

lwmq_channel_options channel_options() {
  lwmq_channel_options options{};
  options.size = sizeof options;
  options.buffer_bytes = 16384;
  options.buffers_send = 4;
  options.retry_ms = 20;
  options.receive_queue = static_cast<std::uint32_t>(number("receive_kind", LWMQ_QUEUE_MONO_UNBOUNDED));
  options.receive_capacity = number("receive_capacity", 0);
  options.raw = static_cast<std::uint32_t>(number("raw", 0));
  options.home_thread = static_cast<std::uint32_t>(number("home", 0));
  return options;
}

std::string filtered(const char* address) { return text("filters") + address; }

// Ways to the peer besides `address`, each at a name of its own.
lwmq_status add_ways(lwmq_channel* channel, const std::string& address) {
  lwmq_transport_options options{};
  options.size = sizeof options;
  options.buffers_send = 4;
  options.retry_ms = 20;
  options.redundant = 1;
  lwmq_status status = LWMQ_OK;
  for (std::uint64_t way = 1; way < number("ways", 1) && status == LWMQ_OK; ++way)
    status = lwmq_channel_add_transport(channel, (address + "-way" + std::to_string(way)).c_str(), &options);
  return status;
}

lwmq_channel* open_channel(const char* address) {
  const lwmq_channel_options options = channel_options();
  lwmq_channel* channel = nullptr;
  lwmq_status status = lwmq_channel_create(filtered(address).c_str(), &options, &channel);
  if (status == LWMQ_OK) status = add_ways(channel, address);
  if (status == LWMQ_OK) status = lwmq_channel_open(channel, role());
  if (status != LWMQ_OK) {
    say_failed(status);
    return nullptr;
  }
  say("open", "%s", "");
  return channel;
}

Head next_head(std::uint32_t thread, std::uint64_t ahead = 0) {
  const std::uint64_t id = number("id", 0);
  Head head{id, thread, board->next[id][thread] + ahead, 0};
  head.bytes = 64 + mix(head.number ^ id << 32 ^ thread << 20) % number("bytes", 4096) / 8 * 8;
  return head;
}

void count_sent(const Head& head) {
  ++board->next[head.writer][head.partition];
  __atomic_add_fetch(&board->batches, 1, __ATOMIC_RELAXED);
  pace();
}

// Posts the next numbered messages of thread `thread` with one call.
lwmq_status post_together(lwmq_send_queue* queue, std::uint32_t thread) {
  constexpr std::size_t kTogether = 5;
  std::vector<std::uint64_t> words[kTogether];
  Head heads[kTogether];
  lwmq_bytes frames[kTogether];
  for (std::size_t i = 0; i < kTogether; ++i) {
    heads[i] = next_head(thread, i);
    words[i].resize(1024);
    fill(reinterpret_cast<std::uint8_t*>(words[i].data()), heads[i]);
    frames[i] = {words[i].data(), heads[i].bytes};
  }
  std::uint64_t posted = 0;
  const lwmq_status status = lwmq_send_queue_post_many(queue, frames, kTogether, &posted);
  for (std::uint64_t i = 0; i < posted && status == LWMQ_OK; ++i) count_sent(heads[i]);
  return status;
}

// Posts the next numbered message of thread `thread`, or some, unless too many wait. False: never again.
bool post_next(lwmq_send_queue* queue, std::uint32_t thread, bool is_tagged) {
  lwmq_send_queue_statistics state{};
  state.size = sizeof state;
  if (lwmq_send_queue_query(queue, &state) != LWMQ_OK) return false;
  if (state.queued >= kQueuedMost) {
    usleep(200);
    return true;
  }
  lwmq_status status = LWMQ_OK;
  if (number("together", 0) != 0 && !is_tagged) {
    status = post_together(queue, thread);
  } else {
    const Head head = next_head(thread);
    std::uint64_t words[1024];
    fill(reinterpret_cast<std::uint8_t*>(words), head);
    lwmq_message* message = nullptr;
    lwmq_message_create(0, &message);
    lwmq_message_append(message, words, head.bytes);
    // A tag is of one thread: what replaces a message is behind it in its own order.
    const std::uint64_t tag = is_tagged ? 1 + thread * 8 + head.number % 5 : 0;
    status = lwmq_send_queue_post_tagged(queue, tag, &message);
    if (status == LWMQ_OK) count_sent(head);
    lwmq_message_destroy(message);
  }
  if (status != LWMQ_OK && status != LWMQ_E_CLOSED) say_failed(status);
  return status == LWMQ_OK;
}

// Fills numbered buffers where they lie, and sends them, until the player closes.
void send_buffers(lwmq_channel* channel) {
  while (!closing) {
    lwmq_buffer buffer{};
    if (lwmq_raw_get_buffer(channel, 20, &buffer) != LWMQ_OK) {
      usleep(200);  // nobody is there, or nobody reads
      continue;
    }
    const Head head = next_head(0);
    fill(static_cast<std::uint8_t*>(buffer.data), head);
    buffer.bytes = head.bytes;
    if (lwmq_raw_send_buffer(channel, &buffer) == LWMQ_OK) count_sent(head);
  }
}

// What ends a conversation is said; the next peer may come.
bool note_end(lwmq_status status) {
  if (status != LWMQ_E_PEER_LOST && status != LWMQ_E_CLOSED) return false;
  say("lost", "%s %s", lwmq_status_name(status), lwmq_last_error());
  return true;
}

void note_meeting(lwmq_channel* channel, bool* met) {
  if (*met || lwmq_channel_wait_connected(channel, 20) != LWMQ_OK) return;
  *met = true;
  say("met", "%s", "");
}

// Waits for what nobody sends; what it hears of is the end of a conversation.
lwmq_status listen(lwmq_channel* channel, std::uint32_t timeout_ms) {
  lwmq_message* message = nullptr;
  lwmq_buffer buffer{};
  return number("raw", 0) != 0 ? lwmq_raw_receive_buffer(channel, timeout_ms, &buffer)
                               : lwmq_channel_receive(channel, timeout_ms, &message);
}

// Who posts: threads into one queue of the kind that was asked for, or the playing thread itself.
struct Posting {
  std::vector<std::thread> threads;
  lwmq_send_queue* own = nullptr;  // the playing thread's, where the channel is at home in it
};

bool start_posting(lwmq_channel* channel, Posting& posting) {
  if (number("raw", 0) != 0) {
    posting.threads.emplace_back(send_buffers, channel);
    return true;
  }
  lwmq_send_queue_options options{};
  options.size = sizeof options;
  options.kind = static_cast<std::uint32_t>(number("kind", LWMQ_QUEUE_MONO_UNBOUNDED));
  options.capacity = options.kind >= LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST ? number("capacity", 10) : 0;
  const bool is_tagged = options.kind == LWMQ_QUEUE_MULTI_UNBOUNDED_TAGGED ||
                         options.kind >= LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST_TAGGED;
  lwmq_send_queue* queue = nullptr;
  const lwmq_status status = lwmq_channel_add_send_queue(channel, &options, &queue);
  if (status != LWMQ_OK) {
    say_failed(status);
    return false;
  }
  const bool mono = options.kind == LWMQ_QUEUE_MONO_UNBOUNDED;
  if (mono && number("home", 0) != 0) {
    posting.own = queue;
    return true;
  }
  for (std::uint32_t i = 0; i < (mono ? 1 : 3); ++i) {
    posting.threads.emplace_back([=] {
      while (!closing && post_next(queue, i, is_tagged)) {
      }
    });
  }
  return true;
}

int play_poster(const char* address) {
  lwmq_channel* channel = open_channel(address);
  if (channel == nullptr) return 0;
  Posting posting;
  if (!start_posting(channel, posting)) return 0;
  lwmq_status status = LWMQ_OK;
  bool met = false;
  while (!told_to_close()) {
    note_meeting(channel, &met);
    if (posting.own != nullptr) post_next(posting.own, 0, false);
    if (note_end(listen(channel, posting.own != nullptr ? 0 : kPatienceMs))) met = false;
  }
  for (auto& thread : posting.threads) thread.join();
  do status = lwmq_channel_close(channel, kPatienceMs);
  while (status == LWMQ_E_INTERRUPTED);
  lwmq_channel_destroy(channel);
  say("closed", "%s %s", lwmq_status_name(status), status == LWMQ_OK ? "" : lwmq_last_error());
  return 0;
}

// Messages of a thread come in its order, none twice; where the queue keeps everything, none is missing.
bool is_next(const Head& head, bool keeps_all) {
  static bool seen[kWriters][kPartitions];
  std::uint64_t& next = board->next[head.writer][head.partition];
  const bool first = !seen[head.writer][head.partition];
  const bool good = first || head.number == next || (!keeps_all && head.number > next);
  if (!good)
    say("disorder", "poster %llu thread %llu: %llu in place of %llu",
        static_cast<unsigned long long>(head.writer), static_cast<unsigned long long>(head.partition),
        static_cast<unsigned long long>(head.number), static_cast<unsigned long long>(next));
  seen[head.writer][head.partition] = true;
  next = head.number + 1;
  ++board->batches;
  return good;
}

// Ends the player where the bytes are no message as they were sent, or come out of turn.
Head check_whole(const void* data, std::uint64_t bytes) {
  Head head{};
  if (bytes < sizeof head || !is_whole(static_cast<const std::uint8_t*>(data), bytes, &head)) {
    say("torn", "a message of %llu bytes", static_cast<unsigned long long>(bytes));
    _exit(3);
  }
  return head;
}

void check_taken(const void* data, std::uint64_t bytes, bool keeps_all) {
  if (!is_next(check_whole(data, bytes), keeps_all)) _exit(4);
}

// What has come, lent until the next call.
lwmq_status take_loan(lwmq_channel* channel, bool keeps_all) {
  struct Destroy {
    void operator()(lwmq_loan* loan) const { lwmq_loan_destroy(loan); }
  };
  static std::unique_ptr<lwmq_loan, Destroy> loan;
  if (loan == nullptr) {
    lwmq_loan* made = nullptr;
    if (const lwmq_status status = lwmq_loan_create(7, &made); status != LWMQ_OK) return status;
    loan.reset(made);
  }
  static const lwmq_lent* lent = nullptr;
  static std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < count; ++i) check_whole(lent[i].data, lent[i].bytes);  // still
  const lwmq_status status = lwmq_channel_receive_loan(channel, kPatienceMs, loan.get(), &lent, &count);
  for (std::uint32_t i = 0; i < count; ++i) check_taken(lent[i].data, lent[i].bytes, keeps_all);
  return status;
}

// Checks the message and destroys it.
void check_message(lwmq_message* message, bool keeps_all) {
  const void* data = nullptr;
  std::uint64_t bytes = 0;
  lwmq_message_frame(message, 0, &data, &bytes);
  check_taken(data, bytes, keeps_all);
  lwmq_message_destroy(message);
}

// One message, or some; or a buffer, of which two are kept and given back in another order than they came.
lwmq_status take_some(lwmq_channel* channel, bool keeps_all) {
  if (number("together", 0) != 0) return take_loan(channel, keeps_all);
  if (number("raw", 0) == 0) {
    lwmq_message* message = nullptr;
    const lwmq_status status = lwmq_channel_receive(channel, kPatienceMs, &message);
    if (status == LWMQ_OK) check_message(message, keeps_all);
    return status;
  }
  static std::vector<lwmq_buffer> kept;
  lwmq_buffer buffer{};
  // Who keeps some keeps the poster's close waiting.
  const lwmq_status status = lwmq_raw_receive_buffer(channel, kept.empty() ? kPatienceMs : 20, &buffer);
  if (status == LWMQ_OK) {
    check_taken(buffer.data, buffer.bytes, keeps_all);
    kept.push_back(buffer);
  }
  if (status != LWMQ_OK || kept.size() > 2) {
    for (auto last = kept.rbegin(); last != kept.rend(); ++last) lwmq_raw_dispose_buffer(channel, &*last);
    kept.clear();
  }
  return status;
}

// Neither the posters' queues nor the taker's discard anything.
bool keeps_all_of_them() {
  const std::uint64_t kind = number("kind", LWMQ_QUEUE_MONO_UNBOUNDED);
  return (kind == LWMQ_QUEUE_MONO_UNBOUNDED || kind == LWMQ_QUEUE_MULTI_UNBOUNDED) &&
         number("receive_capacity", 0) == 0;
}

int play_taker(const char* address) {
  lwmq_channel* channel = open_channel(address);
  if (channel == nullptr) return 0;
  const bool keeps_all = keeps_all_of_them();
  bool met = false;
  while (!told_to_close()) {
    note_meeting(channel, &met);
    if (note_end(take_some(channel, keeps_all))) met = false;
  }
  lwmq_status status = LWMQ_OK;
  do status = lwmq_channel_close(channel, 0);
  while (status == LWMQ_E_INTERRUPTED);
  lwmq_channel_destroy(channel);
  say("closed", "%s", lwmq_status_name(status));
  return 0;
}

// Takes from many posters at one address: the clients of a listener, in a selector for as long as they live.
int play_hub(const char* address) {
  const lwmq_channel_options options = channel_options();
  lwmq_listener* listener = nullptr;
  lwmq_selector* selector = nullptr;
  lwmq_status status = lwmq_listener_open(filtered(address).c_str(), &options, &listener);
  if (status == LWMQ_OK) status = lwmq_selector_create(&selector);
  if (status == LWMQ_OK) status = lwmq_selector_add_listener(selector, listener);
  if (status != LWMQ_OK) {
    say_failed(status);
    return 0;
  }
  say("open", "%s", "");
  const bool keeps_all = keeps_all_of_them();
  std::set<lwmq_channel*> clients;
  while (!told_to_close()) {
    lwmq_channel* channel = nullptr;
    lwmq_message* message = nullptr;
    status = lwmq_selector_receive(selector, kPatienceMs, &channel, &message);
    if (status == LWMQ_OK && channel == nullptr) {
      status = lwmq_listener_accept(listener, 0, &channel);
      if (status == LWMQ_OK) status = lwmq_selector_add(selector, channel);
      if (status != LWMQ_OK) say_failed(status);
      if (status == LWMQ_OK) clients.insert(channel), say("met", "%zu", clients.size());
    } else if (status == LWMQ_OK) {
      check_message(message, keeps_all);
    } else if (note_end(status)) {
      clients.erase(channel);
      lwmq_channel_destroy(channel);
    }
  }
  for (lwmq_channel* channel : clients) lwmq_channel_destroy(channel);
  lwmq_listener_destroy(listener);
  lwmq_selector_destroy(selector);
  say("closed", "%s", lwmq_status_name(LWMQ_OK));
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (count < 3) return 2;
  for (int i = 3; i < count; ++i) {
    if (const char* is = std::strchr(arguments[i], '='))
      settings[std::string(arguments[i], static_cast<std::size_t>(is - arguments[i]))] = is + 1;
  }
  board = map_board();
  struct sigaction action {};
  action.sa_handler = [](int) {};  // without SA_RESTART: a wait ends with LWMQ_E_INTERRUPTED
  sigaction(SIGUSR1, &action, nullptr);
  const std::string who = arguments[1];
  be_large();
  if (who == "job") _exit(play_job(arguments[2]));  // it reads its standard input itself
  std::thread(listen_to_harness, pthread_self()).detach();
  int result = 2;
  if (who == "endpoint") result = play_endpoint(arguments[2]);
  if (who == "writer") result = play_writer(arguments[2]);
  if (who == "task") result = play_task(arguments[2]);
  if (who == "reader") result = play_reader(arguments[2]);
  if (who == "poster") result = play_poster(arguments[2]);
  if (who == "taker") result = play_taker(arguments[2]);
  if (who == "hub") result = play_hub(arguments[2]);
  heard = true;
  _exit(result);
}
