#include "server/request_fields.h"

#include "base/error.h"
#include "server/api_error.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ft::server {
namespace {

constexpr std::string_view kWrongType = "invalid_type";

std::string_view type_name(const json::Value& value) {
  switch (value.type()) {
    case json::Value::Type::kNull:
      return "null";
    case json::Value::Type::kBool:
      return "a boolean";
    case json::Value::Type::kInteger:
    case json::Value::Type::kReal:
      return "a number";
    case json::Value::Type::kString:
      return "a string";
    case json::Value::Type::kArray:
      return "an array";
    case json::Value::Type::kObject:
      return "an object";
  }
  return "";
}

[[noreturn]] void wrong_type(const std::string& path,
                             const json::Value& value,
                             std::string_view expected) {
  throw ApiError(path,
                 fmt::format("'{}' is {}, expected {}", path, type_name(value), expected),
                 std::string(kWrongType));
}

// A string, boolean or whole number as JSON writes it, without quotes; anything else by its type.
std::string plain_text(const json::Value& value) {
  if (value.is_string()) return value.as_string("");
  if (value.type() == json::Value::Type::kBool) return value.as_bool("") ? "true" : "false";
  if (value.type() == json::Value::Type::kInteger) return fmt::format("{}", value.as_integer(""));
  return std::string(type_name(value));
}

}  // namespace

RequestFields::RequestFields(const json::Value& object, std::string path)
    : object_(object), path_(std::move(path)) {
  if (!object.is_object()) {
    if (path_.empty()) {
      throw ApiError({},
                     fmt::format("the request is {}, expected a JSON object", type_name(object)),
                     std::string(kWrongType));
    }
    wrong_type(path_, object, "an object");
  }
}

std::string RequestFields::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

const json::Value* RequestFields::find(std::string_view name) {
  known_.emplace_back(name);
  const json::Value* value = object_.find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::optional<bool> RequestFields::boolean(std::string_view name) {
  const json::Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->type() != json::Value::Type::kBool) wrong_type(path_of(name), *value, "a boolean");
  return value->as_bool("");
}

std::optional<double> RequestFields::real(std::string_view name, double least, double most) {
  const json::Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) wrong_type(path_of(name), *value, "a number");
  const double number = value->as_real("");
  if (!(number >= least && number <= most)) {
    throw ApiError(
        path_of(name),
        fmt::format("'{}' is {}, expected {} to {}", path_of(name), number, least, most));
  }
  return number;
}

std::optional<std::uint64_t> RequestFields::count(std::string_view name,
                                                  std::uint64_t least,
                                                  std::uint64_t most) {
  const json::Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) wrong_type(path_of(name), *value, "a whole number");
  try {
    const std::int64_t number = value->as_integer("");
    if (number >= 0 && static_cast<std::uint64_t>(number) >= least &&
        static_cast<std::uint64_t>(number) <= most) {
      return static_cast<std::uint64_t>(number);
    }
  } catch (const InvalidInput&) {  // not whole, or beyond 64 bits: refused below
  }
  throw ApiError(path_of(name),
                 fmt::format("'{}' is {}, expected a whole number from {} to {}",
                             path_of(name),
                             value->as_real(""),
                             least,
                             most));
}

const std::string* RequestFields::string(std::string_view name) {
  const json::Value* value = find(name);
  if (value == nullptr) return nullptr;
  if (!value->is_string()) wrong_type(path_of(name), *value, "a string");
  return &value->as_string("");
}

const json::Array* RequestFields::array(std::string_view name, std::size_t max_entries) {
  const json::Value* value = find(name);
  if (value == nullptr) return nullptr;
  if (!value->is_array()) wrong_type(path_of(name), *value, "an array");
  const json::Array& entries = value->as_array("");
  if (entries.size() > max_entries) {
    throw ApiError(path_of(name),
                   fmt::format("'{}' has {} entries, expected at most {}",
                               path_of(name),
                               entries.size(),
                               max_entries));
  }
  return &entries;
}

const json::Object* RequestFields::object(std::string_view name) {
  const json::Value* value = find(name);
  if (value == nullptr) return nullptr;
  if (!value->is_object()) wrong_type(path_of(name), *value, "an object");
  return &value->as_object("");
}

std::optional<RequestFields> RequestFields::nested(std::string_view name) {
  if (object(name) == nullptr) return std::nullopt;
  return RequestFields(*find(name), path_of(name));
}

const json::Value& RequestFields::required(std::string_view name) {
  const json::Value* value = find(name);
  if (value == nullptr) {
    throw ApiError(path_of(name), fmt::format("'{}' is missing", path_of(name)), kMissing);
  }
  return *value;
}

const std::string& RequestFields::required_string(std::string_view name) {
  required(name);
  return *string(name);
}

const json::Value& RequestFields::required_object(std::string_view name) {
  object(name);
  return required(name);
}

void RequestFields::only(std::string_view name,
                         const std::vector<std::string_view>& allowed,
                         std::string_view why) {
  const json::Value* value = find(name);
  if (value == nullptr) return;
  const std::string text = plain_text(*value);
  if (std::find(allowed.begin(), allowed.end(), text) != allowed.end()) return;
  throw ApiError(path_of(name),
                 fmt::format("'{}' is {}: {}", path_of(name), in_quotes(text), why),
                 "unsupported_value");
}

void RequestFields::refuse(const std::vector<std::string_view>& names, std::string_view why) {
  for (const std::string_view name : names) {
    if (find(name) == nullptr) continue;
    throw ApiError(
        path_of(name), fmt::format("'{}': {}", path_of(name), why), "unsupported_parameter");
  }
}

void RequestFields::finish() const {
  for (const auto& [name, value] : object_.as_object("")) {
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
      throw ApiError(path_of(name),
                     fmt::format("{} is not a parameter of this request", in_quotes(path_of(name))),
                     "unknown_parameter");
    }
  }
}

}  // namespace ft::server
