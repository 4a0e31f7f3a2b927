#include "message/message.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/checked.h"
#include "base/erase.h"
#include "message/external.h"

namespace lwmq {
namespace {

using message::Owner;

constexpr std::uint64_t kAlignment = 8;  // of inline frames, so that a frame can hold any plain structure

Status no_memory(std::uint64_t bytes) noexcept {
  return fail(LWMQ_E_NO_MEMORY, "no memory for a frame of %" PRIu64 " bytes", bytes);
}

// The bytes of a copied frame follow behind.
struct alignas(kCacheLine) CopiedBytes {
  Owner owner;
  std::uint64_t bytes;
  std::atomic<bool> erases{false};  // only ever set, by any handle that shows the frame

  std::uint8_t* data() noexcept { return reinterpret_cast<std::uint8_t*>(this + 1); }

  static void finish(Owner* owner) noexcept {
    auto* copy = reinterpret_cast<CopiedBytes*>(owner);
    if (copy->erases.load(std::memory_order_relaxed)) erase(copy->data(), copy->bytes);
    message::give_memory(owner, sizeof(CopiedBytes) + copy->bytes);
  }

  static CopiedBytes* create(std::uint64_t bytes) noexcept {
    void* memory = message::take_memory(sizeof(CopiedBytes) + bytes);
    return memory == nullptr ? nullptr : new (memory) CopiedBytes{Owner(finish), bytes};
  }
};

// A list of frames, and behind it their ticks.
constexpr std::uint64_t list_bytes(std::uint32_t capacity, bool timestamps) noexcept {
  return capacity * (sizeof(Frame) + (timestamps ? sizeof(std::uint64_t) : 0));
}
constexpr std::uint32_t kBlockFrames = message::kBlockBytes / sizeof(Frame);
constexpr std::uint32_t kBlockStampedFrames = message::kBlockBytes / (sizeof(Frame) + sizeof(std::uint64_t));
static_assert(kBlockFrames == 8 && kBlockStampedFrames == 6);

}  // namespace

Message* Message::create(std::uint32_t frames_hint) noexcept {
  void* block = message::take_block();
  if (block == nullptr) return nullptr;
  auto* made = new (block) Message;
  if (frames_hint > kSmallFrames && !made->reserve(std::min(frames_hint, kFramesMax), false)) {
    message::give_block(block);
    return nullptr;
  }
  return made;
}

// As create and append do, without their questions.
[[gnu::noinline]] Message* Message::copy_of_large(const void* data, std::uint64_t bytes) noexcept {
  void* block = bytes <= kBufferBytesMax ? message::take_block() : nullptr;
  if (block == nullptr) return nullptr;
  CopiedBytes* copy = CopiedBytes::create(bytes);
  if (copy == nullptr) {
    message::give_block(block);
    return nullptr;
  }
  std::memcpy(copy->data(), data, bytes);
  auto* made = new (block) Message;
  made->small_frames_[0] = {copy->data(), bytes, &copy->owner};
  made->frame_count_ = 1;
  made->flags_ = kHasOwners;
  return made;
}

void Message::destroy(Message* message) noexcept {
  message->mark_ = kGone;
  const bool lies_in_its_block = (message->flags_ & (kHasOwners | kErases)) == 0 && message->is_small();
  if (!lies_in_its_block) [[unlikely]]
    message->clear();
  message::give_block(message);
}

// Gives back and erases what is beside the handle.
[[gnu::noinline]] void Message::clear() noexcept {
  if (has_owners()) {
    const Frame* frames = this->frames();
    for (std::uint32_t i = 0; i < frame_count_; ++i) {
      if (frames[i].owner != nullptr) message::drop(frames[i].owner);
    }
  }
  if (!is_small()) free_list();
  if ((flags_ & kErases) != 0) erase(inline_bytes_, inline_used_);
}

Status Message::append(const void* data, std::uint64_t bytes) noexcept {
  const std::uint64_t start = align_up(inline_used_, kAlignment);
  if (fits(start, bytes, kInlineBytes)) {
    const Status status = add(inline_bytes_ + start, bytes, nullptr);
    if (status != LWMQ_OK) return status;
    if (bytes > 0) std::memcpy(inline_bytes_ + start, data, bytes);
    inline_used_ = static_cast<std::uint8_t>(start + bytes);
    return LWMQ_OK;
  }
  if (bytes > kBufferBytesMax) {
    return fail(LWMQ_E_TOO_BIG, "a frame of %" PRIu64 " bytes is not copied; at most %" PRIu64 " are", bytes,
                kBufferBytesMax);
  }
  CopiedBytes* copy = CopiedBytes::create(bytes);
  if (copy == nullptr) return no_memory(bytes);
  if ((flags_ & kErases) != 0) copy->erases.store(true, std::memory_order_relaxed);
  std::memcpy(copy->data(), data, bytes);
  const Status status = add(copy->data(), bytes, &copy->owner);
  if (status != LWMQ_OK) message::drop(&copy->owner);
  return status;
}

Status Message::append_static(const void* data, std::uint64_t bytes) noexcept {
  return add(data, bytes, nullptr);
}

Status Message::append_external(const void* data, std::uint64_t bytes, lwmq_frame_callback callback,
                                void* context) noexcept {
  auto* external = message::ExternalBytes::create(callback, context);
  if (external == nullptr) return no_memory(bytes);
  const Status status = add(data, bytes, &external->owner);
  if (status != LWMQ_OK) {
    message::give_block(external);
    return status;
  }
  callback(context, LWMQ_FRAME_ACQUIRE);
  return LWMQ_OK;
}

Status Message::append_owned(const void* data, std::uint64_t bytes, Owner* owner) noexcept {
  return add(data, bytes, owner);
}

Status Message::add(const void* data, std::uint64_t bytes, Owner* owner) noexcept {
  if (frame_count_ == frame_capacity_) {
    if (frame_count_ == kFramesMax) {
      return fail(LWMQ_E_TOO_BIG, "frame %u of a message: it has at most %u", kFramesMax + 1, kFramesMax);
    }
    if (!reserve(std::min<std::uint32_t>(std::uint32_t{frame_capacity_} * 2, kFramesMax), has_timestamps()))
      return no_memory(bytes);
  }
  if (has_timestamps()) [[unlikely]]
    ticks_of(large_frames_, frame_capacity_)[frame_count_] = 0;
  own_frames()[frame_count_++] = {static_cast<const std::uint8_t*>(data), bytes, owner};
  if (owner != nullptr) flags_ |= kHasOwners;
  return LWMQ_OK;
}

// A list with room for at least `capacity` frames, of which there are more than kSmallFrames or which have
// timestamps. False when memory is short: nothing has changed.
bool Message::reserve(std::uint32_t capacity, bool timestamps) noexcept {
  capacity = std::max(capacity, timestamps ? kBlockStampedFrames : kBlockFrames);
  void* memory = message::take_memory(list_bytes(capacity, timestamps));
  if (memory == nullptr) return false;
  auto* list = static_cast<Frame*>(memory);
  std::memcpy(list, own_frames(), frame_count_ * sizeof(Frame));
  if (timestamps) {
    for (std::uint32_t i = 0; i < frame_count_; ++i) ticks_of(list, capacity)[i] = timestamp(i);
  }
  if (frame_capacity_ > kSmallFrames) free_list();
  large_frames_ = list;
  frame_capacity_ = static_cast<std::uint16_t>(capacity);
  if (timestamps) flags_ |= kHasTimestamps;
  return true;
}

void Message::free_list() noexcept {
  message::give_memory(large_frames_, list_bytes(frame_capacity_, has_timestamps()));
}

Status Message::set_timestamp(std::uint32_t index, std::uint64_t ticks) noexcept {
  if (!has_timestamps()) {
    if (ticks == 0) return LWMQ_OK;
    if (!reserve(frame_count_, true))
      return fail(LWMQ_E_NO_MEMORY, "no memory for the timestamps of %u frames", unsigned{frame_count_});
  }
  ticks_of(large_frames_, frame_capacity_)[index] = ticks;
  return LWMQ_OK;
}

Status Message::put_number(const wire::Number& number) noexcept {
  const Status status = append(&number, sizeof number);
  if (status == LWMQ_OK) flags_ |= kIsNumbered;
  return status;
}

bool Message::note_numbered() noexcept {
  if (frame_count_ == 0 || frames()[frame_count_ - 1].bytes != sizeof(wire::Number)) return false;
  flags_ |= kIsNumbered;
  return true;
}

wire::Number Message::take_number() noexcept {
  const Frame last = frames()[--frame_count_];
  wire::Number number{};
  std::memcpy(&number, last.data, sizeof number);
  flags_ &= static_cast<std::uint8_t>(~kIsNumbered);
  if (last.owner != nullptr) {
    message::drop(last.owner);
  } else {
    inline_used_ = static_cast<std::uint8_t>(last.data - inline_bytes_);
  }
  return number;
}

void Message::erase_when_destroyed() noexcept {
  flags_ |= kErases;
  if (!has_owners()) return;
  for (std::uint32_t i = 0; i < frame_count_; ++i) {
    Owner* owner = frames()[i].owner;
    if (owner != nullptr && owner->finish == CopiedBytes::finish)
      reinterpret_cast<CopiedBytes*>(owner)->erases.store(true, std::memory_order_relaxed);
  }
}

Message* Message::reference() const noexcept {
  Message* copy = create(frame_count_);
  if (copy == nullptr) return nullptr;
  if (has_timestamps() && !copy->reserve(frame_count_, true)) {
    destroy(copy);
    return nullptr;
  }
  std::memcpy(copy->inline_bytes_, inline_bytes_, inline_used_);
  copy->inline_used_ = inline_used_;
  copy->frame_count_ = frame_count_;
  copy->flags_ |= flags_;
  const Frame* from = frames();
  Frame* to = copy->own_frames();
  for (std::uint32_t i = 0; i < frame_count_; ++i) {
    to[i] = from[i];
    if (has_timestamps()) ticks_of(to, copy->frame_capacity_)[i] = timestamp(i);
    if (from[i].owner != nullptr) {
      message::keep(from[i].owner);
    } else if (from[i].data >= inline_bytes_ && from[i].data < inline_bytes_ + kInlineBytes) {
      to[i].data = copy->inline_bytes_ + (from[i].data - inline_bytes_);  // each handle shows its own
    }
  }
  return copy;
}

}  // namespace lwmq
