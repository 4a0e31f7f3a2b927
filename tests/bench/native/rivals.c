/* Rivals that every machine of this project has: stream sockets, plain and with the checksum or the
 * encryption that a network costs us, a POSIX message queue, and libzmq. All of them block; none is tuned
 * against. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
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

static void stream_open(int family, const struct sockaddr* name, socklen_t size, int server) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  if (fd < 0) die("socket");
  if (server) {
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, name, size) != 0 || listen(fd, 1) != 0) die("bind");
    socket_ = accept(fd, NULL, NULL);
    close(fd);
  } else {
    int tries = 0;
    while (connect(fd, name, size) != 0) {
      if (++tries == 500) die("connect");
      pause_ms(10);
    }
    socket_ = fd;
  }
}

static void tcp_open(const char* address, int server, size_t bytes) {
  make_buffer(bytes);
  struct sockaddr_in name = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)port_of(address))};
  stream_open(AF_INET, (struct sockaddr*)&name, sizeof(name), server);
  const int yes = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

static void uds_open(const char* address, int server, size_t bytes) {
  make_buffer(bytes);
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  const int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "%s", address);
  stream_open(AF_UNIX, (struct sockaddr*)&name,
              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length), server);
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

const peer kTcpSocket = {
    .name = "tcp",
    .open = tcp_open,
    .send = uds_send,
    .receive = uds_receive,
    .close = uds_close,
};

/* ---- TCP with the checksum that tcp:// puts behind each piece, by the same function
 * ---------------------------------------------------------------------- */

uint32_t crc32c(uint32_t crc, const void* data, size_t bytes) __asm__("_ZN4lwmq6crc32cEjPKvm");

static void crc_open(const char* address, int server, size_t bytes) {
  tcp_open(address, server, bytes + sizeof(uint32_t));
}

static void crc_send(const void* data, size_t bytes) {
  uint32_t crc = crc32c(0, data, bytes);
  struct iovec pieces[2] = {{(void*)(uintptr_t)data, bytes}, {&crc, sizeof(crc)}};
  size_t left = bytes + sizeof(crc);
  for (;;) {
    const struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    ssize_t n = sendmsg(socket_, &message, MSG_NOSIGNAL);
    if (n <= 0) die("sendmsg");
    left -= (size_t)n;
    if (left == 0) return;
    for (int i = 0; i < 2; ++i) {
      const size_t gone = (size_t)n < pieces[i].iov_len ? (size_t)n : pieces[i].iov_len;
      pieces[i] = (struct iovec){(uint8_t*)pieces[i].iov_base + gone, pieces[i].iov_len - gone};
      n -= (ssize_t)gone;
    }
  }
}

static uint64_t crc_receive(size_t bytes) {
  const size_t all = bytes + sizeof(uint32_t);
  if (recv(socket_, buffer_, all, MSG_WAITALL) != (ssize_t)all) die("recv");
  uint32_t told;
  memcpy(&told, buffer_ + bytes, sizeof(told));
  if (crc32c(0, buffer_, bytes) != told) die("checksum");
  return read_all(buffer_, bytes);
}

const peer kTcpCrc = {
    .name = "tcp-crc",
    .open = crc_open,
    .send = crc_send,
    .receive = crc_receive,
    .close = uds_close,
};

/* The same, of a message that is made anew each time. */
static void crc_built_send(const void* data, size_t bytes) {
  build(buffer_, data, bytes);
  crc_send(buffer_, bytes);
}

const peer kTcpCrcBuilt = {
    .name = "tcp-crc-built",
    .open = crc_open,
    .send = crc_built_send,
    .receive = crc_receive,
    .close = uds_close,
};

/* ---- TCP with AES-256-GCM, which TLS 1.3 takes first: records of 16 KB, each with a tag of 16 bytes. Four
 * records are sent at once.
 * ---------------------------------------------------------------------- */

enum { kRecord = 16 << 10, kTag = 16, kAtOnce = 4, kGetTag = 0x10, kSetTag = 0x11 };

static struct {
  void* (*cipher_new)(void);
  const void* (*aes)(void);
  int (*init)(void*, const void*, void*, const uint8_t* key, const uint8_t* nonce, int encrypts);
  int (*update)(void*, uint8_t* out, int* out_bytes, const uint8_t* in, int bytes);
  int (*final)(void*, uint8_t* out, int* out_bytes);
  int (*control)(void*, int, int, void*);
  void* sending;
  void* receiving;
} gcm_;
static uint8_t* sealed_;

