// Hit rates of the residency policies on made-up routing: build/bench/policy_sim prints the table
// of docs/streaming.md. Deterministic; takes a minute.
//
// Routing: experts of a layer are drawn by Zipf's law (exponent 0: all alike) in an order of their
// own per layer; some are taken over from the token before, as many as make consecutive tokens
// share 41 %, the figure reported for GLM-5.2. "Drift" exchanges a tenth of every layer's order
// each 100 tokens. The first third of the tokens is not counted.
#include "experts/slot_pool.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace {

using namespace ft;           // NOLINT(google-build-using-namespace): a program of one file
using namespace ft::experts;  // NOLINT(google-build-using-namespace)

constexpr std::size_t kLayers = 24;
constexpr std::size_t kExpertsPerLayer = 256;
constexpr std::size_t kTopK = 8;
constexpr std::size_t kTokens = 1500;
constexpr double kSharedWithLast = 0.41;

/// The one used least over the long run goes first. Lost, so it lives here.
class HeatPolicy final : public ResidencyPolicy {
 public:
  std::string_view name() const noexcept override { return "heat"; }
  void rate(const ExpertUsage& usage,
            std::span<const ExpertId> residents,
            std::span<double> worth) const noexcept override {
    for (std::size_t i = 0; i < residents.size(); ++i) {
      if (residents[i] != kNoExpert) worth[i] = usage.heat(residents[i]);
    }
  }
};

using Choice = std::array<std::uint32_t, kTopK>;  // of one layer, ascending
using Routing = std::vector<std::array<Choice, kLayers>>;

struct Skew {
  std::string_view name;
  double exponent;
  bool has_drift;
};

class Router {
 public:
  Router(const Skew& skew, double taken_over) : skew_(skew), taken_over_(taken_over) {
    double sum = 0;
    for (std::size_t rank = 1; rank <= kExpertsPerLayer; ++rank) {
      sum += std::pow(static_cast<double>(rank), -skew.exponent);
      cumulated_.push_back(sum);
    }
    for (auto& order : orders_) {
      order.resize(kExpertsPerLayer);
      std::iota(order.begin(), order.end(), 0U);
      for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_() % i]);
    }
  }

  Routing route(std::size_t n_tokens) {
    Routing routing(n_tokens);
    for (std::size_t t = 0; t < n_tokens; ++t) {
      if (skew_.has_drift && t % 100 == 99) drift();
      for (std::size_t layer = 0; layer < kLayers; ++layer) {
        routing[t][layer] = choose(layer, t == 0 ? nullptr : &routing[t - 1][layer]);
      }
    }
    return routing;
  }

 private:
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  std::uint32_t draw(std::size_t layer) {
    const auto at =
        std::upper_bound(cumulated_.begin(), cumulated_.end(), uniform() * cumulated_.back());
    return orders_[layer][static_cast<std::size_t>(at - cumulated_.begin()) % kExpertsPerLayer];
  }
  Choice choose(std::size_t layer, const Choice* last) {
    Choice choice{};
    for (std::size_t i = 0; i < kTopK;) {
      const bool takes_over = last != nullptr && uniform() < taken_over_;
      const std::uint32_t expert = takes_over ? (*last)[random_() % kTopK] : draw(layer);
      const auto end = choice.begin() + static_cast<std::ptrdiff_t>(i);
      if (std::find(choice.begin(), end, expert) == end) choice[i++] = expert;
    }
    std::sort(choice.begin(), choice.end());
    return choice;
  }
  void drift() {
    for (auto& order : orders_) {
      for (std::size_t i = 0; i < kExpertsPerLayer / 20; ++i) {
        std::swap(order[random_() % kExpertsPerLayer], order[random_() % kExpertsPerLayer]);
      }
    }
  }

  Skew skew_;
  double taken_over_;
  std::mt19937_64 random_{1};
  std::vector<double> cumulated_;
  std::array<std::vector<std::uint32_t>, kLayers> orders_;
};

