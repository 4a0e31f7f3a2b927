// What a program does that no call can answer: it ends, with a text, where that is still known.
#pragma once

namespace lwmq {

// Aborts, behind "lwmq: " and the text.
[[noreturn, gnu::format(printf, 1, 2)]] void misused(const char* format, ...) noexcept;

}  // namespace lwmq
