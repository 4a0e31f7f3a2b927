// Addresses and the options behind them: text that a user or a peer's state may bring. Whatever it is, an
// address or an error; a name that was accepted is within its limits and is found again under its canonical
// form.
#include <string>

#include "base/limits.h"
#include "conversation/settings.h"
#include "filters/filtered.h"
#include "input.h"
#include "lwmq/lwmq_tli.h"
#include "modules/find.h"
#include "os/unix_socket.h"
#include "providers/ipc/address.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace lwmq;
  const std::string text = std::string(reinterpret_cast<const char*>(data), bytes).c_str();
  const lwmq_tli_provider* provider = nullptr;
  if (filters::find(text.c_str(), &provider) == LWMQ_OK) {
    lwmq_limits limits{};
    provider->limits(modules::without_options(text.c_str()).c_str(), &limits);
  }
  conversation::AddressOptions options;
  conversation::read_address_options(text.c_str(), &options);
  // The provider gets what has its scheme; most inputs would not.
  const std::string address = "ipc://" + text;
  ipc::Address parsed;
  if (ipc::parse(address.c_str(), &parsed) != LWMQ_OK) return 0;
  fuzz::require(parsed.socket.size() <= os::kSocketPathBytesMax, "a socket name fits sockaddr_un");
  fuzz::require(parsed.name.size() <= kAddressBytesMax, "a name fits the hello");
  if (parsed.name.empty()) return 0;
  ipc::Address again;
  fuzz::require(ipc::parse(("ipc://" + parsed.name).c_str(), &again) == LWMQ_OK,
                "a canonical name is a name");
  fuzz::require(again.socket == parsed.socket, "a canonical name is the same place");
  return 0;
}
