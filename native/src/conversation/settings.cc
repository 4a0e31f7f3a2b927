#include "conversation/settings.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <utility>

#include "address/options.h"
#include "base/limits.h"
#include "filters/filtered.h"
#include "message/message.h"
#include "modules/find.h"
#include "tli/registry.h"
#include "wire/message_header.h"

namespace lwmq::conversation {
namespace {

constexpr std::uint64_t kDefaultBufferBytes = 64 * kKiB;
constexpr std::uint32_t kDefaultBuffers = 32;
constexpr std::uint32_t kDefaultRetryMs = 100;

// The first that is not 0.
template <typename T>
T first_said(std::initializer_list<std::type_identity_t<T>> values) noexcept {
  const auto* said = std::find_if(values.begin(), values.end(), [](T value) { return value != 0; });
  return said == values.end() ? 0 : *said;
}

// Of what a peer in this process has handed over and nobody landed.
void drop_extent(const void* data, std::uint64_t bytes, std::uint32_t kind) {
  Message* message = nullptr;
  if (kind != static_cast<std::uint32_t>(wire::ExtentKind::kPassed) || bytes != sizeof message) return;
  std::memcpy(&message, data, sizeof message);
  Message::destroy(message);
}

std::uint32_t milliseconds(std::uint64_t ns) noexcept {
  constexpr std::uint64_t kMillisecondNs = 1'000'000;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(ns / kMillisecondNs, 1, UINT32_MAX));
}

Status check_receive_queue(const lwmq_channel_options& given, const char* address) noexcept {
  const std::uint32_t kind = given.receive_queue;
  const bool bounded = kind == LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST || kind == LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST;
  if (!bounded && kind != LWMQ_QUEUE_MONO_UNBOUNDED && kind != LWMQ_QUEUE_MULTI_UNBOUNDED) {
    return fail(LWMQ_E_INVALID,
                "there is no kind %u of receive queue; there are mono and multi unbounded, bounded discard "
                "oldest and newest (%u, %u, %u, %u; %s)",
                kind, LWMQ_QUEUE_MONO_UNBOUNDED, LWMQ_QUEUE_MULTI_UNBOUNDED,
                LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST, LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST, address);
  }
  if (bounded != (given.receive_capacity != 0)) {
    return fail(LWMQ_E_INVALID,
                bounded ? "capacity %" PRIu64
                          " of a bounded receive queue; say how many messages it may hold (%s)"
                        : "capacity %" PRIu64
                          " of an unbounded receive queue; leave it 0, or take a bounded kind (%s)",
                given.receive_capacity, address);
  }
  if (kind != LWMQ_QUEUE_MONO_UNBOUNDED && given.raw != 0)
    return fail(LWMQ_E_INVALID,
                "a raw channel has no receive queue: its buffers are received as they lie (%s)", address);
  return LWMQ_OK;
}

void note_value(const address::AddressOption& option, std::shared_ptr<ProviderValues>* values) {
  if (*values == nullptr) *values = std::make_shared<ProviderValues>();
  auto& [texts, said] = **values;
  const lwmq_setting* const first = option.setting - option.place;
  while (first[texts.size()].key != nullptr) texts.emplace_back();
  said.resize(texts.size());
  const auto place = static_cast<std::size_t>(option.place);
  texts[place] = option.text;
  said[place] = {texts[place].c_str(), option.value};
}

}  // namespace

Status read_address_options(const char* address, AddressOptions* out_options) {
  AddressOptions& said = *out_options;
  const std::pair<std::string_view, std::uint64_t*> numbers[] = {{"buffer_bytes", &said.buffer_bytes},
                                                                 {"buffers", &said.buffers},
                                                                 {"buffers_send", &said.buffers_send},
                                                                 {"buffers_receive", &said.buffers_receive}};
  for (std::uint32_t i = 0;; ++i) {
    address::AddressOption option;
    const Status status = address::read_option(address, LWMQ_TAKEN_BY_TRANSPORT, i, &option);
    if (status == LWMQ_E_EMPTY) return LWMQ_OK;
    if (status != LWMQ_OK) return status;
    if (option.place >= 0) {
      note_value(option, &said.values);
      continue;
    }
    const std::string_view key = option.setting->key;
    for (const auto& [known, number] : numbers) {
      if (key == known) *number = option.value;
    }
    if (key == "retry") said.retry_ms = milliseconds(option.value);
  }
}