static void gcm_open(const char* address, int server, size_t bytes) {
  void* const crypto = dlopen("libcrypto.so.3", RTLD_NOW);
  if (crypto == NULL) die("libcrypto.so.3");
  *(void**)&gcm_.cipher_new = dlsym(crypto, "EVP_CIPHER_CTX_new");
  *(void**)&gcm_.aes = dlsym(crypto, "EVP_aes_256_gcm");
  *(void**)&gcm_.init = dlsym(crypto, "EVP_CipherInit_ex");
  *(void**)&gcm_.update = dlsym(crypto, "EVP_CipherUpdate");
  *(void**)&gcm_.final = dlsym(crypto, "EVP_CipherFinal_ex");
  *(void**)&gcm_.control = dlsym(crypto, "EVP_CIPHER_CTX_ctrl");
  static const uint8_t kKey[32] = {1};
  gcm_.sending = gcm_.cipher_new();
  gcm_.receiving = gcm_.cipher_new();
  if (gcm_.init(gcm_.sending, gcm_.aes(), NULL, kKey, NULL, 1) != 1 ||
      gcm_.init(gcm_.receiving, gcm_.aes(), NULL, kKey, NULL, 0) != 1)
    die("EVP_CipherInit_ex");
  sealed_ = aligned_alloc(64, (size_t)kAtOnce * (kRecord + kTag));
  if (sealed_ == NULL) die("malloc");
  tcp_open(address, server, bytes);
}

/* One record, sealed or opened, with a nonce that is new in each direction. */
static void gcm_record(int seals, uint64_t number, uint8_t* out, const uint8_t* in, size_t bytes,
                       uint8_t* tag) {
  void* const cipher = seals ? gcm_.sending : gcm_.receiving;
  uint8_t nonce[12] = {0};
  int done = 0;
  memcpy(nonce, &number, sizeof(number));
  int is_good = gcm_.init(cipher, NULL, NULL, NULL, nonce, seals) == 1 &&
                gcm_.update(cipher, out, &done, in, (int)bytes) == 1;
  if (!seals) is_good = is_good && gcm_.control(cipher, kSetTag, kTag, tag) == 1;
  is_good = is_good && gcm_.final(cipher, out + done, &done) == 1;
  if (seals) is_good = is_good && gcm_.control(cipher, kGetTag, kTag, tag) == 1;
  if (!is_good) die("AES-GCM");
}

static void gcm_send(const void* data, size_t bytes) {
  static uint64_t number;
  for (size_t done = 0; done < bytes;) {
    uint8_t* to = sealed_;
    for (int i = 0; i < kAtOnce && done < bytes; ++i) {
      const size_t record = bytes - done < kRecord ? bytes - done : kRecord;
      gcm_record(1, number++, to, (const uint8_t*)data + done, record, to + record);
      to += record + kTag;
      done += record;
    }
    uds_send(sealed_, (size_t)(to - sealed_));
  }
}

static uint64_t gcm_receive(size_t bytes) {
  static uint64_t number;
  for (size_t done = 0; done < bytes;) {
    const size_t left = bytes - done, most = (size_t)kAtOnce * kRecord;
    const size_t here = left < most ? left : most, records = (here + kRecord - 1) / kRecord;
    const size_t sealed = here + records * kTag;
    if (recv(socket_, sealed_, sealed, MSG_WAITALL) != (ssize_t)sealed) die("recv");
    uint8_t* from = sealed_;
    for (size_t end = done + here; done < end;) {
      const size_t record = end - done < kRecord ? end - done : kRecord;
      gcm_record(0, number++, buffer_ + done, from, record, from + record);
      from += record + kTag;
      done += record;
    }
  }
  return read_all(buffer_, bytes);
}

static void gcm_close(void) {
  free(sealed_);
  uds_close();
}

const peer kTcpGcm = {
    .name = "tcp-gcm",
    .open = gcm_open,
    .send = gcm_send,
    .receive = gcm_receive,
    .close = gcm_close,
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

/* ---- libzmq, a PAIR over ipc or tcp
 * ------------------------------------------------------------------------------------ */

static zmq_calls zmq_;
static void *context_, *zmq_socket_;

static void zmq_open_at(const char* uri, int server, size_t bytes) {
  make_buffer(bytes);
  zmq_ = load_zmq();
  context_ = zmq_.ctx_new();
  zmq_socket_ = zmq_.socket(context_, kZmqPair);
  if ((server ? zmq_.bind : zmq_.connect)(zmq_socket_, uri) != 0) die("zmq");
}

static void zmq_open(const char* address, int server, size_t bytes) {
  char uri[300];
  snprintf(uri, sizeof(uri), "ipc://@%s", address);
  zmq_open_at(uri, server, bytes);
}

static void zmq_tcp_open(const char* address, int server, size_t bytes) {
  char uri[300];
  snprintf(uri, sizeof(uri), "tcp://127.0.0.1:%d", port_of(address));
  zmq_open_at(uri, server, bytes);
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

const peer kZeroMqTcp = {
    .name = "zmq-tcp",
    .open = zmq_tcp_open,
    .send = zmq_peer_send,
    .receive = zmq_receive,
    .close = zmq_peer_close,
};
