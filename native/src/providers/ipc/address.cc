#include "providers/ipc/address.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "lane/record_lane.h"
#include "os/clock.h"
#include "os/identity.h"
#include "os/unix_socket.h"
#include "providers/ipc/layout.h"

namespace lwmq::ipc {
namespace {

constexpr std::string_view kScheme = "ipc://";
constexpr std::int64_t kLockNs = 100'000'000;  // whoever keeps a directory longer does not bind there
constexpr std::int64_t kRetryNs = 2'000'000;

// False where `text` is not UTF-8: a character has a first byte that says how many follow it.
bool count_characters(std::string_view text, std::size_t* out_count) noexcept {
  std::size_t follow = 0;
  *out_count = 0;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool follows = (byte & 0xc0U) == 0x80U;
    if (follows != (follow > 0) || byte >= 0xf8U) return false;
    if (follows) {
      --follow;
      continue;
    }
    ++*out_count;
    follow = byte >= 0xf0U ? 3 : byte >= 0xe0U ? 2 : byte >= 0xc0U ? 1 : 0;
  }
  return follow == 0;
}

bool has_control_character(std::string_view text) noexcept {
  for (const char byte : text) {
    if (static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f) return true;
  }
  return false;
}

// Spreads names over the abstract space; no secret and no proof: the handshake compares the names themselves.
std::string hash_hex(std::string_view text) {
  __extension__ using Wide = unsigned __int128;  // FNV-1a, 128 bits
  const Wide prime = (static_cast<Wide>(1) << 88) + 0x13b;
  Wide hash = (static_cast<Wide>(0x6c62272e07bb0142ULL) << 64) + 0x62b821756295c58dULL;
  for (const char byte : text) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= prime;
  }
  char hex[33];
  std::snprintf(hex, sizeof hex, "%016llx%016llx", static_cast<unsigned long long>(hash >> 64),
                static_cast<unsigned long long>(hash));
  return hex;
}

Status parse_file(const char* address, std::string_view path, Address* out_address) {
  if (path.find(':') != std::string_view::npos) {
    return fail(LWMQ_E_ADDRESS, "%s: ':' is reserved, and a socket file has no port", address);
  }
  if (path.size() > os::kSocketPathBytesMax) {
    return fail(LWMQ_E_ADDRESS, "%s: the path has %zu bytes, a socket file may have %zu", address,
                path.size(), os::kSocketPathBytesMax);
  }
  if (path.back() == '/')
    return fail(LWMQ_E_ADDRESS, "%s: a file name is missing behind the last '/'", address);
  out_address->socket = path;
  out_address->name.clear();
  return LWMQ_OK;
}

Status check_port(const char* address, std::string_view port) noexcept {
  std::uint32_t value = 0;
  bool good = !port.empty() && port.size() <= 5;
  for (const char digit : port) {
    good = good && digit >= '0' && digit <= '9';
    value = value * 10 + static_cast<std::uint32_t>(digit - '0');
  }
  if (good && value >= 1 && value <= 65535) return LWMQ_OK;
  return fail(LWMQ_E_ADDRESS, "%s: the port is '%.*s', possible are 1 to 65535", address,
              static_cast<int>(port.size()), port.data());
}

}  // namespace

bool is_ours(const char* address) noexcept {
  return std::strncmp(address, kScheme.data(), kScheme.size()) == 0;
}

Status parse(const char* address, Address* out_address) {
  const std::string_view rest = std::string_view(address).substr(kScheme.size());
  out_address->text = address;
  if (rest.find('?') != std::string_view::npos) {
    return fail(LWMQ_E_ADDRESS, "%s: options stand here in place of a bare address", address);
  }
  if (has_control_character(rest))
    return fail(LWMQ_E_ADDRESS, "%s: a control character in the name", address);
  if (rest.starts_with('/')) return parse_file(address, rest, out_address);
  const std::size_t colon = rest.find(':');
  const std::string_view name = rest.substr(0, colon);
  std::size_t characters = 0;
  if (!count_characters(name, &characters)) {
    return fail(LWMQ_E_ADDRESS, "ipc:// and a name of %zu bytes that are not UTF-8", name.size());
  }
  if (characters == 0 || characters > kNameCharactersMax) {
    return fail(LWMQ_E_ADDRESS, "%.200s: the name has %zu characters, possible are 1 to %u", address,
                characters, kNameCharactersMax);
  }
  std::string canonical(name);
  if (colon != std::string_view::npos) {
    const std::string_view port = rest.substr(colon + 1);
    if (const Status status = check_port(address, port); status != LWMQ_OK) return status;
    canonical += ":" + std::to_string(std::strtoul(std::string(port).c_str(), nullptr, 10));
  }
  out_address->name = canonical;
  out_address->socket = "lwmq/" + std::to_string(geteuid()) + "/" + hash_hex(canonical);
  return LWMQ_OK;
}