Status read_settings(const char* address, const lwmq_channel_options& given, Settings* out_settings) {
  const lwmq_tli_provider* provider = nullptr;
  Status status = filters::find(address, &provider);
  if (status != LWMQ_OK) return status;
  AddressOptions said;
  status = read_address_options(address, &said);
  if (status != LWMQ_OK) return status;
  const std::string bare = modules::without_options(address);
  lwmq_limits limits{};
  limits.size = sizeof limits;
  status = tli::limits(*provider, bare.c_str(), &limits);
  if (status != LWMQ_OK) return status;

  lwmq_tli_options wanted{};
  wanted.size = sizeof wanted;
  wanted.buffer_bytes = first_said<std::uint64_t>(
      {given.buffer_bytes, said.buffer_bytes, std::min(kDefaultBufferBytes, limits.buffer_bytes_max)});
  wanted.buffers_send = static_cast<std::uint32_t>(
      first_said<std::uint64_t>({given.buffers_send, said.buffers_send, said.buffers,
                                 std::min<std::uint64_t>(kDefaultBuffers, limits.buffers_max)}));
  wanted.buffers_receive = static_cast<std::uint32_t>(first_said<std::uint64_t>(
      {given.buffers_receive, said.buffers_receive, said.buffers}));  // 0: what the peer makes
  wanted.secure_erase = given.secure_erase != 0 ? 1 : 0;
  const bool passes = given.raw == 0 && (limits.capabilities & LWMQ_IS_IN_PROCESS) != 0;
  wanted.drop = passes ? drop_extent : nullptr;
  wanted.values = said.values != nullptr ? said.values->values.data() : nullptr;
  wanted.purpose = given.raw != 0 ? LWMQ_TLI_FOR_RAW : LWMQ_TLI_FOR_MESSAGES;
  if (wanted.buffer_bytes < kBufferBytesMin || wanted.buffer_bytes > limits.buffer_bytes_max) {
    return fail(LWMQ_E_INVALID, "buffers of %" PRIu64 " bytes; %" PRIu64 " to %" PRIu64 " are possible (%s)",
                wanted.buffer_bytes, kBufferBytesMin, limits.buffer_bytes_max, bare.c_str());
  }
  if (given.secure_erase != 0 && (limits.capabilities & LWMQ_CAN_ERASE) == 0)
    return fail(LWMQ_E_UNSUPPORTED, "this transport cannot erase its buffers (%s)", bare.c_str());
  const std::uint64_t buffers = std::uint64_t{wanted.buffers_send} + wanted.buffers_receive;
  if (buffers > limits.buffers_max) {
    return fail(LWMQ_E_INVALID,
                "%" PRIu64 " buffers (%u to send and %u to receive); %" PRIu64 " are possible (%s)", buffers,
                wanted.buffers_send, wanted.buffers_receive, limits.buffers_max, bare.c_str());
  }

  std::shared_ptr<filters::Filters> filters;
  status = filters::make_filters(bare.c_str(), &filters);
  if (status != LWMQ_OK) return status;
  status = check_receive_queue(given, bare.c_str());
  if (status != LWMQ_OK) return status;

  out_settings->provider = provider;
  out_settings->address = bare;
  out_settings->transport = wanted;
  out_settings->values = std::move(said.values);
  out_settings->filters = std::move(filters);
  out_settings->retry_ms = first_said<std::uint32_t>({given.retry_ms, said.retry_ms, kDefaultRetryMs});
  out_settings->raw = given.raw != 0;
  out_settings->one_way = (limits.capabilities & LWMQ_IS_ONE_WAY) != 0;
  out_settings->passes = passes;
  out_settings->home_thread = given.home_thread != 0;
  out_settings->receive_queue = given.receive_queue;
  out_settings->receive_capacity = given.receive_capacity;
  return LWMQ_OK;
}

}  // namespace lwmq::conversation
