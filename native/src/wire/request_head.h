// The first frame of a request, and of its reply. Little-endian.
//
//    0         4         5       6      8                 16                24
//   +---------+---------+-------+------+-----------------+-----------------+
//   | "lwrq"  | format  | kind  |  0   |      asker      |     number      |
//   +---------+---------+-------+------+-----------------+-----------------+
//
// asker: 64 random bits of whoever asks, so that nobody takes the reply to another one for his own. number:
// 1, 2, 3... of that asker. The reply has the head of its request, but for the kind. Behind the head a
// request and a reply have the application's frames; a failure has two, UTF-8, of at most kFailureTextMax
// bytes each: of which kind it is (the name of an exception's class), and its text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lwmq::wire {

enum class RequestKind : std::uint8_t { kRequest = 1, kReply = 2, kFailure = 3 };

inline constexpr std::uint32_t kRequestMagic = 0x7172'776c;  // "lwrq"
inline constexpr std::uint8_t kRequestFormat = 1;
inline constexpr std::uint64_t kFailureTextMax = 1000;

struct RequestHead {
  std::uint32_t magic = kRequestMagic;
  std::uint8_t format = kRequestFormat;
  RequestKind kind = RequestKind::kRequest;
  std::uint16_t zero = 0;
  std::uint64_t asker = 0;
  std::uint64_t number = 0;
};
static_assert(sizeof(RequestHead) == 24);
static_assert(offsetof(RequestHead, kind) == 5 && offsetof(RequestHead, number) == 16);

// False: these bytes are no head of this format.
[[nodiscard]] inline bool read_head(const void* data, std::uint64_t bytes, RequestHead* out_head) noexcept {
  if (bytes != sizeof *out_head) return false;
  std::memcpy(static_cast<void*>(out_head), data, sizeof *out_head);
  return out_head->magic == kRequestMagic && out_head->format == kRequestFormat && out_head->zero == 0;
}

}  // namespace lwmq::wire
