// A tape of recorded extents that somebody else has written, or nobody to its end: an error that says where,
// or extents within the file.
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "input.h"
#include "lwmq/lwmq_tli.h"
#include "store/tape.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace lwmq;
  using namespace lwmq::store;
  const int fd = memfd_create("tape", MFD_CLOEXEC);
  fuzz::require(fd >= 0 && write(fd, data, bytes) == static_cast<ssize_t>(bytes), "a file in memory");
  {
    TapeReader reader;
    Status status = reader.open("/proc/self/fd/" + std::to_string(fd));
    fuzz::require(status == LWMQ_OK || status == LWMQ_E_CORRUPT || status == LWMQ_E_VERSION,
                  "a tape is good, corrupt, or of another version");
    TapeEntry entry{};
    TapeBytes extent;
    bool torn = false;
    std::uint64_t total = 0;
    while (status == LWMQ_OK) {
      status = reader.next(&entry, &extent, &torn);
      if (status != LWMQ_OK) break;
      total += sizeof entry + extent.size();
      fuzz::require(extent.size() == entry.bytes && total <= bytes, "an extent lies in the file");
      fuzz::require(entry.kind <= LWMQ_TLI_KIND_MAX, "its kind is one");
      fuzz::touch(extent.data(), extent.size());
    }
  }
  close(fd);
  return 0;
}
