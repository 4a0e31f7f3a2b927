// Reading a stream: batches in place in their writers' windows, leased until the application releases them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/handle_mark.h"
#include "base/status.h"
#include "lwmq/lwmq.h"
#include "stats/waiting.h"
#include "stream/client.h"

namespace lwmq::stream {

// One writer's windows as a reader sees them, and the page on which it leases their blocks. Shared by the
// reader and the batches it has lent: the last of them unmaps.
struct PoolView {
  std::vector<Window> windows;
  LapPage page;  // we write, the writer reads
  std::uint64_t window_bytes = 0;
  std::uint32_t pid = 0;
  bool keeps_mapped = false;  // lwmq_reader_options
  std::atomic<std::uint64_t> leased_bytes{0};
  std::atomic<std::uint64_t> leased_batches{0};
  std::shared_ptr<stats::Entry> entry;  // the reader's, for as long as its batches are held

  PoolView() = default;
  PoolView(const PoolView&) = delete;
  PoolView& operator=(const PoolView&) = delete;
  ~PoolView();
};

struct Pending {
  std::shared_ptr<PoolView> view;
  wire::Batch batch{};
};

}  // namespace lwmq::stream

struct lwmq_batch {
  std::shared_ptr<lwmq::stream::PoolView> view;
  lwmq_batch_info info{};
  std::uint32_t slot = 0;
  std::unique_ptr<std::uint8_t, void (*)(void*)> copy{nullptr, nullptr};
  lwmq::HandleMark mark;
};

struct lwmq_reader {
  lwmq::stream::Reach reach;
  std::string address;
  std::string generation;
  std::string schema;
  bool declared = false;
  bool follows = false;
  bool keeps_mapped = false;
  std::uint32_t credit = 0;  // how many batches the endpoint may hand over ahead of their use
  std::map<std::uint64_t, std::shared_ptr<lwmq::stream::PoolView>>
      views;                                  // by the endpoint's number of the pool
  std::deque<lwmq::stream::Pending> pending;  // handed over and not yet lent
  bool has_current = false;                   // lent and not yet moved past
  lwmq::wire::Consumed current{};
  lwmq_status final_status = LWMQ_OK;  // LWMQ_E_END or a failure, after what is pending
  std::string final_text;
  bool endpoint_is_lost = false;  // so there is nobody to tell, and nothing more will come
  lwmq_reader_statistics statistics{};
  std::shared_ptr<lwmq::stats::Entry> entry;  // what others see of it
  lwmq::stats::Waiting waiting;
  lwmq::HandleMark mark;
};

namespace lwmq::stream {

Status open_reader(const char* address, const lwmq_reader_options& options,
                   std::unique_ptr<lwmq_reader>* out_reader);
Status await_schema(lwmq_reader& reader, std::uint32_t timeout_ms);
Status wait(lwmq_reader& reader, std::uint32_t timeout_ms);
Status next(lwmq_reader& reader, std::uint32_t timeout_ms, lwmq_batch** out_batch);
Status consume(lwmq_reader& reader);
void release(lwmq_batch* batch);
Status close(lwmq_reader& reader, std::uint32_t linger_ms);
void abandon(lwmq_reader& reader);

}  // namespace lwmq::stream
