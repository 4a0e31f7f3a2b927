// One client on another host, and its conversation with the endpoint.
//
// To the endpoint a crossing is a client of its own process, over the *near* link; to the client it is the
// endpoint, over the *far* link. Messages pass through as they are, in both directions. Four kinds of
// message name memory, and here the crossing stands in:
//
//   a remote writer   Each window of the writer has a mirror here, a window that this process owns and shows
//                     to the endpoint under the same index. The writer pushes a batch to the same offset and
//                     publishes it; local readers map the mirror. The crossing reads ledger and lease pages
//                     in the writer's place, and tells it which blocks are free.
//   a remote reader   Each window that the endpoint shows has a mirror at the reader. The crossing leases a
//                     batch, pushes it to the same offset, and ends the lease when the reader has let go.
//                     A reader that has asked for certain columns gets the metadata and those alone; the rest
//                     of the block in the mirror keeps whatever it had.
//
// So a block is in use for the same time as on one host, by the same pages, and nothing of the endpoint knows
// that a client is far away.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"
#include "stream/bounds.h"
#include "stream/columns.h"
#include "stream/lap_page.h"
#include "stream/link.h"
#include "stream/window.h"
#include "wire/stream_messages.h"

namespace lwmq::stream {

class Crossing {
 public:
  // Takes both links. `address`: of the carrier, for texts. `near_address`: where the endpoint listens for
  // clients of this host.
  Crossing(std::unique_ptr<Link> far, std::unique_ptr<Link> near, std::string address,
           std::string near_address);
  // Passes on what the endpoint has said last.
  ~Crossing();
  Crossing(const Crossing&) = delete;
  Crossing& operator=(const Crossing&) = delete;

  // Passes on what has come. False: nothing had.
  bool pump();
  // One of the two ends has gone, and the other one has heard of it.
  [[nodiscard]] bool is_over() const noexcept { return is_over_; }
  // Nobody rings when a reader lets go of a block, or the endpoint looks for a window: look again soon.
  [[nodiscard]] bool must_look() const noexcept;
  // As Link::arm, for both.
  [[nodiscard]] std::int32_t arm() noexcept;
  void disarm() noexcept;
  [[nodiscard]] int near_descriptor() noexcept { return near_->descriptor(); }

 private:
  struct Block {
    std::uint32_t slot;
    std::uint32_t lap;
  };
  // The windows of one writer, for a remote reader.
  struct View {
    LapPage leases;
    std::vector<Window> windows;
    std::vector<lwmq_tli_grant> grants;  // by window; of 0 bytes: the reader has not made its mirror yet
  };
  struct Mirror {
    Window window;
    wire::Window record;
    bool is_shown = false;
  };

  bool pump_near();
  bool pump_far();
  [[nodiscard]] bool may_have_freed() const noexcept;
  bool release_freed();
  Status show_mirrors();
  Status from_near(wire::StreamKind kind, const std::string& bytes);
  Status from_far(wire::StreamKind kind, const std::string& bytes);
  Status pass_opened(const std::string& bytes);
  Status pass_declared(const std::string& bytes);
  Status pass_joined(const std::string& bytes);
  Status add_lease_page(const std::string& bytes);
  Status add_view_window(const std::string& bytes);
  Status pass_batch(const std::string& bytes);
  Status pass_join(const std::string& bytes);
  Status pass_open_reader(const std::string& bytes);
  Status add_mirror(const std::string& bytes);
  Status pass_publish(const std::string& bytes);
  Status add_grant(const std::string& bytes);
  Status end_lease(const std::string& bytes);
  void end(Link& gone, Status why);

  const std::unique_ptr<Link> far_;
  const std::unique_ptr<Link> near_;
  const std::string address_;
  const std::string near_address_;
  bool is_over_ = false;

  // A remote writer.
  LapPage ledger_;
  std::vector<LapPage> lease_pages_;
  std::vector<Mirror> mirrors_;  // by index of the window
  std::deque<Block> in_flight_;
  bool wants_room_ = false;  // the writer waits
  bool has_room_ = false;    // and the endpoint has released something
  bool has_news_ = false;    // something has passed since the blocks in flight were looked at
  std::int64_t looked_ns_ = 0;

  // A remote reader.
  Columns columns_;                      // that the reader has asked for
  Filters filters_;                      // which it lets pass
  std::map<std::uint64_t, View> views_;  // by number of the pool
  std::optional<std::string> held_;      // a batch whose mirror is not there yet; what follows waits
};

}  // namespace lwmq::stream
