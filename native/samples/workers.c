/* Work shared out among processes: a listener takes workers as they come, a router posts each task to the
 * next that has room, a selector takes the results from all of them in turns. A slow worker piles up no more
 * than its queue and its buffers hold: both are small here, the others do the rest. */
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { kWorkers = 3, kTasks = 3000, kRoom = 8, kWaitMs = 10000, kSlowNs = 1000000 };

/* On both sides: a peer's buffers are those that it makes, and what lies in them is on its way. */
static const lwmq_channel_options kSmall = {.size = sizeof kSmall, .buffer_bytes = 256, .buffers_send = 2};

/* A message of one number, behind a topic where it has one. */
static lwmq_message* message_of(const char* topic, uint64_t number) {
  lwmq_message* message;
  CHECK(lwmq_message_create(2, &message));
  if (topic != NULL) CHECK(lwmq_message_append(message, topic, strlen(topic)));
  CHECK(lwmq_message_append(message, &number, sizeof number));
  return message;
}

/* The number is in the last frame. */
static uint64_t number_of(lwmq_message* message) {
  const void* data;
  uint64_t bytes;
  uint64_t number;
  CHECK(lwmq_message_frame(message, lwmq_message_frame_count(message) - 1, &data, &bytes));
  if (bytes != sizeof number) exit(2);
  memcpy(&number, data, sizeof number);
  lwmq_message_destroy(message);
  return number;
}

static int work(const char* address, int worker) {
  lwmq_channel* channel;
  lwmq_send_queue* queue;
  lwmq_message* message;
  CHECK(lwmq_channel_create(address, &kSmall, &channel));
  CHECK(lwmq_channel_add_send_queue(channel, NULL, &queue));
  CHECK(lwmq_channel_open(channel, LWMQ_ROLE_CLIENT));
  for (;;) {
    CHECK(lwmq_channel_receive(channel, kWaitMs, &message));
    const uint64_t number = number_of(message);
    if (number == 0) break; /* there is no more */
    const struct timespec slow = {0, worker == 0 ? kSlowNs : 0};
    nanosleep(&slow, NULL);
    message = message_of(NULL, number * number);
    CHECK(lwmq_send_queue_post(queue, &message));
  }
  lwmq_channel_close(channel, kWaitMs);
  lwmq_channel_destroy(channel);
  return 0;
}

int main(void) {
  char address[64];
  pid_t pids[kWorkers];
  snprintf(address, sizeof address, "ipc://workers-%d", (int)getpid());
  for (int worker = 0; worker < kWorkers; ++worker) { /* before the library is used */
    pids[worker] = fork();
    if (pids[worker] == 0) return work(address, worker);
  }
  lwmq_listener* listener;
  lwmq_channel* channels[kWorkers];
  lwmq_router* router;
  lwmq_selector* selector;
  int is_slow[kWorkers];
  CHECK(lwmq_listener_open(address, &kSmall, &listener));
  CHECK(lwmq_router_create(&router));
  CHECK(lwmq_selector_create(&selector));
  for (int worker = 0; worker < kWorkers; ++worker) {
    lwmq_send_queue* queue;
    const lwmq_send_queue_options bounded = {
        .size = sizeof bounded, .kind = LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST, .capacity = kRoom};
    lwmq_peer peer = {.size = sizeof peer};
    CHECK(lwmq_listener_accept(listener, kWaitMs, &channels[worker]));
    CHECK(lwmq_channel_peer(channels[worker], 0, &peer));
    is_slow[worker] = peer.pid == (uint32_t)pids[0];
    CHECK(lwmq_channel_add_send_queue(channels[worker], &bounded, &queue));
    CHECK(lwmq_router_add(router, 0, "task.#", "workers", queue)); /* one of the group gets it */
    CHECK(lwmq_router_add(router, 0, "end", NULL, queue));         /* each gets it */
    CHECK(lwmq_selector_add(selector, channels[worker]));
  }

  uint64_t sum = 0;
  uint64_t results = 0;
  uint64_t done[kWorkers] = {0};
  for (uint64_t task = 1; results < kTasks;) {
    lwmq_message* message = task <= kTasks ? message_of("task.square", task) : NULL;
    uint32_t queues = 0;
    const lwmq_status status = message != NULL ? lwmq_router_post(router, &message, &queues) : LWMQ_E_FULL;
    if (status == LWMQ_OK) {
      ++task;
      continue;
    }
    if (status != LWMQ_E_FULL) CHECK(status);
    lwmq_message_destroy(message); /* all are busy: a result comes next */
    lwmq_channel* from;
    CHECK(lwmq_selector_receive(selector, kWaitMs, &from, &message));
    sum += number_of(message);
    ++results;
    for (int worker = 0; worker < kWorkers; ++worker) done[worker] += from == channels[worker];
  }
  lwmq_message* end = message_of("end", 0);
  uint32_t told = 0;
  CHECK(lwmq_router_post(router, &end, &told));
  uint64_t of_slow = 0;
  for (int worker = 0; worker < kWorkers; ++worker) of_slow += is_slow[worker] ? done[worker] : 0;
  const int busy = (done[0] > 0) + (done[1] > 0) + (done[2] > 0);
  printf(
      "%d squares: %llu; workers that had some: %d, told to end: %u; the slow one had less than its share: "
      "%s\n",
      kTasks, (unsigned long long)sum, busy, told, of_slow < kTasks / kWorkers / 2 ? "yes" : "no");
  lwmq_listener_destroy(listener);
  lwmq_selector_destroy(selector);
  lwmq_router_destroy(router);
  for (int worker = 0; worker < kWorkers; ++worker) {
    lwmq_channel_close(channels[worker], kWaitMs);
    lwmq_channel_destroy(channels[worker]);
  }
  int failed = 0;
  for (int status; wait(&status) > 0;) failed |= status != 0;
  return failed;
}
