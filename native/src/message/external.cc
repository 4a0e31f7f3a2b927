#include "message/external.h"

#include <new>

#include "message/block_pool.h"

namespace lwmq::message {
namespace {

static_assert(sizeof(ExternalBytes) <= kBlockBytes);

thread_local HeldReleases* t_innermost = nullptr;

void release(Owner* owner) noexcept {
  HeldReleases held;
  held.hold(reinterpret_cast<ExternalBytes*>(owner));
}

}  // namespace

ExternalBytes* ExternalBytes::create(lwmq_frame_callback callback, void* context) noexcept {
  void* block = take_block();
  return block == nullptr ? nullptr : new (block) ExternalBytes{Owner(release), callback, context};
}

void ExternalBytes::call_back() noexcept {
  const lwmq_frame_callback function = callback;
  void* const its_context = context;
  give_block(this);  // first: the call-back is the application's and may do anything
  function(its_context, LWMQ_FRAME_RELEASE);
}

HeldReleases::HeldReleases() noexcept : outer_(t_innermost) { t_innermost = this; }

HeldReleases::~HeldReleases() {
  while (first_ != nullptr) {
    ExternalBytes* one = first_;
    first_ = one->next;
    if (first_ == nullptr) last_ = &first_;
    if (outer_ != nullptr) {
      outer_->hold(one);
    } else {
      one->call_back();  // here, so that we hold what it causes
    }
  }
  t_innermost = outer_;
}

void HeldReleases::hold(ExternalBytes* bytes) noexcept {
  bytes->next = nullptr;
  *last_ = bytes;
  last_ = &bytes->next;
}

}  // namespace lwmq::message
