// Text that knows of each byte whether it came from the template (trusted) or from the request.
// Every string operation of the engine builds its result from pieces of MarkedText, so a mark is
// never lost and never invented.
#pragma once

#include "text/tokenizer.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ft::text::jinja {

class MarkedText {
 public:
  MarkedText() = default;
  MarkedText(std::string bytes, bool is_trusted);

  const std::string& bytes() const noexcept { return bytes_; }
  std::size_t size() const noexcept { return bytes_.size(); }
  bool empty() const noexcept { return bytes_.empty(); }

  /// Mark of the byte at `offset` < size(). O(log runs).
  bool is_trusted_at(std::size_t offset) const;
  /// True if no byte is untrusted.
  bool is_all_trusted() const noexcept { return starts_trusted_ && borders_.empty(); }
  /// Stretches of equal trust.
  std::size_t n_runs() const noexcept { return bytes_.empty() ? 0 : borders_.size() + 1; }

  void append(std::string_view bytes, bool is_trusted);
  void append(const MarkedText& other) { append(other, 0, other.size()); }
  /// Bytes [begin, end) of `other`, which must be another object.
  void append(const MarkedText& other, std::size_t begin, std::size_t end);
  void clear();

  /// Bytes [begin, end) with their marks.
  MarkedText slice(std::size_t begin, std::size_t end) const;
  /// One segment per run.
  std::vector<TextSegment> segments() const;

 private:
  /// Index of the run that holds byte `offset`.
  std::size_t run_at(std::size_t offset) const;
  bool is_run_trusted(std::size_t run) const noexcept { return (run % 2 == 0) == starts_trusted_; }

  std::string bytes_;
  bool starts_trusted_ = true;          // mark of the first run
  std::vector<std::uint32_t> borders_;  // where a new run begins; marks alternate from run to run
};

}  // namespace ft::text::jinja
