/* Rivals that every machine of this project has: a Unix stream socket, a POSIX message queue, and libzmq. All
 * of them block; none is tuned against. */
#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "peer.h"
#include "zmq.h"

static uint8_t* buffer_;

static void make_buffer(size_t bytes) {
  buffer_ = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (buffer_ == NULL) die("malloc");
}

static void pause_ms(long ms) {
  const struct timespec t = {.tv_nsec = ms * 1000000};
  nanosleep(&t, NULL);
}

/* ---- Unix stream socket, abstract name
 * ---------------------------------------------------------------------- */

static int socket_ = -1;

static void uds_open(const char* address, int server, size_t bytes) {
  make_buffer(bytes);
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  const int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "%s", address);
  const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) die("socket");
  if (server) {
    if (bind(fd, (struct sockaddr*)&name, size) != 0 || listen(fd, 1) != 0) die("bind");
    socket_ = accept(fd, NULL, NULL);
    close(fd);
  } else {
    int tries = 0;
    while (connect(fd, (struct sockaddr*)&name, size) != 0) {
      if (++tries == 500) die("connect");
      pause_ms(10);
    }
    socket_ = fd;
  }
  const int room = 4 << 20;
  setsockopt(socket_, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
}

static void uds_send(const void* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = send(socket_, (const uint8_t*)data + done, bytes - done, MSG_NOSIGNAL);
    if (n <= 0) die("send");
    done += (size_t)n;
  }
}

static uint64_t uds_receive(size_t bytes) {
  if (recv(socket_, buffer_, bytes, MSG_WAITALL) != (ssize_t)bytes) die("recv");
  return read_all(buffer_, bytes);
}

static void uds_close(void) {
  close(socket_);
  free(buffer_);
}

const peer kUnixSocket = {
    .name = "uds",
    .open = uds_open,
    .send = uds_send,
    .receive = uds_receive,
    .close = uds_close,
};

/* ---- POSIX message queues, one per direction
 * ------------------------------------------------------------------ */

static mqd_t sending_, receiving_;
static char names_[2][128];
static int queue_server_;

static void mq_peer_open(const char* address, int server, size_t bytes) {
  make_buffer(bytes);
  queue_server_ = server;
  for (int i = 0; i < 2; ++i) snprintf(names_[i], sizeof(names_[i]), "/%s-%d", address, i);
  struct mq_attr attributes = {.mq_maxmsg = 10, .mq_msgsize = (long)bytes};
  for (int i = 0; i < 2; ++i) {
    const int ours = i == server;
    const int flags = (ours ? O_WRONLY : O_RDONLY) | (server ? O_CREAT : 0);
    mqd_t queue = (mqd_t)-1;
    for (int tries = 0; queue == (mqd_t)-1; ++tries) {
      queue = mq_open(names_[i], flags, 0600, server ? &attributes : NULL);
      if (queue == (mqd_t)-1 && (server || tries == 500)) die("mq_open");
      if (queue == (mqd_t)-1) pause_ms(10);
    }
    *(ours ? &sending_ : &receiving_) = queue;
  }
}

static void mq_peer_send(const void* data, size_t bytes) {
  if (mq_send(sending_, data, bytes, 0) != 0) die("mq_send");
}

static uint64_t mq_peer_receive(size_t bytes) {
  if (mq_receive(receiving_, (char*)buffer_, bytes, NULL) != (ssize_t)bytes) die("mq_receive");
  return read_all(buffer_, bytes);
}

static void mq_peer_close(void) {
  mq_close(sending_);
  mq_close(receiving_);
  if (queue_server_)
    for (int i = 0; i < 2; ++i) mq_unlink(names_[i]);
  free(buffer_);
}

const peer kPosixQueue = {
    .name = "mq",
    .open = mq_peer_open,
    .send = mq_peer_send,
    .receive = mq_peer_receive,
    .close = mq_peer_close,
};

/* ---- libzmq, a PAIR over ipc
 * ------------------------------------------------------------------------------------ */

static zmq_calls zmq_;
static void *context_, *zmq_socket_;

static void zmq_open(const char* address, int server, size_t bytes) {
  make_buffer(bytes);
  zmq_ = load_zmq();
  char uri[300];
  snprintf(uri, sizeof(uri), "ipc://@%s", address);
  context_ = zmq_.ctx_new();
  zmq_socket_ = zmq_.socket(context_, kZmqPair);
  if ((server ? zmq_.bind : zmq_.connect)(zmq_socket_, uri) != 0) die("zmq");
}

static void zmq_peer_send(const void* data, size_t bytes) {
  if (zmq_.send(zmq_socket_, data, bytes, 0) != (int)bytes) die("zmq_send");
}

static uint64_t zmq_receive(size_t bytes) {
  if (zmq_.recv(zmq_socket_, buffer_, bytes, 0) != (int)bytes) die("zmq_recv");
  return read_all(buffer_, bytes);
}

static void zmq_peer_close(void) {
  const int linger_ms = 1000;
  zmq_.setsockopt(zmq_socket_, kZmqLinger, &linger_ms, sizeof(linger_ms));
  zmq_.close(zmq_socket_);
  zmq_.ctx_term(context_);
  free(buffer_);
}

const peer kZeroMq = {
    .name = "zmq",
    .open = zmq_open,
    .send = zmq_peer_send,
    .receive = zmq_receive,
    .close = zmq_peer_close,
};
