// The program's result on standard output. Everything a person reads goes to standard error
// instead.
#pragma once

#include <string_view>

namespace ft::apps {

class ResultWriter {
 public:
  /// Writes at once, unbuffered. Returns false, now and from now on, when the reader closed the
  /// pipe: no error, but nothing more is worth doing. Throws IoError for anything else, such as a
  /// full disk.
  bool write(std::string_view text);
  bool is_closed() const noexcept { return is_closed_; }

 private:
  bool is_closed_ = false;
};

}  // namespace ft::apps
