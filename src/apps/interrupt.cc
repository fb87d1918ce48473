#include "apps/interrupt.h"

#include <csignal>
#include <cstdlib>
#include <pthread.h>
#include <utility>

namespace ft::apps {
namespace {

constexpr int kInterruptedStatus = 130;

sigset_t interrupt_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

InterruptWatcher::InterruptWatcher() {
  const sigset_t set = interrupt_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { watch(); });
}

InterruptWatcher::~InterruptWatcher() {
  is_closing_ = true;
  pthread_kill(thread_.native_handle(), SIGINT);  // ends the wait of watch()
  thread_.join();
}

void InterruptWatcher::set_handler(std::function<void()> handler) {
  const std::lock_guard lock(mutex_);
  handler_ = std::move(handler);
}

void InterruptWatcher::watch() {
  const sigset_t set = interrupt_set();
  while (true) {
    int signal_number = 0;
    if (sigwait(&set, &signal_number) != 0 || is_closing_) return;
    if (was_interrupted_.exchange(true)) std::_Exit(kInterruptedStatus);
    const std::lock_guard lock(mutex_);
    if (!handler_) std::_Exit(kInterruptedStatus);
    handler_();
  }
}

}  // namespace ft::apps
