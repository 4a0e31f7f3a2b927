/* Requests and replies between two processes: all are on their way at once, and each is told its own answer.
 *
 *   request_reply                  both sides
 *   request_reply serve ADDRESS    answers with squares, until who asks has gone; Python or Java may ask
 *   request_reply ask ADDRESS      asks, whoever answers */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { kRequests = 1000, kWaitMs = 10000 };

static lwmq_channel* open_channel(const char* address, int32_t role) {
  lwmq_channel* channel;
  CHECK(lwmq_channel_create(address, NULL, &channel));
  CHECK(lwmq_channel_open(channel, role));
  return channel;
}

/* The number in frame 1 of a request or a reply, behind its head; 0 where there is none. */
static uint64_t number_in(const lwmq_message* message) {
  const void* data = NULL;
  uint64_t bytes = 0, number = 0;
  if (lwmq_message_frame_count(message) == 2) CHECK(lwmq_message_frame(message, 1, &data, &bytes));
  if (bytes == sizeof number) memcpy(&number, data, sizeof number);
  return number;
}

static int serve(const char* address) {
  lwmq_send_queue* replies;
  lwmq_channel* channel = open_channel(address, LWMQ_ROLE_SERVER);
  CHECK(lwmq_channel_add_send_queue(channel, NULL, &replies));
  lwmq_message* request;
  while (lwmq_channel_receive(channel, LWMQ_FOREVER, &request) == LWMQ_OK) {
    const uint64_t number = number_in(request);
    const uint64_t square = number * number;
    lwmq_message* reply;
    const lwmq_status made =
        number == 0 ? lwmq_reply_make_failure(request, "DomainError", "a positive number is wanted", &reply)
                    : lwmq_reply_make(request, &reply);
    lwmq_message_destroy(request);
    if (made == LWMQ_E_CORRUPT) continue; /* it is no request: nobody waits for an answer */
    CHECK(made);
    if (number != 0) CHECK(lwmq_message_append(reply, &square, sizeof square));
    CHECK(lwmq_send_queue_post(replies, &reply));
  }
  lwmq_channel_destroy(channel);
  return 0;
}

static lwmq_message* make_request(lwmq_requests* requests, uint64_t number) {
  lwmq_message* request;
  CHECK(lwmq_requests_make(requests, &request));
  CHECK(lwmq_message_append(request, &number, sizeof number));
  return request;
}

static int ask(const char* address) {
  lwmq_channel* channel = open_channel(address, LWMQ_ROLE_CLIENT);
  lwmq_requests* requests;
  CHECK(lwmq_requests_create(channel, NULL, &requests));

  lwmq_message *request, *reply;
  uint64_t id, sum = 0;
  for (uint64_t number = 1; number <= kRequests; ++number) { /* all of them, before the first reply */
    request = make_request(requests, number);
    CHECK(lwmq_requests_submit(requests, &request, kWaitMs, &id));
  }
  for (int i = 0; i < kRequests; ++i) {
    CHECK(lwmq_requests_next(requests, LWMQ_FOREVER, &id, &reply));
    sum += number_in(reply);
    lwmq_message_destroy(reply);
  }
  printf("%d replies, sum of squares %llu\n", kRequests, (unsigned long long)sum);

  request = make_request(requests, 0);
  if (lwmq_requests_request(requests, &request, kWaitMs, &reply) == LWMQ_E_HANDLER)
    printf("and a failure: %.*s\n", (int)strcspn(lwmq_last_error(), "("), lwmq_last_error());
  lwmq_requests_destroy(requests);
  lwmq_channel_destroy(channel);
  return 0;
}

int main(int count, char** words) {
  if (count == 3) return strcmp(words[1], "serve") == 0 ? serve(words[2]) : ask(words[2]);
  char address[64];
  snprintf(address, sizeof address, "ipc://request-reply-%d", (int)getpid());
  const pid_t server = fork(); /* before the library is used: a forked child cannot go on with its parent's */
  if (server == 0) return serve(address);
  const int asked = ask(address);
  int status = 0;
  waitpid(server, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) + asked : 4;
}
