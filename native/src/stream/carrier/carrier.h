// Serves an endpoint's streams at an address of a network: accepts clients there and makes each a client of
// the endpoint (crossing.h). One thread carries for all endpoints of a process
// (service::ServiceThread::carrying), so that no endpoint waits for a network.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"
#include "service/service_thread.h"
#include "stream/carrier/crossing.h"
#include "tli/own_settings.h"

namespace lwmq::stream {

class Carrier final : public service::Served {
 public:
  // Binds `address`, whose provider shares no windows and pushes. The endpoint listens at `near_address`.
  // LWMQ_E_ADDRESS: another process serves the address.
  // `own`: settings for the provider; null: none.
  static Status start(const lwmq_tli_provider* provider, const std::string& address,
                      const tli::OwnSettings* own, const lwmq_tli_provider* near_provider,
                      const std::string& near_address, std::unique_ptr<Carrier>* out_carrier);
  // Passes on what the endpoint has said, and parts from all clients.
  ~Carrier() override;

  // Where clients connect: with the port that the system has chosen.
  [[nodiscard]] std::string address() const;

  std::int64_t serve(std::int64_t now_ns, bool alone) noexcept override;

 private:
  Carrier(const lwmq_tli_provider* provider, lwmq_tli_listener* listener, std::string address,
          const lwmq_tli_provider* near_provider, std::string near_address);

  bool accept();
  bool pump();
  bool fall_asleep();
  void wake_up();
  void forget_over();

  const lwmq_tli_provider* const provider_;
  lwmq_tli_listener* const listener_;
  const std::string address_;
  const lwmq_tli_provider* const near_provider_;
  const std::string near_address_;

  std::vector<std::unique_ptr<Crossing>> crossings_;
  std::map<const Crossing*, int> watched_;  // descriptors of near links
  bool asleep_ = false;                     // every link is armed
};

}  // namespace lwmq::stream
