// What a C program may get wrong: which mistakes end it, with a text, and which are answered by a status.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "lwmq/lwmq.h"

namespace {

struct Handles {
  lwmq_channel* channel = nullptr;
  lwmq_send_queue* queue = nullptr;
  lwmq_message* message = nullptr;

  Handles() {
    EXPECT_EQ(lwmq_channel_create("loop://misuse", nullptr, &channel), LWMQ_OK);
    EXPECT_EQ(lwmq_channel_add_send_queue(channel, nullptr, &queue), LWMQ_OK);
    EXPECT_EQ(lwmq_message_create(0, &message), LWMQ_OK);
    EXPECT_EQ(lwmq_message_append(message, "x", 1), LWMQ_OK);
  }
  ~Handles() {
    lwmq_message_destroy(message);
    lwmq_channel_destroy(channel);
  }
};

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which say so first, in their own words

struct Mistake {
  const char* text;
  std::function<void(Handles&)> make;
};

const void* g_data;
std::uint64_t g_number;

// rows: S12
TEST(Misuse, EndsTheProgramWhereAHandleIsUsedThatIsNoneAnyMore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::vector<Mistake> mistakes = {
      {"lwmq_message_append: this is no message",
       [](Handles& h) { lwmq_message_destroy(h.message), lwmq_message_append(h.message, "y", 1); }},
      {"lwmq_message_destroy: this is no message",
       [](Handles& h) { lwmq_message_destroy(h.message), lwmq_message_destroy(h.message); }},
      {"lwmq_message_frame: this is no message",
       [](Handles& h) {
         lwmq_message_destroy(h.message), lwmq_message_frame(h.message, 0, &g_data, &g_number);
       }},
      {"lwmq_loan_give_back: this is no loan \\(destroyed\\)",
       [](Handles&) {
         lwmq_loan* loan = nullptr;
         lwmq_loan_create(1, &loan), lwmq_loan_destroy(loan), lwmq_loan_give_back(loan);
       }},
      {"lwmq_message_frame_count: this is no message",
       [](Handles& h) { lwmq_message_destroy(h.message), lwmq_message_frame_count(h.message); }},
      {"lwmq_message_timestamp: this is no message",
       [](Handles& h) { lwmq_message_destroy(h.message), lwmq_message_timestamp(h.message, 0, &g_number); }},
      {"lwmq_message_reference: this is no message \\(destroyed, or taken by a post\\)",
       [](Handles& h) {
         lwmq_message* mine = h.message;
         lwmq_message* second = nullptr;
         lwmq_message_destroy(mine), lwmq_message_reference(mine, &second);
       }},
      {"lwmq_send_queue_post: this is no message",
       [](Handles& h) {
         lwmq_message* mine = h.message;
         lwmq_message_destroy(mine), lwmq_send_queue_post(h.queue, &mine);
       }},
      {"lwmq_send_queue_post_messages: this is no message \\(destroyed, or taken by a post\\)",
       [](Handles& h) {
         lwmq_message* both[] = {nullptr, h.message};
         lwmq_message_create(0, &both[0]), lwmq_message_destroy(both[1]);
         lwmq_send_queue_post_messages(h.queue, both, 2, &g_number);
       }},
      {"lwmq_message_append: this is no message",
       [](Handles& h) { lwmq_message_append(reinterpret_cast<lwmq_message*>(h.channel), "y", 1); }},
      {"lwmq_channel_open: this is no channel",
       [](Handles& h) { lwmq_channel_open(reinterpret_cast<lwmq_channel*>(h.queue), LWMQ_ROLE_SERVER); }},
      {"lwmq_channel_destroy: this is no channel",
       [](Handles& h) { lwmq_channel_destroy(h.channel), lwmq_channel_destroy(h.channel); }},
      {"lwmq_channel_flush: this is no channel",
       [](Handles& h) { lwmq_channel_destroy(h.channel), lwmq_channel_flush(h.channel, 0); }},
      {"lwmq_channel_receive_many: this is no channel",
       [](Handles& h) {
         std::uint32_t count = 0;
         lwmq_channel_destroy(h.channel), lwmq_channel_receive_many(h.channel, 1, 0, &h.message, &count);
       }},
      {"lwmq_channel_add_filter: this is no channel",
       [](Handles& h) { lwmq_channel_destroy(h.channel), lwmq_channel_add_filter(h.channel, "trace", 0); }},
      {"lwmq_selector_add: this is no channel",
       [](Handles& h) {
         lwmq_selector* selector = nullptr;
         lwmq_selector_create(&selector);
         lwmq_channel_destroy(h.channel), lwmq_selector_add(selector, h.channel);
       }},
      {"lwmq_router_forget: this is no send queue",
       [](Handles& h) {
         lwmq_router* router = nullptr;
         lwmq_router_create(&router);
         lwmq_channel_destroy(h.channel), lwmq_router_forget(router, h.queue);
       }},
      {"lwmq_selector_wait: this is no selector \\(destroyed\\)",
       [](Handles& h) {
         lwmq_selector* selector = nullptr;
         lwmq_selector_create(&selector), lwmq_selector_destroy(selector);
         lwmq_selector_wait(selector, 0, &h.channel);
       }},
      {"lwmq_selector_destroy: this is no selector",
       [](Handles&) {
         lwmq_selector* selector = nullptr;
         lwmq_selector_create(&selector), lwmq_selector_destroy(selector), lwmq_selector_destroy(selector);
       }},
      {"lwmq_selector_receive: this is no selector",
       [](Handles& h) {
         lwmq_channel* channel = nullptr;
         lwmq_selector_receive(reinterpret_cast<lwmq_selector*>(h.channel), 0, &channel, &h.message);
       }},
      {"lwmq_router_post: this is no router \\(destroyed\\)",
       [](Handles& h) {
         lwmq_router* router = nullptr;
         std::uint32_t queues = 0;
         lwmq_router_create(&router), lwmq_router_destroy(router);
         lwmq_router_post(router, &h.message, &queues);
       }},
      {"lwmq_router_destroy: this is no router",
       [](Handles&) {
         lwmq_router* router = nullptr;
         lwmq_router_create(&router), lwmq_router_destroy(router), lwmq_router_destroy(router);
       }},
      {"lwmq_requests_next: this is no requests \\(destroyed\\)",
       [](Handles& h) {
         lwmq_requests* requests = nullptr;
         lwmq_requests_create(h.channel, nullptr, &requests), lwmq_requests_destroy(requests);
         lwmq_requests_next(requests, 0, &g_number, &h.message);
       }},
      {"lwmq_requests_create: this is no channel",
       [](Handles& h) {
         lwmq_requests* requests = nullptr;
         lwmq_channel_destroy(h.channel), lwmq_requests_create(h.channel, nullptr, &requests);
       }},
      {"lwmq_observer_look: this is no observer \\(destroyed\\)",
       [](Handles&) {
         lwmq_observer* observer = nullptr;
         lwmq_observer_create(&observer), lwmq_observer_destroy(observer);
         lwmq_observer_look(observer, &g_number);
       }},
      {"lwmq_endpoint_close: this is no endpoint \\(closed\\)",
       [](Handles&) {
         lwmq_endpoint* endpoint = nullptr;
         lwmq_endpoint_open("loop://misused-stream", &endpoint);
         lwmq_endpoint_close(endpoint, 0), lwmq_endpoint_close(endpoint, 0);
       }},
      {"lwmq_endpoint_drain: this is no endpoint \\(closed\\)",
       [](Handles&) {
         lwmq_endpoint* endpoint = nullptr;
         lwmq_endpoint_open("loop://misused-stream", &endpoint);
         lwmq_endpoint_close(endpoint, 0), lwmq_endpoint_drain(endpoint, 0);
       }},
      {"lwmq_reader_close: this is no reader \\(closed\\)",
       [](Handles&) {
         lwmq_reader* reader = nullptr;
         lwmq_reader_options options{};
         options.size = sizeof options;
         options.role = LWMQ_ROLE_SERVER;
         lwmq_reader_open("loop://misused-stream", &options, &reader);
         lwmq_reader_close(reader, 0), lwmq_reader_close(reader, 0);
       }},
      {"lwmq_writer_abort: this is no writer \\(destroyed\\)",
       [](Handles&) {
         lwmq_writer* writer = nullptr;
         lwmq_writer_options options{};
         options.size = sizeof options;
         options.role = LWMQ_ROLE_SERVER;
         lwmq_writer_open("loop://misused-stream", "schema", 6, &options, &writer);
         lwmq_writer_destroy(writer), lwmq_writer_abort(writer, nullptr);
       }},
      {"lwmq_send_queue_post_bytes: this is no send queue",
       [](Handles& h) { lwmq_channel_destroy(h.channel), lwmq_send_queue_post_bytes(h.queue, "y", 1); }},
  };
  for (const Mistake& mistake : mistakes) {
    EXPECT_DEATH(
        {
          Handles handles;
          mistake.make(handles);
        },
        mistake.text);
  }
}

#endif

// rows: S12
TEST(Misuse, AnswersWhatAnyCallerMayRunIntoWithAStatusAndAText) {
  Handles h;
  lwmq_message* nothing = nullptr;
  const void* data = nullptr;
  std::uint64_t bytes = 0;
  const std::vector<std::pair<lwmq_status, std::function<lwmq_status()>>> table = {
      {LWMQ_E_INVALID, [&] { return lwmq_message_create(0, nullptr); }},
      {LWMQ_E_INVALID, [&] { return lwmq_message_append(nullptr, "x", 1); }},
      {LWMQ_E_INVALID, [&] { return lwmq_message_append(h.message, nullptr, 1); }},
      {LWMQ_E_INVALID, [&] { return lwmq_message_append_external(h.message, "x", 1, nullptr, nullptr); }},
      {LWMQ_E_INVALID, [&] { return lwmq_message_frame(h.message, 1, &data, &bytes); }},
      {LWMQ_E_INVALID, [&] { return lwmq_message_set_timestamp(h.message, 0, 7, 0); }},
      {LWMQ_E_INVALID, [&] { return lwmq_send_queue_post(h.queue, &nothing); }},
      {LWMQ_E_INVALID, [&] { return lwmq_send_queue_post(nullptr, &h.message); }},
      {LWMQ_E_INVALID, [&] { return lwmq_channel_receive(h.channel, 0, &nothing); }},  // not open yet
      {LWMQ_E_INVALID, [&] { return lwmq_channel_open(h.channel, 9); }},
      {LWMQ_E_INVALID, [&] { return lwmq_channel_flush(nullptr, 0); }},
      {LWMQ_OK, [&] { return lwmq_channel_open(h.channel, LWMQ_ROLE_SERVER); }},
      {LWMQ_E_INVALID, [&] { return lwmq_channel_open(h.channel, LWMQ_ROLE_SERVER); }},
      {LWMQ_E_EMPTY, [&] { return lwmq_channel_receive(h.channel, 0, &nothing); }},
      {LWMQ_OK, [&] { return lwmq_channel_close(h.channel, 0); }},
      {LWMQ_E_CLOSED, [&] { return lwmq_channel_close(h.channel, 0); }},
      {LWMQ_E_CLOSED, [&] { return lwmq_send_queue_post(h.queue, &h.message); }},
      {LWMQ_E_CLOSED, [&] { return lwmq_send_queue_post_bytes(h.queue, "x", 1); }},
      {LWMQ_E_CLOSED, [&] { return lwmq_channel_receive(h.channel, 0, &nothing); }},
  };
  for (std::size_t i = 0; i < table.size(); ++i) {
    const lwmq_status status = table[i].second();
    EXPECT_EQ(status, table[i].first) << "call " << i << ": " << lwmq_last_error();
    EXPECT_TRUE(status < LWMQ_E_INVALID || *lwmq_last_error() != '\0') << "call " << i;
  }
  EXPECT_NE(h.message, nullptr) << "what was refused is still ours";
  lwmq_message_destroy(nullptr);
  lwmq_channel_destroy(nullptr);
  EXPECT_EQ(lwmq_message_frame_count(nullptr), 0u);
}

}  // namespace
