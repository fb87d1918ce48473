#include "apps/mapped_fault.h"

#include <csignal>
#include <cstdlib>
#include <string_view>
#include <unistd.h>

namespace ft::apps {
namespace {

extern "C" void end_process(int /*signal_number*/) {
  constexpr std::string_view kLine =
      "foretoken: a file of the model cannot be read any more: it was cut short since the start, "
      "or its drive fails; copy it again\n";
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, kLine.data(), kLine.size());
  std::_Exit(1);
}

}  // namespace

void end_on_mapped_fault() {
  std::signal(SIGBUS, end_process);
}

}  // namespace ft::apps
