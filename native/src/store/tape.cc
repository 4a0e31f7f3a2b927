#include "store/tape.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>

#include "base/crc32c.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::store {
namespace {

constexpr std::uint64_t padded(std::uint64_t bytes) noexcept { return (bytes + 7) / 8 * 8; }

std::uint64_t realtime_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

bool read_all(int fd, void* to, std::uint64_t bytes, std::uint64_t at) noexcept {
  auto* next = static_cast<std::uint8_t*>(to);
  while (bytes > 0) {
    const ssize_t got = pread(fd, next, bytes, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    next += got;
    at += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::uint64_t>(got);
  }
  return true;
}

std::uint32_t crc_of(const TapeHead& head) noexcept { return crc32c(0, &head, offsetof(TapeHead, crc)); }

Status check_head(int fd, const std::string& path) {
  TapeHead head{};
  if (!read_all(fd, &head, sizeof head, 0) || head.magic != kTapeMagic)
    return fail(LWMQ_E_CORRUPT, "%s is no tape of extents", path.c_str());
  if (head.version != kTapeVersion)
    return fail(LWMQ_E_VERSION, "%s is a tape of version %u; we read %u", path.c_str(), head.version,
                kTapeVersion);
  if (head.head_bytes != sizeof head || head.crc != crc_of(head))
    return fail(LWMQ_E_CORRUPT, "%s: the head of the tape is damaged", path.c_str());
  return LWMQ_OK;
}

struct Writers {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<TapeWriter>> open;
};

Writers& writers() noexcept {
  static auto* instance = new Writers;
  return *instance;
}

}  // namespace

Status TapeWriter::open(const std::string& path, std::shared_ptr<TapeWriter>* out_writer) {
  Writers& all = writers();
  const std::lock_guard lock(all.mutex);
  if (auto known = all.open[path].lock(); known != nullptr) {
    *out_writer = std::move(known);
    return LWMQ_OK;
  }
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return fail_errno(LWMQ_E_SYSTEM, errno, "tape %s", path.c_str());
  std::shared_ptr<TapeWriter> made(new TapeWriter(fd));
  struct stat status {};
  // Until the head is written: of several processes one writes it.
  if (flock(fd, LOCK_EX) != 0 || fstat(fd, &status) != 0)
    return fail_errno(LWMQ_E_SYSTEM, errno, "tape %s", path.c_str());
  if (status.st_size == 0) {
    TapeHead head{kTapeMagic, kTapeVersion, sizeof(TapeHead), realtime_ns(), 0, 0};
    head.crc = crc_of(head);
    if (::write(fd, &head, sizeof head) != sizeof head)
      return fail_errno(LWMQ_E_SYSTEM, errno, "tape %s", path.c_str());
  } else if (const Status known = check_head(fd, path); known != LWMQ_OK) {
    return known;
  }
  flock(fd, LOCK_UN);
  all.open[path] = made;
  *out_writer = std::move(made);
  return LWMQ_OK;
}

Status TapeWriter::check(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0) {
    struct stat status {};
    const bool fresh = fstat(fd, &status) == 0 && status.st_size == 0;
    const Status known = fresh ? LWMQ_OK : check_head(fd, path);
    ::close(fd);
    return known;
  }
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (errno == ENOENT && access(folder.c_str(), W_OK) == 0) return LWMQ_OK;
  return fail_errno(LWMQ_E_SYSTEM, errno, "tape %s", path.c_str());
}

TapeWriter::~TapeWriter() { ::close(fd_); }

bool TapeWriter::append(std::uint32_t kind, std::uint32_t way, const void* data, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!entry_.resize(sizeof(TapeEntry) + padded(bytes))) return false;
  std::memset(entry_.data() + entry_.size() - (padded(bytes) - bytes), 0, padded(bytes) - bytes);
  TapeEntry head{};
  head.kind = static_cast<std::uint8_t>(kind);
  head.way = static_cast<std::uint8_t>(way);
  head.bytes = bytes;
  head.time_ns = realtime_ns();
  std::memcpy(entry_.data(), &head, sizeof head);
  if (bytes > 0) std::memcpy(entry_.data() + sizeof head, data, bytes);
  head.crc = crc32c(0, entry_.data() + sizeof head.crc, entry_.size() - sizeof head.crc);
  std::memcpy(entry_.data(), &head.crc, sizeof head.crc);
  ssize_t written = -1;
  do {
    written = ::write(fd_, entry_.data(), entry_.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(entry_.size())) return true;
  if (written > 0) take_back(written);
  return false;
}

