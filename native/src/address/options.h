// The settings that there are, and those that an address brings:
// `scheme://name?buffer_bytes=4MiB&retry=250ms`.
//
// One table says for each key of which kind its values are, in which bounds, and what takes it; a provider
// may have a table of its own for its addresses. The core itself takes those of LWMQ_TAKEN_BY_TRANSPORT from
// an address; Python and Spark take more, with what they read here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "lwmq/lwmq.h"

namespace lwmq::address {

// The n-th setting; null after the last.
const lwmq_setting* setting_at(std::uint32_t index) noexcept;
const lwmq_setting* find_setting(std::string_view key) noexcept;

// Reads a value of `setting`. LWMQ_E_INVALID: the text says what is wrong with the value, and the bounds.
Status read_setting(const lwmq_setting& setting, std::string_view text, std::uint64_t* out_value) noexcept;

struct AddressOption {
  const lwmq_setting* setting = nullptr;
  std::string_view text;  // of its value, in the address
  std::uint64_t value = 0;
  std::int32_t place = -1;  // among the settings of the address's provider; -1: it is one of all addresses
};

// The n-th option of `address`. LWMQ_E_EMPTY behind the last. LWMQ_E_ADDRESS: no address, several in one
// text, or an option that is unknown, has no value or a wrong one, is given twice, or is none of those that
// `taken_by` takes.
Status read_option(const char* address, std::uint32_t taken_by, std::uint32_t index,
                   AddressOption* out_option);

// The address of a stream: where its endpoint listens, and which of the streams there it is. Without a name:
// the only one.
struct StreamAddress {
  std::string endpoint;
  std::string stream;

  [[nodiscard]] std::string text() const {
    return stream.empty() ? endpoint : endpoint + "?stream=" + stream;
  }
};

// Takes the address of a stream apart. LWMQ_E_ADDRESS as above, and for every option but `stream`: Python and
// Spark read the others.
Status split_stream(const char* address, StreamAddress* out_address);
// 1 to kStreamNameBytesMax letters, digits, '.', '_' and '-'.
bool is_stream_name(std::string_view name) noexcept;

}  // namespace lwmq::address
