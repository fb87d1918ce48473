#include "apps/sizes.h"

#include "base/error.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace ft::apps {
namespace {

[[noreturn]] void refuse(std::string_view text, std::string_view option) {
  fail("{} is {}, expected a size such as 4096, 500M, 1.5G or 64Ki", option, in_quotes(text));
}

std::optional<double> multiplier(std::string_view suffix) {
  if (suffix.ends_with('B')) suffix.remove_suffix(1);
  if (suffix.empty()) return 1;
  constexpr std::string_view kLetters = "KMGT";
  const std::size_t power = kLetters.find(suffix[0]);
  if (power == std::string_view::npos) return std::nullopt;
  if (suffix.size() == 1) return std::pow(1000.0, static_cast<double>(power + 1));
  if (suffix.substr(1) == "i") return std::pow(1024.0, static_cast<double>(power + 1));
  return std::nullopt;
}

}  // namespace

std::uint64_t parse_size(std::string_view text, std::string_view option) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !(number >= 0)) refuse(text, option);
  const std::optional<double> unit =
      multiplier(text.substr(static_cast<std::size_t>(end - text.data())));
  constexpr double kLimit = 9.2e18;  // below 2^63
  if (!unit || !(number * *unit < kLimit)) refuse(text, option);
  return static_cast<std::uint64_t>(std::llround(number * *unit));
}

std::string format_size(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  auto number = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (number >= 999.5 && unit + 1 < kUnits.size()) {
    number /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.3g} {}", number, kUnits[unit]);
}

}  // namespace ft::apps
