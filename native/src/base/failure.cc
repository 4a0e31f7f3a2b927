#include "base/failure.h"

#include <cstring>
#include <new>

namespace lwmq {

void Failure::keep(Status status) noexcept {
  status_ = status;
  tag_ = 0;
  text_.reset();
  if (!is_failure(status)) return;
  tag_ = error_tag();
  const std::size_t bytes = std::strlen(last_error()) + 1;
  text_.reset(new (std::nothrow) char[bytes]);
  if (text_ != nullptr) std::memcpy(text_.get(), last_error(), bytes);
}

Status Failure::tell() const noexcept {
  if (!is_failure(status_)) return status_;
  fail(status_, "%s", text());
  set_error_tag(tag_);
  return status_;
}

const char* Failure::text() const noexcept {
  if (text_ != nullptr) return text_.get();
  return is_failure(status_) ? "no memory was left for what this failure said" : "";
}

}  // namespace lwmq
