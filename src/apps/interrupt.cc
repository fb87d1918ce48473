#include "apps/interrupt.h"

#include <csignal>
#include <cstdlib>
#include <pthread.h>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace ft::apps {
namespace {

sigset_t interrupt_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

[[noreturn]] void end_process(int signal_number) {
  // Neither locks nor buffers: another thread may be in the middle of anything.
  constexpr std::string_view kLine = "foretoken: interrupted\n";
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, kLine.data(), kLine.size());
  std::_Exit(128 + signal_number);
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
    if (was_interrupted_.exchange(true)) end_process(signal_number);
    const std::lock_guard lock(mutex_);
    if (!handler_) end_process(signal_number);
    handler_();
  }
}

}  // namespace ft::apps
