#include "rings.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common.h"

enum { kWays = 2 };

void rings_open(rings* r, const char* address, int server, size_t bytes, size_t room) {
  *r = (rings){.server = server};
  r->slot_bytes = bytes <= 56 ? 64 : (64 + bytes + 63) / 64 * 64;
  r->slot_count = room / r->slot_bytes < 2 ? 2 : room / r->slot_bytes;
  r->ring_bytes = (sizeof(ring) + r->slot_bytes * r->slot_count + 4095) / 4096 * 4096;
  snprintf(r->path, sizeof(r->path), "/dev/shm/%s", address);
  const int fd = open(r->path, O_RDWR | (server ? O_CREAT | O_TRUNC : 0), 0600);
  if (fd < 0) die(r->path);
  if (server && ftruncate(fd, (off_t)(kWays * r->ring_bytes)) != 0) die("ftruncate");
  r->memory = mmap(NULL, kWays * r->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (r->memory == MAP_FAILED) die("mmap");
  close(fd);
  r->sending = (ring*)(r->memory + (server ? r->ring_bytes : 0));
  r->receiving = (ring*)(r->memory + (server ? 0 : r->ring_bytes));
}

void rings_close(rings* r) {
  munmap(r->memory, kWays * r->ring_bytes);
  if (r->server) unlink(r->path);
}
