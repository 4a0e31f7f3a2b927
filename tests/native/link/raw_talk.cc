// A program on the transport layer alone: lists the providers that were linked, then moves a few bytes at
// each address that it is given. Linked by test_link.py in different company.
#include <cstdio>
#include <cstring>

#include "filters/filtered.h"
#include "lwmq/lwmq_tli.h"
#include "modules/find.h"
#include "tli/registry.h"

namespace {

bool talk(const char* address) {
  const lwmq_tli_provider* tli = nullptr;
  if (lwmq::filters::find(address, &tli) != LWMQ_OK) {
    std::printf("%s: %s\n", address, lwmq::last_error());
    return false;
  }
  lwmq_tli_options options{};
  options.size = sizeof options;
  options.buffer_bytes = 1024;
  options.buffers_send = 1;
  options.purpose = LWMQ_TLI_FOR_RAW;
  lwmq_tli_listener* listener = nullptr;
  lwmq_tli_transport* ends[2] = {};
  lwmq_tli_buffer buffer{};
  lwmq_tli_extent extent{};
  if (tli->listener->listen(address, &options, &listener) != LWMQ_OK) return false;
  if (lwmq::tli::connect(*tli, address, options, 60000, &ends[0]) != LWMQ_OK) return false;
  if (tli->listener->accept(listener, &ends[1]) != LWMQ_OK) return false;
  if (tli->transport->acquire(ends[0], &buffer) != LWMQ_OK) return false;
  std::memcpy(buffer.next, "raw bytes", 9);
  if (tli->transport->show(ends[0], &buffer, 9, 0) != LWMQ_OK ||
      tli->transport->ship(ends[0], &buffer) != LWMQ_OK)
    return false;
  if (tli->transport->land(ends[1], &extent) != LWMQ_OK) return false;
  std::printf("%s: %.*s\n", address, static_cast<int>(extent.bytes),
              reinterpret_cast<const char*>(extent.data));
  tli->transport->release(ends[1], &extent);
  for (auto* end : ends) tli->transport->close(end, 0, 0);
  tli->listener->close(listener);
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  std::printf("providers:");
  for (std::uint32_t i = 0; const auto* provider = lwmq::modules::provider_at(i); ++i)
    std::printf(" %s", provider->name);
  std::printf("\n");
  bool all = true;
  for (int i = 1; i < count; ++i) all = talk(arguments[i]) && all;
  return all ? 0 : 1;
}
