// A routing table: which send queues a message goes to, by what it says of itself.
//
// A route has a pattern for one frame of the message (the first is its topic; others are its headers), in the
// words of AMQP 0-9-1 topic exchanges: words between dots, `*` is one word, `#` any number. What matches goes
// to the route's queue, once, however many of its routes match without a group; of the routes that share a
// group it goes to one, in turns, passing over those whose peer is not there and those whose bounded queue is
// full (fair load-balancing).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/handle_mark.h"
#include "base/status.h"
#include "channel/channel.h"
#include "patterns/live_objects.h"

namespace lwmq::patterns {

using channel::Channel;
using channel::ChannelQueue;

class Router {
 public:
  [[nodiscard]] bool is_alive() const noexcept { return mark_.is_alive(); }

  // Any thread. LWMQ_E_INVALID: a malformed pattern, or the route is there already.
  Status add(std::uint32_t frame, const char* pattern, const char* group, ChannelQueue* queue);
  // LWMQ_E_INVALID: there is no such route.
  Status remove(std::uint32_t frame, const char* pattern, const char* group, ChannelQueue* queue);
  // Every route to this queue.
  void forget(const ChannelQueue* queue) noexcept;
  // Every route of every router to a queue of this channel, which is about to be destroyed.
  static void forget_everywhere(const Channel* channel) {
    LiveObject<Router>::for_each([channel](Router& router) { router.forget(channel); });
  }

  // Any thread, one at a time. Takes the message where some queue has taken it; LWMQ_E_EMPTY: no route
  // matches. LWMQ_E_FULL: of a group no queue has room. *out_count queues have it, whatever the status.
  Status post(Message* message, std::uint32_t* out_count);

 private:
  void forget(const Channel* channel) noexcept;
  template <typename IsMeant>
  void forget_all(IsMeant&& is_meant) noexcept;

  struct Group {
    std::uint64_t turns = 0;
    std::unordered_map<const ChannelQueue*, std::uint64_t> last_turn;  // 0: it had none
    std::vector<ChannelQueue*> matched;                                // of the message that is posted
  };
  struct Target {
    ChannelQueue* queue;
    std::shared_ptr<Group> group;  // null: none
    bool operator==(const Target&) const = default;
  };
  // Of the patterns for one frame: those that begin with the words on the way here.
  struct Node {
    std::map<std::string, std::unique_ptr<Node>, std::less<>> next;  // by word, `*` and `#` among them
    std::vector<Target> ends;
    bool stays = false;  // reached by `#`: any word leads here again
  };

  static Status split(const char* pattern, std::vector<std::string_view>* out_words);
  static Node* next_of(const Node& node, std::string_view word);
  void reach(const Node* node);
  void match(const Node& table);
  Status post_matched(Message* message, std::uint32_t* out_count);
  Status post_one(Message* message, ChannelQueue* queue, bool may_discard) noexcept;
  Status post_to_group(Message* message, Group& group);
  void forget_matched() noexcept;
  void drop_unused_groups() noexcept;

  std::mutex mutex_;  // guards what follows
  std::map<std::uint32_t, Node> tables_;
  std::map<std::string, std::shared_ptr<Group>, std::less<>> groups_;
  // Of the message that is posted; they keep their memory.
  std::vector<std::string_view> words_;
  std::vector<const Node*> reached_;
  std::vector<const Node*> before_;
  std::vector<ChannelQueue*> matched_;
  std::vector<Group*> matched_groups_;
  HandleMark mark_;
  LiveObject<Router> live_{this};  // last: whoever finds us there finds us whole
};

}  // namespace lwmq::patterns
