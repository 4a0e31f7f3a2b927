// A message: frames that travel together, whole or not at all.
//
// The handle is one block of three cache lines. Small frames lie in it; large ones belong to counted owners
// that several handles can share. Code that reads a frame does not see the difference.
//
//      0        8                16                      64                              192
//     +--------+----------------+-----------------------+-------------------------------+
//     | next   | counts, flags, | frame 0, frame 1,     | bytes of inline frames        |
//     |        | mark           | or where the list is  |                               |
//     +--------+----------------+-----------------------+-------------------------------+
//
//     list     +- Frame -+- Frame -+ ... +- ticks -+- ticks -+ ...   ticks only if a frame has a timestamp
//
// A list that fits into a block of the pool uses one: up to 8 frames, or 6 with timestamps, need no malloc.
//
// Each call either does all that it says or changes nothing. One thread at a time uses a handle; any two
// threads may use two handles that share frames.
#pragma once

#include <cstdint>
#include <new>

#include "base/cache_line.h"
#include "base/copy.h"
#include "base/limits.h"
#include "base/status.h"
#include "message/block_pool.h"
#include "message/owner.h"
#include "wire/message_header.h"

namespace lwmq {

// One piece of a message: where its bytes are, and who keeps them there.
//   inline    in the handle            owner == null
//   copied    in a block of its own    owner counts it
//   static    outlives everything      owner == null
//   external  of the application's     owner makes the call-backs
//   leased    in a peer's buffer       owner releases it (conversation/receiver.cc)
struct Frame {
  const std::uint8_t* data;
  std::uint64_t bytes;
  message::Owner* owner;
};

class Message {
 public:
  // All inline frames of a message together.
  static constexpr std::uint32_t kInlineBytes = 2 * kCacheLine;
  static constexpr std::uint32_t kSmallFrames = 2;

  // Null when memory is short; `frames_hint` reserves room.
  [[nodiscard]] static Message* create(std::uint32_t frames_hint = 0) noexcept;
  // A message of one frame, copied. Null when memory is short.
  [[nodiscard, gnu::always_inline]] static Message* copy_of(const void* data, std::uint64_t bytes) noexcept {
    if (bytes > kInlineBytes) [[unlikely]]
      return copy_of_large(data, bytes);
    void* block = message::take_block();
    if (block == nullptr) [[unlikely]]
      return nullptr;
    auto* made = new (block) Message;
    made->small_frames_[0] = {made->inline_bytes_, bytes, nullptr};
    made->frame_count_ = 1;
    made->inline_used_ = static_cast<std::uint8_t>(bytes);
    copy_bytes_to_read(made->inline_bytes_, data, bytes);
    return made;
  }
  // Takes the message: drops its owners. RELEASE call-backs may run in here.
  static void destroy(Message* message) noexcept;

  // A further frame. Copies; inline where it fits.
  Status append(const void* data, std::uint64_t bytes) noexcept;
  // Keeps nothing: the bytes outlive everything.
  Status append_static(const void* data, std::uint64_t bytes) noexcept;
  // Calls back with ACQUIRE now and RELEASE when the last handle is gone; on failure neither.
  Status append_external(const void* data, std::uint64_t bytes, lwmq_frame_callback callback,
                         void* context) noexcept;
  // Takes one reference of `owner`, on LWMQ_OK alone.
  Status append_owned(const void* data, std::uint64_t bytes, message::Owner* owner) noexcept;

  // A second handle on the same frames. Null when memory is short.
  [[nodiscard]] Message* reference() const noexcept;

  // When frame `index` was made, in ticks (100 ns since 1601, UTC); 0: it has no timestamp. The caller has
  // checked the index.
  Status set_timestamp(std::uint32_t index, std::uint64_t ticks) noexcept;
  [[nodiscard]] std::uint64_t timestamp(std::uint32_t index) const noexcept {
    return has_timestamps() ? ticks_of(large_frames_, frame_capacity_)[index] : 0;
  }
  // Whether some frame was ever given one.
  [[nodiscard]] bool has_timestamps() const noexcept { return (flags_ & kHasTimestamps) != 0; }

  // Puts a number behind its frames, which travels with them and is nobody's frame; at most one.
  Status put_number(const wire::Number& number) noexcept;
  // Takes the number off it, which is there.
  wire::Number take_number() noexcept;
  [[nodiscard]] bool is_numbered() const noexcept { return (flags_ & kIsNumbered) != 0; }
  // Of a message whose last frame arrived as its number. False: it cannot be one.
  bool note_numbered() noexcept;

  // From here on our copies of its bytes are zeroed when the last handle that shows them is gone.
  void erase_when_destroyed() noexcept;

  [[nodiscard]] std::uint32_t frame_count() const noexcept { return frame_count_; }
  [[nodiscard]] const Frame* frames() const noexcept { return is_small() ? small_frames_ : large_frames_; }
  // Whether destroy may have more to do than to recycle the handle: call-backs, memory, a peer's buffer.
  [[nodiscard]] bool has_owners() const noexcept { return (flags_ & kHasOwners) != 0; }

  // False of memory that is no message, or no more: after destroy, until its block is used again. For checks
  // of what an application hands in.
  [[nodiscard]] bool is_alive() const noexcept { return mark_ == kAlive; }

  Message* next = nullptr;  // for whoever holds the message, to chain several

 private:
  enum Flags : std::uint8_t { kHasOwners = 1, kHasTimestamps = 2, kErases = 4, kIsNumbered = 8 };
  static constexpr std::uint16_t kAlive = 0x4d6c;
  static constexpr std::uint16_t kGone = 0xdead;

  static Message* copy_of_large(const void* data, std::uint64_t bytes) noexcept;
  Message() noexcept {}  // the inline bytes stay as they are
  [[nodiscard]] bool is_small() const noexcept { return frame_capacity_ == kSmallFrames; }
  Frame* own_frames() noexcept { return is_small() ? small_frames_ : large_frames_; }
  static std::uint64_t* ticks_of(Frame* list, std::uint32_t capacity) noexcept {
    return reinterpret_cast<std::uint64_t*>(list + capacity);
  }
  Status add(const void* data, std::uint64_t bytes, message::Owner* owner) noexcept;
  bool reserve(std::uint32_t capacity, bool timestamps) noexcept;
  void free_list() noexcept;
  void clear() noexcept;

  std::uint16_t frame_count_ = 0;
  std::uint16_t frame_capacity_ = kSmallFrames;
  std::uint8_t inline_used_ = 0;
  std::uint8_t flags_ = 0;
  std::uint16_t mark_ = kAlive;
  union {
    Frame small_frames_[kSmallFrames];
    Frame* large_frames_;  // where frame_capacity_ > kSmallFrames, as always with timestamps
  };
  std::uint8_t inline_bytes_[kInlineBytes];
};
static_assert(sizeof(Message) == message::kBlockBytes);
static_assert(kFramesMax <= UINT16_MAX);
static_assert(Message::kInlineBytes <= UINT8_MAX);
static_assert(Message::kInlineBytes >= kInlineBytesMax);

}  // namespace lwmq
