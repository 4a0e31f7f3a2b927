// A pollable doorbell.
#pragma once

#include "base/status.h"
#include "os/unique_fd.h"

namespace lwmq::os {

Status create_event_fd(UniqueFd* out_fd) noexcept;

// Makes it readable. Any thread, any process that holds it; never waits. A full counter is readable already.
void ring_event_fd(int fd) noexcept;

// Makes it unreadable until the next ring.
void drain_event_fd(int fd) noexcept;

// LWMQ_E_UNSUPPORTED, with a text: /proc is not mounted, without which nobody can say what follows.
Status check_proc() noexcept;

// Whether `fd` could be one: a peer's may be anything, and a write to it must not do harm.
[[nodiscard]] bool is_event_fd(int fd) noexcept;

}  // namespace lwmq::os