double shared_with_last(const Routing& routing) {
  std::size_t n_shared = 0;
  for (std::size_t t = 1; t < routing.size(); ++t) {
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      const Choice& last = routing[t - 1][layer];
      for (const std::uint32_t expert : routing[t][layer]) {
        n_shared += std::binary_search(last.begin(), last.end(), expert) ? 1U : 0U;
      }
    }
  }
  return static_cast<double>(n_shared) /
         static_cast<double>((routing.size() - 1) * kLayers * kTopK);
}

/// How often to take over an expert so that consecutive tokens share as many as they should.
double calibrate(const Skew& skew) {
  double low = 0;
  double high = 0.9;
  for (int i = 0; i < 12; ++i) {
    const double middle = (low + high) / 2;
    (shared_with_last(Router(skew, middle).route(60)) < kSharedWithLast ? low : high) = middle;
  }
  return low;
}

double hit_rate(const Routing& routing, std::size_t n_slots, const ResidencyPolicy& policy) {
  constexpr std::size_t kExperts = kLayers * kExpertsPerLayer;
  SlotPool pool({}, n_slots, n_slots, kExperts);  // no memory: nothing is read
  ExpertUsage usage(kExperts);
  std::size_t n_hits = 0;
  std::size_t n_asked = 0;
  std::vector<std::uint32_t> held;
  std::vector<ExpertId> missing;
  std::vector<std::uint32_t> taken;
  for (std::size_t t = 0; t < routing.size(); ++t) {
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      held.clear();
      missing.clear();
      taken.clear();
      for (const std::uint32_t expert : routing[t][layer]) {
        const auto id = static_cast<ExpertId>(layer * kExpertsPerLayer + expert);
        usage.used(id);
        if (pool.slot_of(id) == kNoSlot) {
          missing.push_back(id);
        } else {
          held.push_back(pool.slot_of(id));
          pool.hold(held.back());
        }
      }
      if (t >= routing.size() / 3) {
        n_asked += kTopK;
        n_hits += held.size();
      }
      usage.reached(static_cast<ExpertId>((layer + 1) * kExpertsPerLayer));
      pool.take(missing.size(), policy, usage, taken);
      for (std::size_t i = 0; i < taken.size(); ++i) {
        pool.start_loading(taken[i], missing[i], experts::Guess::kNone);
        pool.loaded(taken[i], {});
      }
      for (const std::uint32_t slot : held) pool.release(slot);
    }
    usage.end_pass();
  }
  return static_cast<double>(n_hits) / static_cast<double>(n_asked);
}

}  // namespace

int main() {
  constexpr std::array<Skew, 5> kSkews = {{{"flat", 0, false},
                                           {"Zipf 0.5", 0.5, false},
                                           {"Zipf 0.8", 0.8, false},
                                           {"Zipf 0.8, drift", 0.8, true},
                                           {"Zipf 1.1", 1.1, false}}};
  const HeatPolicy heat;
  const auto lru = make_residency_policy(PolicyKind::kLru);
  const auto likelihood = make_residency_policy(PolicyKind::kLikelihood);
  const std::array<const ResidencyPolicy*, 3> policies = {lru.get(), &heat, likelihood.get()};
  constexpr std::array<double, 8> kPercents = {1.5, 2.5, 3.5, 5, 10, 20, 40, 80};
  fmt::print("| routing | policy | 1.5 % | 2.5 % | 3.5 % | 5 % | 10 % | 20 % | 40 % | 80 % |\n");
  fmt::print("|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Skew& skew : kSkews) {
    const Routing routing = Router(skew, calibrate(skew)).route(kTokens);
    for (const ResidencyPolicy* policy : policies) {
      fmt::print("| {} ({:.0f} % shared) | {} |",
                 skew.name,
                 100 * shared_with_last(routing),
                 policy->name());
      for (const double percent : kPercents) {
        const double n_slots = static_cast<double>(kLayers * kExpertsPerLayer) * percent / 100;
        fmt::print(" {:.1f} |",
                   100 * hit_rate(routing, static_cast<std::size_t>(n_slots), *policy));
      }
      fmt::print("\n");
    }
  }
  return 0;
}
