// The C face of observers.
#include <memory>
#include <new>

#include "abi/memory.h"
#include "abi/misuse.h"
#include "abi/options.h"
#include "base/handle_mark.h"
#include "base/status.h"
#include "lwmq/lwmq.h"
#include "stats/observer.h"

using lwmq::fail;
using lwmq::stats::Observer;

struct lwmq_observer {
  Observer observer;
  lwmq::HandleMark mark;
};

namespace {

void check_alive(const lwmq_observer* observer, const char* function) noexcept {
  lwmq::abi::require_alive(observer->mark.is_alive(), function, "observer (destroyed)");
}

const lwmq::stats::SeenProcess* find(const lwmq_observer* observer, uint64_t process) noexcept {
  const auto& seen = observer->observer.processes();
  return process < seen.size() ? &seen[process] : nullptr;
}

}  // namespace

extern "C" {

lwmq_status lwmq_observer_create(lwmq_observer** out_observer) {
  if (out_observer == nullptr) return fail(LWMQ_E_INVALID, "lwmq_observer_create: out_observer is NULL");
  *out_observer = new (std::nothrow) lwmq_observer;
  return *out_observer != nullptr ? LWMQ_OK : fail(LWMQ_E_NO_MEMORY, "no memory for an observer");
}

lwmq_status lwmq_observer_look(lwmq_observer* observer, uint64_t* out_process_count) {
  if (observer == nullptr || out_process_count == nullptr)
    return fail(LWMQ_E_INVALID, "lwmq_observer_look: an argument is NULL");
  check_alive(observer, __func__);
  const lwmq_status status = lwmq::abi::or_no_memory(__func__, [&] { return observer->observer.look(); });
  if (status == LWMQ_OK) *out_process_count = observer->observer.processes().size();
  return status;
}

lwmq_status lwmq_observer_process(const lwmq_observer* observer, uint64_t process,
                                  lwmq_process_view* out_view) {
  LWMQ_SIZED(out_view);
  if (observer == nullptr || out_view == nullptr)
    return fail(LWMQ_E_INVALID, "lwmq_observer_process: an argument is NULL");
  check_alive(observer, __func__);
  const auto* seen = find(observer, process);
  if (seen == nullptr)
    return fail(LWMQ_E_INVALID, "process %" PRIu64 " of %zu that were found", process,
                observer->observer.processes().size());
  lwmq::abi::write_output(seen->view, out_view);
  return LWMQ_OK;
}

lwmq_status lwmq_observer_entry(const lwmq_observer* observer, uint64_t process, uint64_t entry,
                                lwmq_entry_view* out_view) {
  LWMQ_SIZED(out_view);
  if (observer == nullptr || out_view == nullptr)
    return fail(LWMQ_E_INVALID, "lwmq_observer_entry: an argument is NULL");
  check_alive(observer, __func__);
  const auto* seen = find(observer, process);
  if (seen == nullptr || entry >= seen->entries.size())
    return fail(LWMQ_E_INVALID, "entry %" PRIu64 " of process %" PRIu64 ": there is none", entry, process);
  lwmq::abi::write_output(seen->entries[entry], out_view);
  return LWMQ_OK;
}

lwmq_status lwmq_counter_at(uint32_t index, lwmq_counter* out_counter) {
  LWMQ_SIZED(out_counter);
  if (out_counter == nullptr) return fail(LWMQ_E_INVALID, "lwmq_counter_at: out_counter is NULL");
  lwmq_counter found{};
  if (!lwmq::stats::counter_at(index, &found)) return LWMQ_E_EMPTY;
  lwmq::abi::write_output(found, out_counter);
  return LWMQ_OK;
}

void lwmq_observer_destroy(lwmq_observer* observer) {
  if (observer == nullptr) return;
  check_alive(observer, __func__);
  delete observer;
}

}  // extern "C"
