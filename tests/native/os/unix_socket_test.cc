// links: base os
#include "os/unix_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "os/event_fd.h"

namespace lwmq::os {
namespace {

class UnixSocketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    name_ = "lwmq-test/" + std::to_string(getpid());
    ASSERT_EQ(listen_unix(name_, &listener_), LWMQ_OK) << last_error();
    ASSERT_EQ(connect_unix(name_, &client_), LWMQ_OK) << last_error();
    ASSERT_EQ(accept_unix(listener_.get(), &server_), LWMQ_OK) << last_error();
  }

  std::string name_;
  UniqueFd listener_;
  UniqueFd client_;
  UniqueFd server_;
};

TEST_F(UnixSocketTest, SaysWhoIsThereAndWhoIsNot) {
  UniqueFd other;
  EXPECT_EQ(listen_unix(name_, &other), LWMQ_E_ADDRESS);
  EXPECT_EQ(accept_unix(listener_.get(), &other), LWMQ_E_EMPTY);
  EXPECT_EQ(connect_unix(name_ + "/nobody", &other), LWMQ_E_EMPTY);
  PeerCredentials credentials;
  ASSERT_EQ(peer_credentials(server_.get(), &credentials), LWMQ_OK);
  EXPECT_EQ(credentials.pid, static_cast<std::uint32_t>(getpid()));
  EXPECT_EQ(credentials.uid, geteuid());
  EXPECT_TRUE(credentials.same_user);
}

TEST_F(UnixSocketTest, CarriesWholeMessagesAndDescriptors) {
  UniqueFd event;
  ASSERT_EQ(create_event_fd(&event), LWMQ_OK);
  const int fds[] = {event.get()};
  ASSERT_EQ(send_message(client_.get(), "one", 3, fds, 1), LWMQ_OK);
  ASSERT_EQ(send_message(client_.get(), "three", 5, nullptr, 0), LWMQ_OK);
  char room[16];
  Received received;
  ASSERT_EQ(receive_message(server_.get(), room, sizeof room, &received), LWMQ_OK);
  EXPECT_EQ(std::string(room, received.bytes), "one");
  ASSERT_EQ(received.fd_count, 1U);
  EXPECT_TRUE(is_event_fd(received.fds[0].get()));
  EXPECT_FALSE(is_event_fd(server_.get()));
  ASSERT_EQ(receive_message(server_.get(), room, sizeof room, &received), LWMQ_OK);
  EXPECT_EQ(std::string(room, received.bytes), "three");
  EXPECT_EQ(receive_message(server_.get(), room, sizeof room, &received), LWMQ_E_EMPTY);
}

TEST_F(UnixSocketTest, RefusesWhatIsTooLongOrCarriesTooManyDescriptors) {
  char room[4];
  Received received;
  ASSERT_EQ(send_message(client_.get(), "longer", 6, nullptr, 0), LWMQ_OK);
  EXPECT_EQ(receive_message(server_.get(), room, sizeof room, &received), LWMQ_E_CORRUPT);

  char control[CMSG_SPACE(6 * sizeof(int))] = {};
  char byte = 'x';
  iovec piece{&byte, 1};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(6 * sizeof(int));
  for (int i = 0; i < 6; ++i) reinterpret_cast<int*>(CMSG_DATA(header))[i] = 0;
  ASSERT_EQ(sendmsg(client_.get(), &message, 0), 1);
  EXPECT_EQ(receive_message(server_.get(), room, sizeof room, &received), LWMQ_E_CORRUPT);
  EXPECT_EQ(received.fd_count, 0U);
}

TEST_F(UnixSocketTest, FullAndHungUpAreAnswers) {
  const std::string text(4096, 'x');
  Status status = LWMQ_OK;
  while (status == LWMQ_OK) status = send_message(client_.get(), text.data(), text.size(), nullptr, 0);
  EXPECT_EQ(status, LWMQ_E_FULL);
  EXPECT_EQ(poll_socket(client_.get(), true, 10), LWMQ_E_TIMED_OUT);
  server_.reset();
  EXPECT_EQ(send_message(client_.get(), "x", 1, nullptr, 0), LWMQ_E_PEER_LOST);
  char room[16];
  Received received;
  EXPECT_EQ(receive_message(client_.get(), room, sizeof room, &received), LWMQ_E_PEER_LOST);
}

// A refusal that was sent without a look at what the other side said first.
TEST_F(UnixSocketTest, WhatWasSaidBeforeAResetIsHeard) {
  ASSERT_EQ(send_message(client_.get(), "hello", 5, nullptr, 0), LWMQ_OK);
  ASSERT_EQ(send_message(server_.get(), "no", 2, nullptr, 0), LWMQ_OK);
  server_.reset();
  char room[16];
  Received received;
  ASSERT_EQ(receive_message(client_.get(), room, sizeof room, &received), LWMQ_OK) << last_error();
  EXPECT_EQ(std::string(room, received.bytes), "no");
  EXPECT_EQ(receive_message(client_.get(), room, sizeof room, &received), LWMQ_E_PEER_LOST);
}

}  // namespace
}  // namespace lwmq::os