Status check_options(const Address& address, const lwmq_tli_options* options) noexcept {
  const char* text = address.text.c_str();
  if (options == nullptr) return fail(LWMQ_E_INVALID, "%s: no options given", text);
  if (options->buffers_send == 0 || options->buffers_send >= kBuffersMax) {
    return fail(LWMQ_E_INVALID, "%s: %u send buffers; possible are 1 to %u, since both directions share %u",
                text, options->buffers_send, kBuffersMax - 1, kBuffersMax);
  }
  if (options->buffers_receive != 0 &&
      options->buffers_send + std::uint64_t{options->buffers_receive} > kBuffersMax) {
    return fail(LWMQ_E_INVALID,
                "%s: %u send and %u receive buffers are %" PRIu64 "; both directions share %u", text,
                options->buffers_send, options->buffers_receive,
                options->buffers_send + std::uint64_t{options->buffers_receive}, kBuffersMax);
  }
  if (options->buffer_bytes < kBufferBytesMin || options->buffer_bytes > kBufferBytesMax) {
    return fail(LWMQ_E_INVALID, "%s: buffers of %" PRIu64 " bytes; possible are %" PRIu64 " to %" PRIu64,
                text, options->buffer_bytes, kBufferBytesMin, kBufferBytesMax);
  }
  return LWMQ_OK;
}

// ---- Binding -----------------------------------------------------------------------------------------

