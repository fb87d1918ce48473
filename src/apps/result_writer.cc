#include "apps/result_writer.h"

#include "base/error.h"

#include <cerrno>
#include <system_error>
#include <unistd.h>

namespace ft::apps {

bool ResultWriter::write(std::string_view text) {
  while (!text.empty() && !is_closed_) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EPIPE) {
      is_closed_ = true;
    } else if (errno != EINTR) {
      throw IoError("cannot write to standard output: " + std::generic_category().message(errno));
    }
  }
  return !is_closed_;
}

}  // namespace ft::apps
