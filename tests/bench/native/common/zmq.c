#include "zmq.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "common.h"

static void* symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == NULL) die(name);
  return found;
}

zmq_calls load_zmq(void) {
  const char* path = getenv("LWMQ_BENCH_ZMQ");
  void* library = dlopen(path != NULL ? path : "libzmq.so.5", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) die("libzmq");
  zmq_calls zmq;
  *(void**)&zmq.ctx_new = symbol(library, "zmq_ctx_new");
  *(void**)&zmq.ctx_term = symbol(library, "zmq_ctx_term");
  *(void**)&zmq.socket = symbol(library, "zmq_socket");
  *(void**)&zmq.bind = symbol(library, "zmq_bind");
  *(void**)&zmq.connect = symbol(library, "zmq_connect");
  *(void**)&zmq.send = symbol(library, "zmq_send");
  *(void**)&zmq.recv = symbol(library, "zmq_recv");
  *(void**)&zmq.close = symbol(library, "zmq_close");
  *(void**)&zmq.setsockopt = symbol(library, "zmq_setsockopt");
  return zmq;
}
