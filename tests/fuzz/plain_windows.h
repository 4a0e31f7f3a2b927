// Windows that are memory of this process alone: for a pool of windows that is tested without a transport.
#pragma once

#include <cstdint>
#include <vector>

#include "lwmq/lwmq_tli.h"

struct lwmq_tli_window {
  std::vector<std::uint8_t> memory;
  int references = 1;
};

namespace lwmq::fuzz {

// The part of a provider that makes, shows and releases windows. Owners of these windows never die.
inline lwmq_tli_provider plain_windows() {
  static constexpr lwmq_tli_memory_table kMemory = {
      .create = [](std::uint64_t bytes, lwmq_tli_window** out_window) -> lwmq_status {
        *out_window = new lwmq_tli_window{std::vector<std::uint8_t>(bytes)};
        return LWMQ_OK;
      },
      .export_to = nullptr,
      .find = nullptr,
      .info =
          [](const lwmq_tli_window* window, lwmq_tli_window_info* out_info) {
            *out_info = lwmq_tli_window_info{};
            out_info->base = const_cast<std::uint8_t*>(window->memory.data());
            out_info->bytes = window->memory.size();
          },
      .owner_alive = [](const lwmq_tli_window*) -> std::int32_t { return 1; },
      .keep = [](lwmq_tli_window* window) { ++window->references; },
      .release =
          [](lwmq_tli_window* window) {
            if (--window->references == 0) delete window;
          },
      .pin = nullptr,
      .unpin = nullptr,
      .grant = nullptr,
      .revoke = nullptr,
      .push = nullptr,
      .reap = nullptr,
  };
  lwmq_tli_provider table{};
  table.memory = &kMemory;
  return table;
}

}  // namespace lwmq::fuzz
