// The C face of what belongs to no half: outcomes, identity, limits, statistics.
#include "lwmq/lwmq.h"

#include <unistd.h>

#include "abi/memory.h"
#include "abi/options.h"
#include "address/options.h"
#include "base/limits.h"
#include "base/status.h"
#include "base/values.h"
#include "filters/filtered.h"
#include "modules/find.h"
#include "os/identity.h"
#include "os/memory_budget.h"
#include "os/thread.h"
#include "stats/process_counters.h"
#include "tli/registry.h"

using lwmq::fail;

extern "C" {

const char* lwmq_last_error(void) { return lwmq::last_error(); }

uint64_t lwmq_last_end(void) { return lwmq::error_tag(); }

const char* lwmq_status_name(int32_t status) { return lwmq::status_name(status); }

const char* lwmq_version(void) { return lwmq::kLibraryVersion; }

uint32_t lwmq_protocol_version(void) { return lwmq::kProtocolVersion; }

lwmq_status lwmq_identify(lwmq_identity* out_identity) {
  LWMQ_SIZED(out_identity);
  if (out_identity == nullptr) return fail(LWMQ_E_INVALID, "lwmq_identify: out_identity is NULL");
  lwmq_identity identity = lwmq::os::identity();
  identity.uid = geteuid();
  lwmq::abi::write_output(identity, out_identity);
  return LWMQ_OK;
}

const char* lwmq_provider_name(uint32_t index) {
  const lwmq_tli_provider* provider = lwmq::modules::provider_at(index);
  return provider == nullptr ? nullptr : provider->name;
}

const char* lwmq_filter_name(uint32_t index) {
  const lwmq_tli_filter* filter = lwmq::modules::filter_at(index);
  return filter == nullptr ? nullptr : filter->name;
}

const char* lwmq_filter_help(uint32_t index) {
  const lwmq_tli_filter* filter = lwmq::modules::filter_at(index);
  return filter == nullptr ? nullptr : filter->help;
}

lwmq_status lwmq_query_limits(const char* address, lwmq_limits* out_limits) {
  LWMQ_SIZED(out_limits);
  if (address == nullptr || out_limits == nullptr)
    return fail(LWMQ_E_INVALID, "lwmq_query_limits: an argument is NULL");
  const lwmq_tli_provider* provider = nullptr;
  lwmq_status status = lwmq::filters::find(address, &provider);
  if (status != LWMQ_OK) return status;
  lwmq_limits limits{};
  status = lwmq::abi::or_no_memory(__func__, [&] {
    return lwmq::tli::limits(*provider, lwmq::modules::without_options(address).c_str(), &limits);
  });
  if (status != LWMQ_OK) return status;
  limits.frames_max = lwmq::kFramesMax;
  limits.inline_bytes_max = lwmq::kInlineBytesMax;
  lwmq::abi::write_output(limits, out_limits);
  return LWMQ_OK;
}

lwmq_status lwmq_read_value(uint32_t kind, const char* words, const char* text, uint64_t* out_value) {
  if (text == nullptr || out_value == nullptr)
    return fail(LWMQ_E_INVALID, "%s: an argument is NULL", __func__);
  return lwmq::read_value(kind, words, text, out_value);
}

int32_t lwmq_nearest_word(const char* text, const char* words) {
  if (text == nullptr || words == nullptr) return -1;
  return static_cast<int32_t>(lwmq::find_word(lwmq::nearest_word(text, words), words));
}

lwmq_status lwmq_query_setting(uint32_t index, lwmq_setting* out_setting) {
  LWMQ_SIZED(out_setting);
  const lwmq_setting* setting = lwmq::address::setting_at(index);
  if (setting == nullptr || out_setting == nullptr)
    return fail(LWMQ_E_INVALID, "%s: there is no setting %u, or no place for it", __func__, index);
  lwmq::abi::write_output(*setting, out_setting);
  return LWMQ_OK;
}

lwmq_status lwmq_read_setting(const char* key, const char* text, uint64_t* out_value) {
  if (key == nullptr || text == nullptr || out_value == nullptr)
    return fail(LWMQ_E_INVALID, "%s: an argument is NULL", __func__);
  const lwmq_setting* setting = lwmq::address::find_setting(key);
  if (setting == nullptr) return fail(LWMQ_E_INVALID, "%s: there is no setting '%s'", __func__, key);
  return lwmq::address::read_setting(*setting, text, out_value);
}

lwmq_status lwmq_read_address_option(const char* address, uint32_t taken_by, uint32_t index,
                                     lwmq_address_option* out_option) {
  LWMQ_SIZED(out_option);
  if (address == nullptr || out_option == nullptr)
    return fail(LWMQ_E_INVALID, "%s: an argument is NULL", __func__);
  lwmq::address::AddressOption found;
  const lwmq_status status = lwmq::abi::or_no_memory(
      __func__, [&] { return lwmq::address::read_option(address, taken_by, index, &found); });
  if (status != LWMQ_OK) return status;
  const lwmq_address_option option{sizeof(lwmq_address_option), found.setting->key, found.text.data(),
                                   found.text.size(), found.value};
  lwmq::abi::write_output(option, out_option);
  return LWMQ_OK;
}

lwmq_status lwmq_query_statistics(lwmq_statistics* out_statistics) {
  LWMQ_SIZED(out_statistics);
  if (out_statistics == nullptr) return fail(LWMQ_E_INVALID, "lwmq_query_statistics: out_statistics is NULL");
  const auto& counters = lwmq::stats::process();
  lwmq_statistics statistics{};
#define LWMQ_READ_COUNTER(name, ...) statistics.name = lwmq::stats::get(counters.name);
  LWMQ_PROCESS_COUNTERS(LWMQ_READ_COUNTER)
  lwmq::abi::write_output(statistics, out_statistics);
  return LWMQ_OK;
}

lwmq_status lwmq_set_service_affinity(const uint32_t* processors, uint32_t count) {
  if (lwmq::os::forked()) return lwmq::fail(LWMQ_E_CLOSED, "forked: the threads are the parent's");
  if (processors == nullptr && count != 0)
    return lwmq::fail(LWMQ_E_INVALID, "%s: an argument is NULL that must not be", __func__);
  return lwmq::os::set_affinity(processors, count);
}

lwmq_status lwmq_set_window_memory(uint64_t bytes_max) {
  lwmq::os::set_window_memory(bytes_max);
  return LWMQ_OK;
}

}  // extern "C"
