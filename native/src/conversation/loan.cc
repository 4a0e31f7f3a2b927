#include "conversation/loan.h"

#include <new>

#include "os/identity.h"

namespace lwmq::conversation {

Loan* Loan::create(std::uint32_t limit) noexcept {
  std::unique_ptr<Loan> made(new (std::nothrow) Loan(limit));
  if (made == nullptr) return nullptr;
  made->entries_.reset(new (std::nothrow) lwmq_lent[limit]);
  made->messages_.reset(new (std::nothrow) Message*[limit]);
  return made->entries_ != nullptr && made->messages_ != nullptr ? made.release() : nullptr;
}

void Loan::Run::give_back() noexcept {
  if (!os::forked()) fast->release_run(transport, token, count);
}

void Loan::note_messages(std::uint32_t count) noexcept {
  for (std::uint32_t i = 0; i < count; ++i) {
    Message* message = messages_[messages_count_++];
    const Frame none{nullptr, 0, nullptr};
    const Frame& first = message->frame_count() > 0 ? message->frames()[0] : none;
    entries_[count_++] = {first.data, first.bytes, reinterpret_cast<lwmq_message*>(message)};
  }
}

// A call-back may give back the same loan.
[[gnu::noinline]] void Loan::destroy_messages() noexcept {
  while (messages_count_ > 0) Message::destroy(messages_[--messages_count_]);
}

}  // namespace lwmq::conversation
