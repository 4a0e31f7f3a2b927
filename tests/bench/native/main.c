/* native_bench PEER METRIC ROLE BYTES SECONDS ADDRESS CORE
 *
 *   PEER    floor, futex, lwmq, lwmq-many, lwmq-lent (rate only), uds, zmq, mq; tcp, tcp-crc, tcp-gcm,
 * tcp-crc-built, lwmq-tcp-built (64 KB and more), lwmq-tcp, lwmq-tcp-uring, lwmq-tcp-many, lwmq-tcps,
 * zmq-tcp; floor-built, lwmq-built, floor-handed, lwmq-handed (64 KB and more); floor-pieces, lwmq-pieces
 * (multiples of 64 KB) METRIC  latency (round trips of two that are awake), wake (one way to one that sleeps)
 * or rate (one way) ROLE    serve (echoes, times or counts) or ask (measures; prints one JSON object)
 *
 * The runner starts `serve` first, on another core. The first 8 bytes of a message are its meaning: kStop
 * ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

/* Longer than anybody looks before it sleeps. */
static const uint64_t kAsleepAfterNs = 500000;

/* How many messages went to and fro in all, beside the percentiles of `taken`, each divided by `ways`. */
static void report(samples taken, double ways, size_t messages) {
  const size_t count = taken.count;
  printf("{");
  print_percentiles(taken, ways, "");
  printf("\"round_trips\": %zu, \"messages\": %zu}\n", count, messages);
}

static void ask_latency(const peer* p, uint64_t* payload, size_t bytes, double seconds) {
  samples taken = make_samples();
  size_t messages = 0;
  const uint64_t begun = now_ns();
  const uint64_t warm = begun + (uint64_t)(0.3e9 * seconds), end = warm + (uint64_t)(1e9 * seconds);
  for (uint64_t before = begun; before < end;) {
    p->send(payload, bytes);
    p->receive(bytes);
    messages += 2;
    const uint64_t after = now_ns();
    if (before > warm) add_sample(&taken, after - before);
    before = after;
  }
  payload[0] = kStop;
  p->send(payload, bytes);
  report(taken, 2.0, messages + 1);
}

/* Sends the time to a peer that has had time to fall asleep; the peer answers how long that took. Both
 * processes read one clock. */
static void ask_wake(const peer* p, uint64_t* payload, size_t bytes, double seconds) {
  samples taken = make_samples();
  memset(payload, 0, bytes);
  const uint64_t end = now_ns() + (uint64_t)(1e9 * seconds);
  for (uint64_t now = now_ns(); now < end; now = now_ns()) {
    while (now_ns() < now + kAsleepAfterNs) {
    }
    payload[0] = now_ns();
    p->send(payload, bytes);
    add_sample(&taken, p->receive(bytes));
  }
  payload[0] = kStop;
  p->send(payload, bytes);
  report(taken, 1.0, 2 * taken.count + 1);
}

static void ask_rate(const peer* p, uint64_t* payload, size_t bytes, double seconds) {
  const uint64_t begun = now_ns(), end = begun + (uint64_t)(1e9 * seconds);
  uint64_t sent = 0;
  /* At the clock, which takes a third of the time of a hand-over. */
  const uint64_t between_looks = bytes >= 65536 && !p->untouched ? 1 : 2 * kMany;
  do {
    if (p->send_many != NULL)
      for (int i = 0; i < 2; ++i) p->send_many(payload, bytes, kMany);
    else
      for (uint64_t i = 0; i < between_looks; ++i) p->send(payload, bytes);
    sent += between_looks;
  } while (now_ns() < end);
  uint64_t* stop = make_payload(bytes);
  stop[0] = kStop;
  p->send(stop, bytes);
  /* The other side answers when it has read everything. */
  p->receive(bytes);
  free(stop);
  const double taken = (double)(now_ns() - begun) / 1e9;
  printf("{\"per_second\": %.1f, \"bytes_per_second\": %.1f, \"messages\": %llu}\n", (double)sent / taken,
         (double)sent * (double)bytes / taken, (unsigned long long)sent);
}

static void serve(const peer* p, uint64_t* payload, size_t bytes, int echo) {
  /* Every word of an ordinary message is 1, so that the sum of a stop message is another one. */
  const uint64_t ordinary = bytes / 8;
  if (p->receive_many != NULL && !echo)
    for (size_t count = 0; p->receive_many(bytes, &count) == count * ordinary;) {
    }
  else
    while (p->receive(bytes) == ordinary)
      if (echo) p->send(payload, bytes);
  if (!echo) p->send(payload, bytes);
}

static void serve_wake(const peer* p, uint64_t* payload, size_t bytes) {
  memset(payload, 0, bytes);
  for (uint64_t sent; (sent = p->receive(bytes)) != kStop;) {
    payload[0] = now_ns() - sent;
    p->send(payload, bytes);
  }
}

int main(int argc, char** argv) {
  if (argc != 8) die("usage: native_bench PEER METRIC ROLE BYTES SECONDS ADDRESS CORE");
  const peer* peers[] = {&kFloor,        &kFloorBuilt, &kFloorHanded, &kFloorPieces,  &kFutex,
                         &kLwmq,         &kLwmqBuilt,  &kLwmqMany,    &kLwmqLent,     &kLwmqEachLent,
                         &kLwmqHanded,   &kLwmqPieces, &kLwmqTcp,     &kLwmqTcpUring, &kLwmqTcpMany,
                         &kLwmqTcps,     &kUnixSocket, &kTcpSocket,   &kTcpCrc,       &kTcpCrcBuilt,
                         &kLwmqTcpBuilt, &kTcpGcm,     &kZeroMq,      &kZeroMqTcp,    &kPosixQueue};
  const peer* p = NULL;
  for (size_t i = 0; i < sizeof(peers) / sizeof(peers[0]); ++i)
    if (strcmp(peers[i]->name, argv[1]) == 0) p = peers[i];
  if (p == NULL) die("no such peer");
  const int latency = strcmp(argv[2], "latency") == 0, wake = strcmp(argv[2], "wake") == 0;
  const int server = strcmp(argv[3], "serve") == 0;
  const size_t bytes = strtoull(argv[4], NULL, 10);
  const double seconds = strtod(argv[5], NULL);

  stay_on(atoi(argv[7]));
  uint64_t* payload = make_payload(bytes);
  p->open(argv[6], server, bytes);
  if (server && wake)
    serve_wake(p, payload, bytes);
  else if (server)
    serve(p, payload, bytes, latency);
  else if (wake)
    ask_wake(p, payload, bytes, seconds);
  else if (latency)
    ask_latency(p, payload, bytes, seconds);
  else
    ask_rate(p, payload, bytes, seconds);
  p->close();
  free(payload);
  return 0;
}
