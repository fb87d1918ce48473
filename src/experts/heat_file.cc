#include "experts/heat_file.h"

#include "base/error.h"
#include "io/file.h"
#include "io/output_file.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <system_error>

namespace ft::experts {
namespace {

constexpr std::string_view kFirstWords = "foretoken-heat 1 ";
// GLM-5.2 has 19,456 experts of at most 20 bytes a line.
constexpr std::size_t kMaxFileBytes = std::size_t{16} << 20;
// Beyond it a count is no count of uses.
constexpr double kMaxCount = 1e12;
constexpr double kLeastUses = 0.01;  // what rounds to nothing is not written

template <typename T>
std::optional<T> take_number(std::string_view& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool take_space(std::string_view& text) {
  if (!text.starts_with(' ')) return false;
  text.remove_prefix(1);
  return true;
}

bool is_count(std::optional<double> value) {
  return value && *value >= 0 && *value <= kMaxCount;
}

std::optional<HeatEntry> parse_line(std::string_view line) {
  const auto layer = take_number<std::size_t>(line);
  if (!layer || !take_space(line)) return std::nullopt;
  const auto expert = take_number<std::uint32_t>(line);
  if (!expert || !take_space(line)) return std::nullopt;
  const auto uses = take_number<double>(line);
  if (!is_count(uses) || !line.empty()) return std::nullopt;
  return HeatEntry{.layer = *layer, .expert = *expert, .uses = *uses};
}

Heat refused(std::string_view where, std::size_t line_number, std::string_view expected) {
  Heat heat;
  heat.warning =
      fmt::format("{}: line {} is not '{}'; learning starts afresh", where, line_number, expected);
  return heat;
}

}  // namespace

Heat parse_heat(std::string_view text, std::string_view where) {
  Heat heat;
  for (std::size_t line_number = 1; !text.empty() || line_number == 1; ++line_number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line_number == 1) {
      if (!line.starts_with(kFirstWords)) return refused(where, 1, "foretoken-heat 1 PASSES");
      line.remove_prefix(kFirstWords.size());
      const auto passes = take_number<double>(line);
      if (!is_count(passes) || !line.empty()) return refused(where, 1, "foretoken-heat 1 PASSES");
      heat.passes = *passes;
      continue;
    }
    const std::optional<HeatEntry> entry = parse_line(line);
    if (!entry) return refused(where, line_number, "LAYER EXPERT USES");
    heat.entries.push_back(*entry);
  }
  return heat;
}

Heat read_heat_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return {};
  try {
    return parse_heat(io::read_text(path, kMaxFileBytes),
                      fmt::format("experts: usage file {}", in_quotes(path.native())));
  } catch (const Error& unreadable) {
    Heat heat;
    heat.warning = fmt::format("{}; learning starts afresh", unreadable.what());
    return heat;
  }
}

void write_heat_file(const std::filesystem::path& path, const Heat& heat) {
  std::string text = fmt::format("{}{:.2f}\n", kFirstWords, heat.passes);
  for (const HeatEntry& entry : heat.entries) {
    if (entry.uses < kLeastUses) continue;
    fmt::format_to(
        std::back_inserter(text), "{} {} {:.2f}\n", entry.layer, entry.expert, entry.uses);
  }
  io::write_atomically(path, text);
}

}  // namespace ft::experts
