/* Direct access to transport buffers: a block of bytes of any size moves through a few windows of memory. The
 * sender fills them where they lie, the receiver reads them where they lie, and nothing else touches the
 * bytes. */
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { kBufferBytes = 1 << 20, kBuffers = 4, kWaitMs = 10000 };
static const uint64_t kTotal = 64ull << 20;

static lwmq_channel* open_raw(const char* address, int32_t role) {
  const lwmq_channel_options options = {
      .size = sizeof options, .buffer_bytes = kBufferBytes, .buffers_send = kBuffers, .raw = 1};
  lwmq_channel* channel;
  CHECK(lwmq_channel_create(address, &options, &channel));
  CHECK(lwmq_channel_open(channel, role));
  return channel;
}

static int produce(const char* address) {
  lwmq_channel* channel = open_raw(address, LWMQ_ROLE_SERVER);
  for (uint64_t sent = 0; sent < kTotal;) {
    lwmq_buffer buffer;
    CHECK(lwmq_raw_get_buffer(channel, kWaitMs, &buffer)); /* waits only while the receiver holds them all */
    uint64_t* words = buffer.data;
    for (uint64_t i = 0; i < buffer.bytes / 8; ++i) words[i] = sent / 8 + i;
    sent += buffer.bytes;
    CHECK(lwmq_raw_send_buffer(channel, &buffer));
  }
  lwmq_channel_close(channel, kWaitMs);
  lwmq_channel_destroy(channel);
  return 0;
}

int main(void) {
  char address[64];
  snprintf(address, sizeof address, "ipc://raw-buffers-%d", (int)getpid());
  const pid_t producer = fork(); /* before the library is used */
  if (producer == 0) return produce(address);

  lwmq_channel* channel = open_raw(address, LWMQ_ROLE_CLIENT);
  uint64_t received = 0, buffers = 0;
  while (received < kTotal) {
    lwmq_buffer buffer;
    CHECK(lwmq_raw_receive_buffer(channel, kWaitMs, &buffer));
    const uint64_t* words = buffer.data;
    for (uint64_t i = 0; i < buffer.bytes / 8; ++i)
      if (words[i] != received / 8 + i) exit(3);
    received += buffer.bytes;
    ++buffers;
    CHECK(lwmq_raw_dispose_buffer(channel, &buffer)); /* in any order; the producer can fill it again */
  }
  lwmq_channel_destroy(channel);
  int status = 0;
  waitpid(producer, &status, 0);
  printf("%llu MiB in %llu buffers\n", (unsigned long long)(received >> 20), (unsigned long long)buffers);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}