namespace {

// The value behind `key` in a /proc status file, as a number of the given base; 0 where it is missing.
unsigned long long status_number(const char* text, const char* key, int base) noexcept {
  const char* at = std::strstr(text, key);
  return at == nullptr ? 0 : std::strtoull(at + std::strlen(key), nullptr, base);
}

bool read_text(const std::string& path, char* out, std::size_t room) noexcept {
  const os::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return false;
  const ssize_t got = read(fd.get(), out, room - 1);
  out[got > 0 ? got : 0] = '\0';
  return got > 0;
}

// One thread has been killed or is on its way out.
bool is_thread_dying(const std::string& task) {
  constexpr unsigned long long kSigkillBit = 1ULL << 8;
  constexpr unsigned long long kExiting = 0x4;  // PF_EXITING
  char text[4096];
  if (!read_text(task + "/stat", text, sizeof text)) return true;
  const char* behind_name = std::strrchr(text, ')');
  unsigned flags = 0;
  if (behind_name != nullptr && std::sscanf(behind_name + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
      (flags & kExiting) != 0) {
    return true;
  }
  if (!read_text(task + "/status", text, sizeof text)) return true;
  return ((status_number(text, "SigPnd:", 16) | status_number(text, "ShdPnd:", 16)) & kSigkillBit) != 0;
}

// Every thread of the process is on its way out. A large process takes some 0.3 s from there to closing its
// sockets.
bool is_process_dying(std::uint32_t pid) {
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  DIR* directory = opendir(tasks.c_str());
  if (directory == nullptr) return true;
  bool dying = true;
  for (const dirent* entry = readdir(directory); entry != nullptr && dying; entry = readdir(directory)) {
    if (entry->d_name[0] != '.') dying = is_thread_dying(tasks + "/" + entry->d_name);
  }
  closedir(directory);
  return dying;
}

// Else an abstract name.
bool is_file(const Address& address) noexcept { return address.socket.front() == '/'; }

OwnFile file_of(const Address& address) noexcept {
  struct stat there {};
  if (!is_file(address) || lstat(address.socket.c_str(), &there) != 0) return {};
  return {there.st_dev, there.st_ino};
}

enum class Owner { kNobody, kDying, kServing };

Status refuse(const Address& address, Owner owner, std::uint32_t pid) noexcept {
  const char* text = address.text.c_str();
  if (owner == Owner::kNobody && !is_file(address))
    return fail(LWMQ_E_ADDRESS, "%s is bound, and nobody listens there: try again", text);
  if (owner == Owner::kNobody) {
    return fail(
        LWMQ_E_ADDRESS,
        "%s: nobody listens behind that socket file, but another process has kept its directory locked "
        "for %" PRId64 " ms: try again, or remove the file",
        text, kLockNs / 1'000'000);
  }
  if (pid == 0) return fail(LWMQ_E_ADDRESS, "%s is served already, by whom cannot be seen from here", text);
  return fail(LWMQ_E_ADDRESS, "%s is served already, by process %u", text, pid);
}

// Who listens behind the socket name; *out_pid where somebody does and can be seen.
Owner find_owner(const Address& address, std::uint32_t* out_pid) {
  os::UniqueFd probe;
  *out_pid = 0;
  const Status status = os::connect_unix(address.socket, &probe);
  if (status == LWMQ_E_EMPTY) return Owner::kNobody;
  os::PeerCredentials credentials;
  if (status != LWMQ_OK || os::peer_credentials(probe.get(), &credentials) != LWMQ_OK) return Owner::kServing;
  *out_pid = credentials.pid;
  return credentials.pid != 0 && credentials.pid != os::identity().pid && is_process_dying(credentials.pid)
             ? Owner::kDying
             : Owner::kServing;
}

// Replaces a stale file. The directory is locked: a file that is bound and not yet listened at looks stale to
// others, and two that find a stale one must not remove each other's new one.
Status bind_file(const Address& address, os::UniqueFd* out_fd) {
  const std::string directory = address.socket.substr(0, address.socket.rfind('/') + 1);
  const os::UniqueFd lock(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock && flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return LWMQ_E_ADDRESS;
  const Status status = os::listen_unix(address.socket, out_fd);
  if (!lock || status != LWMQ_E_ADDRESS) return status;
  std::uint32_t pid = 0;
  if (find_owner(address, &pid) == Owner::kNobody) unlink(address.socket.c_str());
  return os::listen_unix(address.socket, out_fd);
}

}  // namespace

Status check_directory(const Address& address) {
  const std::string directory = address.socket.substr(0, std::max<std::size_t>(address.socket.rfind('/'), 1));
  struct stat there {};
  if (!is_file(address)) return LWMQ_OK;
  const bool is_there = stat(directory.c_str(), &there) == 0;
  if (is_there ? S_ISDIR(there.st_mode) : errno != ENOENT && errno != ENOTDIR) return LWMQ_OK;
  return fail(LWMQ_E_ADDRESS,
              "%s: %s is no directory: create it (mkdir -p) before either side opens the address, or name "
              "another one",
              address.text.c_str(), directory.c_str());
}

Status check_place(const Address& address, bool follows_links) {
  struct stat there {};
  const int flags = follows_links ? 0 : AT_SYMLINK_NOFOLLOW;
  if (is_file(address) && fstatat(AT_FDCWD, address.socket.c_str(), &there, flags) == 0 &&
      !S_ISSOCK(there.st_mode))
    return fail(LWMQ_E_ADDRESS, "%s: a file that is no socket lies there", address.text.c_str());
  return LWMQ_OK;
}

Status bind_address(const Address& address, os::UniqueFd* out_fd, OwnFile* out_file) {
  if (const Status status = check_directory(address); status != LWMQ_OK) return status;
  if (const Status status = check_place(address, false); status != LWMQ_OK) return status;
  const std::int64_t began = os::now_ns();
  for (;;) {
    const std::int64_t waited = os::now_ns() - began;
    const Status status = is_file(address) && waited < kLockNs ? bind_file(address, out_fd)
                                                               : os::listen_unix(address.socket, out_fd);
    if (status != LWMQ_E_ADDRESS) {
      if (is_failure(status)) add_context(address.text.c_str());
      if (status == LWMQ_OK) *out_file = file_of(address);
      return status;
    }
    std::uint32_t pid = 0;
    const Owner owner = find_owner(address, &pid);
    if (owner == Owner::kServing || waited > (owner == Owner::kDying ? kDyingOwnerNs : kLockNs)) {
      return refuse(address, owner, pid);
    }
    timespec pause{0, kRetryNs};
    nanosleep(&pause, nullptr);
  }
}

void unbind_address(const Address& address, const OwnFile& file) noexcept {
  if (file.inode == 0) return;
  const OwnFile there = file_of(address);
  if (there.device == file.device && there.inode == file.inode) unlink(address.socket.c_str());
}

}  // namespace lwmq::ipc
