// Typed access to a JSON object of a request. Every member must be asked for: what is left is
// refused by name.
#pragma once

#include "json/json.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ft::server {

/// The code of errors about what must be there and is not.
inline constexpr const char* kMissing = "missing_parameter";

/// All members throw ApiError naming the parameter by its path. A member that is null counts as
/// absent.
class RequestFields {
 public:
  /// `path` is that of the object itself, empty for the request. `object` must outlive this.
  RequestFields(const json::Value& object, std::string path);

  /// nullptr if absent.
  const json::Value* find(std::string_view name);
  std::optional<bool> boolean(std::string_view name);
  std::optional<double> real(std::string_view name, double least, double most);
  std::optional<std::uint64_t> count(std::string_view name,
                                     std::uint64_t least,
                                     std::uint64_t most);
  const std::string* string(std::string_view name);
  const json::Array* array(std::string_view name, std::size_t max_entries);
  const json::Object* object(std::string_view name);
  /// The fields of a member that is an object; nullopt if absent.
  std::optional<RequestFields> nested(std::string_view name);
  // These refuse a request without the member.
  const json::Value& required(std::string_view name);
  const std::string& required_string(std::string_view name);
  const json::Value& required_object(std::string_view name);
  /// Refuses the member unless it is absent or equal to one of `allowed` (strings, booleans or
  /// whole numbers as JSON writes them).
  void only(std::string_view name,
            const std::vector<std::string_view>& allowed,
            std::string_view why);
  /// Refuses members that exist elsewhere and not here.
  void refuse(const std::vector<std::string_view>& names, std::string_view why);
  /// "messages[0].role".
  std::string path_of(std::string_view name) const;
  /// Throws for the first member that nobody asked for.
  void finish() const;

 private:
  const json::Value& object_;
  std::string path_;
  std::vector<std::string> known_;
};

}  // namespace ft::server
