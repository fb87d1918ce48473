#include "models/config_reader.h"

#include "base/error.h"

#include <cmath>

namespace ft::models {

ConfigReader::ConfigReader(const json::Value& object,
                           std::string path,
                           std::vector<std::string>& problems)
    : object_(&object), path_(std::move(path)), problems_(&problems) {}

const json::Value* ConfigReader::find(std::string_view key) const {
  const json::Value* value = object_->find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void ConfigReader::missing(std::string_view key) const {
  problem("{} is missing", key);
}

std::size_t ConfigReader::count(std::string_view key, Range range) const {
  if (!has(key)) missing(key);
  return count_or(key, static_cast<std::size_t>(range.min), range);
}

std::size_t ConfigReader::count_or(std::string_view key, std::size_t fallback, Range range) const {
  const json::Value* value = find(key);
  if (value == nullptr) return fallback;
  try {
    const std::int64_t number = value->as_integer(path_ + std::string(key));
    if (number >= range.min && number <= range.max) return static_cast<std::size_t>(number);
    problem("{} is {}, expected {} to {}", key, number, range.min, range.max);
  } catch (const InvalidInput& error) {
    problems_->emplace_back(error.what());
  }
  return static_cast<std::size_t>(range.min);
}

double ConfigReader::positive_real(std::string_view key, double max) const {
  if (!has(key)) missing(key);
  return positive_real_or(key, 1, max);
}

double ConfigReader::positive_real_or(std::string_view key, double fallback, double max) const {
  const json::Value* value = find(key);
  if (value == nullptr) return fallback;
  try {
    const double number = value->as_real(path_ + std::string(key));
    if (std::isfinite(number) && number > 0 && number <= max) return number;
    problem("{} is {}, expected more than 0 and at most {}", key, number, max);
  } catch (const InvalidInput& error) {
    problems_->emplace_back(error.what());
  }
  return 1;
}

bool ConfigReader::flag(std::string_view key) const {
  if (!has(key)) missing(key);
  return flag_or(key, false);
}

bool ConfigReader::flag_or(std::string_view key, bool fallback) const {
  const json::Value* value = find(key);
  if (value == nullptr) return fallback;
  try {
    return value->as_bool(path_ + std::string(key));
  } catch (const InvalidInput& error) {
    problems_->emplace_back(error.what());
    return fallback;
  }
}

std::optional<std::vector<std::string>> ConfigReader::strings(std::string_view key) const {
  const json::Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  try {
    std::vector<std::string> all;
    for (const json::Value& item : value->as_array(path_ + std::string(key))) {
      all.push_back(item.as_string(path_ + fmt::format("{}[{}]", key, all.size())));
    }
    return all;
  } catch (const InvalidInput& error) {
    problems_->emplace_back(error.what());
    return std::nullopt;
  }
}

void ConfigReader::expect_text(std::string_view key, std::string_view expected) const {
  const json::Value* value = find(key);
  if (value == nullptr) return;
  try {
    const std::string& text = value->as_string(path_ + std::string(key));
    if (text != expected) {
      problem("{} is '{}'; only '{}' is supported", key, text.substr(0, 60), expected);
    }
  } catch (const InvalidInput& error) {
    problems_->emplace_back(error.what());
  }
}

void ConfigReader::expect_flag(std::string_view key, bool expected) const {
  if (flag_or(key, expected) != expected) {
    problem("{} is {}; only {} is supported", key, !expected, expected);
  }
}

}  // namespace ft::models
