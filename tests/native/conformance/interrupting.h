// Signals that end what a thread waits for.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

namespace lwmq::conformance {

// The thread that makes it gets a signal again and again, which a handler takes, until the end of the scope.
class Interrupting {
 public:
  Interrupting() {
    struct sigaction handled {};
    handled.sa_handler = [](int) {};
    sigaction(SIGUSR1, &handled, &before_);
    thread_ = std::thread([this, interrupted = pthread_self()] {
      while (!over_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        pthread_kill(interrupted, SIGUSR1);
      }
    });
  }
  ~Interrupting() {
    over_ = true;
    thread_.join();
    sigaction(SIGUSR1, &before_, nullptr);
  }
  Interrupting(const Interrupting&) = delete;
  Interrupting& operator=(const Interrupting&) = delete;

 private:
  std::atomic<bool> over_{false};
  struct sigaction before_ {};
  std::thread thread_;
};

}  // namespace lwmq::conformance
