// Who connects to whom: a channel never to itself, wherever its threads are held up.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "lwmq/lwmq.h"

namespace {

using namespace std::chrono_literals;

// Whether this thread is held up behind the next descriptor that it has watched.
thread_local bool held_up_once = false;
// Whether it gives back its descriptors slowly.
thread_local bool closes_slowly = false;

}  // namespace

extern "C" int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
  static const auto real = reinterpret_cast<decltype(&epoll_ctl)>(dlsym(RTLD_NEXT, "epoll_ctl"));
  const int result = real(epoll, operation, fd, event);
  if (held_up_once) {
    held_up_once = false;
    std::this_thread::sleep_for(100ms);
  }
  return result;
}

extern "C" int close(int fd) noexcept {
  static const auto real = reinterpret_cast<decltype(&close)>(dlsym(RTLD_NEXT, "close"));
  const int result = real(fd);
  if (closes_slowly) std::this_thread::sleep_for(20ms);
  return result;
}

namespace {

lwmq_channel* made(const std::string& address) {
  lwmq_channel_options options{};
  options.size = sizeof options;
  options.retry_ms = 1;
  lwmq_channel* channel = nullptr;
  EXPECT_EQ(lwmq_channel_create(address.c_str(), &options, &channel), LWMQ_OK) << lwmq_last_error();
  return channel;
}

class Meetings : public ::testing::TestWithParam<const char*> {
 protected:
  const std::string address_ = GetParam() + std::to_string(getpid());
};

// The service thread heard of the client before the channel knew of its own listener, and had it connected to
// itself.
TEST_P(Meetings, AServerThatIsHeldUpWhileItBindsMeetsItsClient) {
  lwmq_channel* client = made(address_);
  lwmq_send_queue* queue = nullptr;
  ASSERT_EQ(lwmq_channel_add_send_queue(client, nullptr, &queue), LWMQ_OK);
  ASSERT_EQ(lwmq_channel_open(client, LWMQ_ROLE_CLIENT), LWMQ_OK) << lwmq_last_error();
  lwmq_channel* server = made(address_);
  held_up_once = true;
  ASSERT_EQ(lwmq_channel_open(server, LWMQ_ROLE_SERVER), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(held_up_once, address_.starts_with("loop"));  // which watches none
  held_up_once = false;
  ASSERT_EQ(lwmq_channel_wait_connected(client, 60000), LWMQ_OK) << lwmq_last_error();
  ASSERT_EQ(lwmq_send_queue_post_bytes(queue, "hello", 5), LWMQ_OK);
  lwmq_message* message = nullptr;
  EXPECT_EQ(lwmq_channel_receive(server, 60000, &message), LWMQ_OK) << lwmq_last_error();
  lwmq_message_destroy(message);
  lwmq_channel_destroy(client);
  lwmq_channel_destroy(server);
}

// Its peer, told of the end, met it a second time at once, and was told of a second end.
TEST_P(Meetings, AServerThatClosesIsMetByNobody) {
  lwmq_channel* server = made(address_);
  lwmq_channel* client = made(address_);
  ASSERT_EQ(lwmq_channel_open(server, LWMQ_ROLE_SERVER), LWMQ_OK) << lwmq_last_error();
  ASSERT_EQ(lwmq_channel_open(client, LWMQ_ROLE_CLIENT), LWMQ_OK) << lwmq_last_error();
  ASSERT_EQ(lwmq_channel_wait_connected(client, 60000), LWMQ_OK) << lwmq_last_error();
  std::thread closing([server] {
    closes_slowly = true;
    EXPECT_EQ(lwmq_channel_close(server, 0), LWMQ_OK) << lwmq_last_error();
    closes_slowly = false;
  });
  lwmq_message* message = nullptr;
  EXPECT_EQ(lwmq_channel_receive(client, 60000, &message), LWMQ_E_CLOSED);
  EXPECT_EQ(lwmq_channel_receive(client, 500, &message), LWMQ_E_TIMED_OUT) << lwmq_last_error();
  closing.join();
  lwmq_channel_destroy(client);
  lwmq_channel_destroy(server);
}

INSTANTIATE_TEST_SUITE_P(Transports, Meetings,
                         ::testing::Values("loop://held-up-", "ipc://held-up-in-test-"));

}  // namespace
