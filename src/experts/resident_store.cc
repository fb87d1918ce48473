#include "experts/resident_store.h"

#include "base/error.h"

#include <numeric>

namespace ft::experts {
namespace {

class ResidentLease final : public ExpertLease::State {
 public:
  ResidentLease(const std::vector<Expert>& experts, std::span<const std::uint32_t> wanted)
      : experts_(experts), wanted_(wanted.begin(), wanted.end()), indexes_(wanted.size()) {
    for (const std::uint32_t expert : wanted_) FT_CHECK(expert < experts_.size());
    std::iota(indexes_.begin(), indexes_.end(), 0U);
  }

  bool would_wait() const noexcept override { return false; }
  std::span<const std::uint32_t> next(std::stop_token) override {
    const std::size_t first = is_returned_ ? indexes_.size() : 0;
    is_returned_ = true;
    return std::span(indexes_).subspan(first);
  }
  const Expert& expert(std::uint32_t index) const noexcept override {
    return experts_[wanted_[index]];
  }

 private:
  const std::vector<Expert>& experts_;
  std::vector<std::uint32_t> wanted_;
  std::vector<std::uint32_t> indexes_;
  bool is_returned_ = false;
};

}  // namespace

ExpertLease ResidentStore::acquire(std::size_t layer, std::span<const std::uint32_t> experts) {
  FT_CHECK(layer < layers_.size());
  return ExpertLease(std::make_unique<ResidentLease>(layers_[layer], experts));
}

}  // namespace ft::experts
