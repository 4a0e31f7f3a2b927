// A routing table: the content of a message decides which send queues it goes to.
//
// A route has a pattern for one frame of the message: the first frame is its topic, the others are its
// headers. Patterns follow AMQP 0-9-1 topic exchanges: words between dots, `*` is one word, `#` any number of
// words. A message that matches goes to the route's queue, and only once if several of the queue's routes
// match. Of the routes that share a group, one gets the message, in turns. A turn passes over a queue whose
// peer is not there, and over a bounded queue that is full (fair load-balancing).
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
  // Removes every route to this queue.
  void forget(const ChannelQueue* queue) noexcept;
  // Removes the routes to all queues of a channel that is about to be destroyed, from every router.
  static void forget_everywhere(const Channel* channel);

  // Any thread, one at a time. Takes the message if a queue has taken it. LWMQ_E_EMPTY: no route matches.
  // LWMQ_E_FULL: no queue of a group has room. *out_count queues have it, whatever the status.
  Status post(Message* message, std::uint32_t* out_count);

 private:
  struct Group {
    std::uint64_t turns = 0;
    std::unordered_map<const ChannelQueue*, std::uint64_t> last_turn;  // 0: no turn yet
    std::vector<ChannelQueue*> matched;                                // for the message that is being posted
  };
  struct Target {
    ChannelQueue* queue;
    std::shared_ptr<Group> group;  // null: none
    bool operator==(const Target&) const = default;
  };
  // A node of the patterns for one frame: patterns that begin with the words on the way here.
  struct Node {
    std::map<std::string, std::unique_ptr<Node>, std::less<>> next;  // by word, `*` and `#` among them
    std::vector<Target> ends;
    bool stays = false;  // reached by `#`: any further word leads here again
  };

  static Status split(const char* pattern, std::vector<std::string_view>* out_words);
  static Node* next_of(const Node& node, std::string_view word);
  void reach(const Node* node);
  void match(const Node& table);
  Status post_matched(Message* message, std::uint32_t* out_count);
  Status post_one(Message* message, ChannelQueue* queue, bool may_discard) noexcept;
  Status post_to_group(Message* message, Group& group);
  template <typename Condition>
  void forget_if(Condition&& holds) noexcept;
  void forget_matched() noexcept;
  void drop_unused_groups() noexcept;

  std::mutex mutex_;  // guards what follows
  std::map<std::uint32_t, Node> tables_;
  std::map<std::string, std::shared_ptr<Group>, std::less<>> groups_;
  // For the message that is being posted. They keep their memory.
  std::vector<std::string_view> words_;
  std::vector<const Node*> reached_;
  std::vector<const Node*> before_;
  std::vector<ChannelQueue*> matched_;
  std::vector<Group*> matched_groups_;
  HandleMark mark_;
  LiveObject<Router> live_{this};  // last: an object on the list is complete
};

}  // namespace lwmq::patterns
