#include "text/jinja/marked_text.h"

#include "base/error.h"

#include <algorithm>
#include <utility>

namespace ft::text::jinja {

MarkedText::MarkedText(std::string bytes, bool is_trusted)
    : bytes_(std::move(bytes)), starts_trusted_(is_trusted || bytes_.empty()) {}

std::size_t MarkedText::run_at(std::size_t offset) const {
  const auto after = std::upper_bound(borders_.begin(), borders_.end(), offset);
  return static_cast<std::size_t>(after - borders_.begin());
}

bool MarkedText::is_trusted_at(std::size_t offset) const {
  return is_run_trusted(run_at(offset));
}

void MarkedText::append(std::string_view bytes, bool is_trusted) {
  if (bytes.empty()) return;
  if (bytes_.empty()) {
    starts_trusted_ = is_trusted;
  } else if (is_run_trusted(borders_.size()) != is_trusted) {
    FT_CHECK(bytes_.size() <= UINT32_MAX);
    borders_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
  bytes_.append(bytes);
}

void MarkedText::append(const MarkedText& other, std::size_t begin, std::size_t end) {
  const std::string_view source = other.bytes_;
  for (std::size_t run = other.run_at(begin); begin < end; ++run) {
    const std::size_t run_end =
        run < other.borders_.size() ? std::min<std::size_t>(other.borders_[run], end) : end;
    append(source.substr(begin, run_end - begin), other.is_run_trusted(run));
    begin = run_end;
  }
}

void MarkedText::clear() {
  bytes_.clear();
  borders_.clear();
  starts_trusted_ = true;
}

MarkedText MarkedText::slice(std::size_t begin, std::size_t end) const {
  MarkedText out;
  out.append(*this, begin, end);
  return out;
}

std::vector<TextSegment> MarkedText::segments() const {
  std::vector<TextSegment> out;
  std::size_t begin = 0;
  for (std::size_t run = 0; begin < bytes_.size(); ++run) {
    const std::size_t end = run < borders_.size() ? borders_[run] : bytes_.size();
    out.push_back({bytes_.substr(begin, end - begin), is_run_trusted(run)});
    begin = end;
  }
  return out;
}

}  // namespace ft::text::jinja
