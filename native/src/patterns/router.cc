#include "patterns/router.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "message/external.h"

namespace lwmq::patterns {
namespace {

constexpr std::size_t kWordsMax = 32;  // of a pattern
constexpr std::string_view kOne = "*";
constexpr std::string_view kAny = "#";

void words_of(std::string_view text, std::vector<std::string_view>* out_words) {
  out_words->clear();
  if (text.empty()) return;  // no words, of which `#` is some and `*` is none
  for (std::size_t at = 0;;) {
    const std::size_t dot = text.find('.', at);
    out_words->push_back(text.substr(at, dot - at));
    if (dot == std::string_view::npos) return;
    at = dot + 1;
  }
}

template <typename Element>
void add_once(std::vector<Element>* elements, Element element) {
  if (std::find(elements->begin(), elements->end(), element) == elements->end()) elements->push_back(element);
}

}  // namespace

// ---- The table --------------------------------------------------------------------------------------

Status Router::split(const char* pattern, std::vector<std::string_view>* out_words) {
  words_of(pattern, out_words);
  if (out_words->size() > kWordsMax)
    return fail(LWMQ_E_INVALID, "pattern '%.80s' has %zu words; up to %zu are possible", pattern,
                out_words->size(), kWordsMax);
  for (const std::string_view word : *out_words) {
    if (word.size() > 1 && word.find_first_of("*#") != std::string_view::npos)
      return fail(LWMQ_E_INVALID,
                  "pattern '%.80s' has the word '%.*s': * and # stand for whole words, between dots", pattern,
                  static_cast<int>(word.size()), word.data());
  }
  return LWMQ_OK;
}

Status Router::add(std::uint32_t frame, const char* pattern, const char* group, ChannelQueue* queue) {
  std::vector<std::string_view> words;
  const Status status = split(pattern, &words);
  if (status != LWMQ_OK) return status;
  const std::string_view name = group != nullptr ? group : "";
  if (!name.empty() && queue->replica != nullptr)
    return fail(
        LWMQ_E_UNSUPPORTED,
        "group '%.80s' of pattern '%.80s': the queue is of a channel with several transports, each of "
        "which has room of its own: route to it without a group",
        group, pattern);
  const std::lock_guard lock(mutex_);
  Node* node = &tables_[frame];
  for (const std::string_view word : words) {
    auto& next = node->next[std::string(word)];
    if (next == nullptr) next = std::make_unique<Node>();
    node = next.get();
    node->stays = word == kAny;
  }
  Target target{queue, nullptr};
  if (!name.empty()) {
    const auto known = groups_.find(name);
    target.group = known != groups_.end() ? known->second : std::make_shared<Group>();
    if (known == groups_.end()) groups_.emplace(name, target.group);
  }
  if (std::find(node->ends.begin(), node->ends.end(), target) != node->ends.end())
    return fail(LWMQ_E_INVALID, "pattern '%.80s' for frame %u leads to this queue already (%s)", pattern,
                frame, queue->channel->address().c_str());
  node->ends.push_back(std::move(target));
  return LWMQ_OK;
}

Status Router::remove(std::uint32_t frame, const char* pattern, const char* group, ChannelQueue* queue) {
  std::vector<std::string_view> words;
  const Status status = split(pattern, &words);
  if (status != LWMQ_OK) return status;
  const std::string_view name = group != nullptr ? group : "";
  const std::lock_guard lock(mutex_);
  const auto known = groups_.find(name);
  Target target{queue, known != groups_.end() ? known->second : nullptr};
  const auto table = tables_.find(frame);
  Node* node = table == tables_.end() ? nullptr : &table->second;
  std::vector<Node*> way;
  for (const std::string_view word : words) {
    if (node == nullptr) break;
    way.push_back(node);
    node = next_of(*node, word);
  }
  if (node == nullptr || (!name.empty() && target.group == nullptr) || std::erase(node->ends, target) == 0)
    return fail(LWMQ_E_INVALID, "no pattern '%.80s' for frame %u leads to this queue (%s)", pattern, frame,
                queue->channel->address().c_str());
  for (std::size_t i = words.size(); i > 0 && node->ends.empty() && node->next.empty(); --i) {
    node = way[i - 1];
    node->next.erase(node->next.find(words[i - 1]));
  }
  target.group.reset();
  drop_unused_groups();
  return LWMQ_OK;
}

void Router::forget(const ChannelQueue* queue) noexcept {
  forget_all([queue](const ChannelQueue* one) { return one == queue; });
}

void Router::forget(const Channel* channel) noexcept {
  forget_all([channel](const ChannelQueue* one) { return one->channel == channel; });
}

template <typename IsMeant>
void Router::forget_all(IsMeant&& is_meant) noexcept {
  const std::lock_guard lock(mutex_);
  const auto forget_in = [&is_meant](auto& self, Node& node) -> bool {
    std::erase_if(node.ends, [&is_meant](const Target& target) { return is_meant(target.queue); });
    std::erase_if(node.next, [&self](auto& next) { return self(self, *next.second); });
    return node.ends.empty() && node.next.empty();
  };
  for (auto& [frame, table] : tables_) forget_in(forget_in, table);
  for (auto& [name, group] : groups_)
    std::erase_if(group->last_turn, [&is_meant](const auto& turn) { return is_meant(turn.first); });
  drop_unused_groups();
}

void Router::forget_matched() noexcept {
  matched_.clear();
  for (Group* group : matched_groups_) group->matched.clear();
  matched_groups_.clear();
}

void Router::drop_unused_groups() noexcept {
  forget_matched();
  std::erase_if(groups_, [](const auto& group) { return group.second.use_count() == 1; });
}

// ---- Posting ----------------------------------------------------------------------------------------

// Where the words so far may have led: to `node`, and past every `#` that stands for none.
void Router::reach(const Node* node) {
  for (; node != nullptr; node = next_of(*node, kAny)) {
    if (std::find(reached_.begin(), reached_.end(), node) != reached_.end()) return;
    reached_.push_back(node);
  }
}

// All ways at once, word by word: what a topic costs grows with its words and with the patterns it may match.
void Router::match(const Node& table) {
  reached_.clear();
  reach(&table);
  for (const std::string_view word : words_) {
    before_.swap(reached_);
    reached_.clear();
    for (const Node* node : before_) {
      if (node->stays) reach(node);
      if (word != kOne && word != kAny) reach(next_of(*node, word));
      reach(next_of(*node, kOne));
    }
    if (reached_.empty()) return;
  }
  for (const Node* node : reached_) {
    for (const Target& target : node->ends) {
      if (target.group != nullptr) {
        add_once(&matched_groups_, target.group.get());
        target.group->last_turn.try_emplace(target.queue, 0);
      }
      add_once(target.group != nullptr ? &target.group->matched : &matched_, target.queue);
    }
  }
}

Router::Node* Router::next_of(const Node& node, std::string_view word) {
  const auto next = node.next.find(word);
  return next == node.next.end() ? nullptr : next->second.get();
}

Status Router::post(Message* message, std::uint32_t* out_count) {
  const Status status = post_matched(message, out_count);
  if (*out_count > 0) Message::destroy(message);
  return status;
}

Status Router::post_matched(Message* message, std::uint32_t* out_count) {
  *out_count = 0;
  const message::HeldReleases held;
  const std::lock_guard lock(mutex_);
  forget_matched();
  for (const auto& [frame, table] : tables_) {
    if (frame >= message->frame_count()) continue;
    const Frame& text = message->frames()[frame];
    words_of({reinterpret_cast<const char*>(text.data), text.bytes}, &words_);
    match(table);
  }
  if (matched_.empty() && matched_groups_.empty()) return LWMQ_E_EMPTY;
  Status outcome = LWMQ_OK;  // nothing below needs memory but the messages do
  char text[512] = "";       // of the first that failed
  const auto note = [&](Status status) {
    if (status == LWMQ_OK) {
      ++*out_count;
    } else if (outcome == LWMQ_OK) {
      outcome = status;
      std::snprintf(text, sizeof text, "%s", is_failure(status) ? last_error() : "");
    }
  };
  for (ChannelQueue* queue : matched_) note(post_one(message, queue, true));
  for (Group* group : matched_groups_) note(post_to_group(message, *group));
  return text[0] == '\0' ? outcome : fail(outcome, "%s", text);
}

// The queue gets a handle of its own on the same frames.
Status Router::post_one(Message* message, ChannelQueue* queue, bool may_discard) noexcept {
  if (queue->conversation->erases())
    message->erase_when_destroyed();  // what is inside it is inside each handle
  Message* reference = message->reference();
  if (reference == nullptr) return fail(LWMQ_E_NO_MEMORY, "no memory for a message");
  const Status status =
      may_discard ? Channel::post(queue, reference, 0) : Channel::post_wait(queue, reference, 0, 0, false);
  if (status != LWMQ_OK) Message::destroy(reference);
  return status;
}

// Of those that match, whoever has waited longest for a turn: which others there are may change with each
// message.
Status Router::post_to_group(Message* message, Group& group) {
  std::vector<ChannelQueue*>& members = group.matched;
  const auto has_waited_longer = [&group](const ChannelQueue* one, const ChannelQueue* other) {
    return group.last_turn.find(one)->second < group.last_turn.find(other)->second;
  };
  // Who has no peer gets it where nobody has one.
  auto end = std::partition(members.begin(), members.end(),
                            [](const ChannelQueue* member) { return member->channel->has_peer(); });
  if (end == members.begin()) end = members.end();
  Status status = LWMQ_OK;
  for (auto next = members.begin(); next != end; ++next) {
    std::iter_swap(next, std::min_element(next, end, has_waited_longer));
    status = post_one(message, *next, false);
    if (status != LWMQ_OK) continue;
    group.last_turn.find(*next)->second = ++group.turns;
    return LWMQ_OK;
  }
  return status == LWMQ_E_FULL ? fail(LWMQ_E_FULL, "none of %zu queues of a group has room", members.size())
                               : status;
}

}  // namespace lwmq::patterns
