#include "os/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/yield_point.h"
#include "os/identity.h"
#include "os/memory_budget.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace lwmq::os {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

int create_memfd(const char* label) noexcept {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int fd = memfd_create(label, kFlags | MFD_NOEXEC_SEAL);
  if (fd >= 0 || errno != EINVAL) return fd;
  return memfd_create(label, kFlags);  // kernels before 6.3
}

}  // namespace

Mapping::~Mapping() {
  if (data_ != nullptr && !forked()) munmap(data_, bytes_);
}

Status create_segment(const char* label, std::uint64_t bytes, Segment* out_segment) noexcept {
  if (const Status status = check_room(bytes); status != LWMQ_OK) return status;
  UniqueFd fd(create_memfd(label));
  if (!fd) return fail_call(LWMQ_E_SYSTEM, errno, "memfd_create(%s)", label);
  // Beyond this limit the kernel would end the process with a signal.
  rlimit most{};
  if (getrlimit(RLIMIT_FSIZE, &most) == 0 && bytes > most.rlim_cur) {
    return fail(LWMQ_E_NO_MEMORY,
                "segment %s of %" PRIu64 " bytes is larger than the %" PRIu64
                " bytes that a file of this process may have (ulimit -f)",
                label, bytes, static_cast<std::uint64_t>(most.rlim_cur));
  }
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return fail_call(LWMQ_E_NO_MEMORY, errno, "ftruncate of segment %s to %" PRIu64 " bytes", label, bytes);
  }
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) {
    return fail_call(LWMQ_E_NO_MEMORY, errno, "mmap of segment %s with %" PRIu64 " bytes", label, bytes);
  }
  Mapping memory(data, bytes);
  LWMQ_YIELD("segment.mapped");
  madvise(data, bytes, MADV_DONTFORK);              // the child must not write what peers take for ours
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {  // after mmap: the seal forbids later writable mappings
    return fail_call(LWMQ_E_SYSTEM, errno, "fcntl(F_ADD_SEALS) on segment %s", label);
  }
  out_segment->fd = std::move(fd);
  out_segment->memory = std::move(memory);
  return LWMQ_OK;
}

Status check_foreign_segment(int fd, std::uint64_t bytes) noexcept {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return fail(LWMQ_E_CORRUPT, "a segment arrived with seals %#x, needed are %#x",
                seals < 0 ? 0U : unsigned(seals), unsigned(kSeals));
  }
  struct stat status {};
  if (fstat(fd, &status) != 0) return fail_errno(LWMQ_E_SYSTEM, errno, "fstat of a segment that arrived");
  if (bytes == 0 || static_cast<std::uint64_t>(status.st_size) != bytes) {
    return fail(LWMQ_E_CORRUPT, "a segment arrived with %" PRIu64 " bytes, announced were %" PRIu64,
                static_cast<std::uint64_t>(status.st_size), bytes);
  }
  return LWMQ_OK;
}

Status map_foreign_segment(int fd, std::uint64_t bytes, Populate populate, Mapping* out_mapping) noexcept {
  if (const Status status = check_foreign_segment(fd, bytes); status != LWMQ_OK) return status;
  const int flags = MAP_SHARED | (populate == Populate::kYes ? MAP_POPULATE : 0);
  void* data = mmap(nullptr, bytes, PROT_READ, flags, fd, 0);
  if (data == MAP_FAILED) {
    return fail_errno(LWMQ_E_NO_MEMORY, errno, "mmap of a peer's segment with %" PRIu64 " bytes", bytes);
  }
  *out_mapping = Mapping(data, bytes);
  return LWMQ_OK;
}

}  // namespace lwmq::os
