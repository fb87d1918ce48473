// Typed, bounded access to a model's config.json that collects problems instead of stopping at the
// first.
#pragma once

#include "json/json.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace ft::models {

struct Range {
  std::int64_t min = 1;
  std::int64_t max = 1;
};

/// Members of one JSON object. A member that is null counts as absent. After a problem a harmless
/// value is returned, so that reading can go on. The value and the problem list must outlive the
/// reader.
class ConfigReader {
 public:
  /// `path` is what messages put in front of a key: "config.json: " or "config.json:
  /// rope_parameters.".
  ConfigReader(const json::Value& object, std::string path, std::vector<std::string>& problems);

  /// nullptr if absent or null.
  const json::Value* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  /// Required, or with a fallback. Out of range or of another type is a problem.
  std::size_t count(std::string_view key, Range range) const;
  std::size_t count_or(std::string_view key, std::size_t fallback, Range range) const;
  /// Finite and within (0, max].
  double positive_real(std::string_view key, double max) const;
  double positive_real_or(std::string_view key, double fallback, double max) const;
  bool flag(std::string_view key) const;
  bool flag_or(std::string_view key, bool fallback) const;
  /// nullopt if absent or no array of strings (which is a problem).
  std::optional<std::vector<std::string>> strings(std::string_view key) const;
  /// A problem if the member is there and is not exactly this.
  void expect_text(std::string_view key, std::string_view expected) const;
  void expect_flag(std::string_view key, bool expected) const;

  template <typename... Args>
  void problem(fmt::format_string<Args...> format, Args&&... args) const {
    problems_->push_back(path_ + fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void missing(std::string_view key) const;

  const json::Value* object_;
  std::string path_;
  std::vector<std::string>* problems_;
};

}  // namespace ft::models
