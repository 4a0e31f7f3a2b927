#include "message/message.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/checked.h"

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

  std::uint8_t* data() noexcept { return reinterpret_cast<std::uint8_t*>(this + 1); }

  static void finish(Owner* owner) noexcept { std::free(owner); }

  static CopiedBytes* create(std::uint64_t bytes) noexcept {
    if (bytes > kBufferBytesMax) return nullptr;
    void* memory = std::aligned_alloc(kCacheLine, sizeof(CopiedBytes) + align_up(bytes, kCacheLine));
    return memory == nullptr ? nullptr : new (memory) CopiedBytes{Owner(finish)};
  }
};

struct ExternalBytes {
  Owner owner;
  lwmq_frame_callback callback;
  void* context;

  static void finish(Owner* owner) noexcept {
    const lwmq_frame_callback callback = reinterpret_cast<ExternalBytes*>(owner)->callback;
    void* const context = reinterpret_cast<ExternalBytes*>(owner)->context;
    message::give_block(owner);  // first: the call-back is the application's and may do anything
    callback(context, LWMQ_FRAME_RELEASE);
  }
};
static_assert(sizeof(ExternalBytes) <= message::kBlockBytes);

}  // namespace

Message* Message::create(std::uint32_t frames_hint) noexcept {
  void* block = message::take_block();
  if (block == nullptr) return nullptr;
  auto* made = new (block) Message;
  if (frames_hint > kSmallFrames && !made->reserve(std::min(frames_hint, kFramesMax))) {
    message::give_block(block);
    return nullptr;
  }
  return made;
}

Message* Message::copy_of(const void* data, std::uint64_t bytes) noexcept {
  void* block = message::take_block();
  if (block == nullptr) return nullptr;
  auto* made = new (block) Message;
  if (bytes <= kInlineBytes) [[likely]] {
    made->small_frames_[0] = {made->inline_bytes_, bytes, nullptr};
    made->frame_count_ = 1;
    made->inline_used_ = static_cast<std::uint16_t>(bytes);
    if (bytes > 0) std::memcpy(made->inline_bytes_, data, bytes);
    return made;
  }
  if (made->append(data, bytes) == LWMQ_OK) return made;
  message::give_block(block);
  return nullptr;
}

void Message::destroy(Message* message) noexcept {
  const Frame* frames = message->frames();
  if (message->has_owners_) {
    for (std::uint32_t i = 0; i < message->frame_count_; ++i) {
      if (frames[i].owner != nullptr) message::drop(frames[i].owner);
    }
  }
  if (message->frame_capacity_ > kSmallFrames) std::free(message->large_frames_);
  message::give_block(message);
}

Status Message::append(const void* data, std::uint64_t bytes) noexcept {
  const std::uint64_t start = align_up(inline_used_, kAlignment);
  if (fits(start, bytes, kInlineBytes)) {
    const Status status = add(inline_bytes_ + start, bytes, nullptr);
    if (status != LWMQ_OK) return status;
    if (bytes > 0) std::memcpy(inline_bytes_ + start, data, bytes);
    inline_used_ = static_cast<std::uint16_t>(start + bytes);
    return LWMQ_OK;
  }
  CopiedBytes* copy = CopiedBytes::create(bytes);
  if (copy == nullptr) return no_memory(bytes);
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
  void* block = message::take_block();
  if (block == nullptr) return no_memory(bytes);
  auto* external = new (block) ExternalBytes{Owner(ExternalBytes::finish), callback, context};
  const Status status = add(data, bytes, &external->owner);
  if (status != LWMQ_OK) {
    message::give_block(block);
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
      return fail(LWMQ_E_TOO_BIG, "a message has at most %u frames", kFramesMax);
    }
    if (!reserve(std::min<std::uint32_t>(std::uint32_t{frame_capacity_} * 2, kFramesMax)))
      return no_memory(bytes);
  }
  own_frames()[frame_count_++] = {static_cast<const std::uint8_t*>(data), bytes, owner};
  has_owners_ = has_owners_ || owner != nullptr;
  return LWMQ_OK;
}

bool Message::reserve(std::uint32_t capacity) noexcept {
  auto* list = static_cast<Frame*>(std::malloc(capacity * sizeof(Frame)));
  if (list == nullptr) return false;
  Frame* old = own_frames();
  std::memcpy(list, old, frame_count_ * sizeof(Frame));
  if (frame_capacity_ > kSmallFrames) std::free(old);
  large_frames_ = list;
  frame_capacity_ = static_cast<std::uint16_t>(capacity);
  return true;
}

Message* Message::reference() const noexcept {
  Message* copy = create(frame_count_);
  if (copy == nullptr) return nullptr;
  std::memcpy(copy->inline_bytes_, inline_bytes_, inline_used_);
  copy->inline_used_ = inline_used_;
  copy->frame_count_ = frame_count_;
  copy->has_owners_ = has_owners_;
  const Frame* from = frames();
  Frame* to = copy->own_frames();
  for (std::uint32_t i = 0; i < frame_count_; ++i) {
    to[i] = from[i];
    if (from[i].owner != nullptr) {
      message::keep(from[i].owner);
    } else if (from[i].data >= inline_bytes_ && from[i].data < inline_bytes_ + kInlineBytes) {
      to[i].data = copy->inline_bytes_ + (from[i].data - inline_bytes_);  // each handle shows its own
    }
  }
  return copy;
}

}  // namespace lwmq