// What got through of an extent, where nobody else has written behind it.
void TapeWriter::take_back(std::int64_t written) noexcept {
  struct stat status {};
  const off_t end = lseek(fd_, 0, SEEK_CUR);  // of our last write
  if (end < 0 || fstat(fd_, &status) != 0 || status.st_size != end) return;
  [[maybe_unused]] const int taken = ftruncate(fd_, end - written);  // else a reader finds it torn
}

TapeReader::~TapeReader() {
  if (fd_ >= 0) ::close(fd_);
}

Status TapeReader::open(const std::string& path) {
  path_ = path;
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) return fail_errno(LWMQ_E_SYSTEM, errno, "tape %s", path.c_str());
  struct stat status {};
  if (fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode))
    return fail(LWMQ_E_CORRUPT, "%s is no tape of extents", path.c_str());
  file_bytes_ = static_cast<std::uint64_t>(status.st_size);
  at_ = sizeof(TapeHead);
  return check_head(fd_, path);
}

Status TapeReader::next(TapeEntry* out_entry, TapeBytes* out_bytes, bool* out_torn) {
  const std::uint64_t left = file_bytes_ - at_;
  *out_torn = false;
  if (left == 0) return LWMQ_E_END;
  const auto torn = [&] {
    *out_torn = true;
    return fail(LWMQ_E_CORRUPT,
                "tape %s is torn: its last extent, at byte %" PRIu64 " of %" PRIu64 ", is not whole",
                path_.c_str(), at_, file_bytes_);
  };
  if (left < sizeof(TapeEntry)) return torn();
  if (!read_all(fd_, out_entry, sizeof *out_entry, at_))
    return fail(LWMQ_E_CORRUPT, "tape %s: byte %" PRIu64 " cannot be read", path_.c_str(), at_);
  const std::uint64_t room = left - sizeof *out_entry;
  if (out_entry->bytes > room || padded(out_entry->bytes) > room) return torn();
  if (out_bytes != nullptr && !out_bytes->resize(out_entry->bytes)) {
    return fail(LWMQ_E_NO_MEMORY, "tape %s: no memory for the extent of %" PRIu64 " bytes at byte %" PRIu64,
                path_.c_str(), out_entry->bytes, at_);
  }
  constexpr std::size_t kCrc = sizeof out_entry->crc;
  std::uint32_t crc =
      crc32c(0, reinterpret_cast<const std::uint8_t*>(out_entry) + kCrc, sizeof *out_entry - kCrc);
  std::uint8_t piece[4096];  // whatever the entry claims
  for (std::uint64_t done = 0; done < padded(out_entry->bytes); done += sizeof piece) {
    const std::uint64_t length = std::min<std::uint64_t>(sizeof piece, padded(out_entry->bytes) - done);
    if (!read_all(fd_, piece, length, at_ + sizeof *out_entry + done))
      return fail(LWMQ_E_CORRUPT, "tape %s: byte %" PRIu64 " cannot be read", path_.c_str(), at_);
    crc = crc32c(crc, piece, length);
    if (out_bytes != nullptr && done < out_entry->bytes)
      std::memcpy(out_bytes->data() + done, piece, std::min(length, out_entry->bytes - done));
  }
  const bool known = out_entry->kind <= LWMQ_TLI_KIND_MAX &&
                     (out_entry->way == LWMQ_TLI_SENDING || out_entry->way == LWMQ_TLI_LANDING);
  if (crc != out_entry->crc || !known)
    return fail(LWMQ_E_CORRUPT, "tape %s: the extent at byte %" PRIu64 " is damaged", path_.c_str(), at_);
  at_ += sizeof *out_entry + padded(out_entry->bytes);
  return LWMQ_OK;
}

}  // namespace lwmq::store
