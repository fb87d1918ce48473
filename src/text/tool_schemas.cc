#include "text/tool_schemas.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace ft::text {

namespace {

using Types = std::uint8_t;  // a set of these bits
constexpr Types kNull = 1;
constexpr Types kBool = 2;
constexpr Types kInteger = 4;
constexpr Types kNumber = 8 | kInteger;
constexpr Types kString = 16;
constexpr Types kArray = 32;
constexpr Types kObject = 64;
constexpr Types kAny = 127;

Types type_named(const json::Value& name) {
  if (!name.is_string()) return kAny;
  const std::string& text = name.as_string("type");
  if (text == "null") return kNull;
  if (text == "boolean") return kBool;
  if (text == "integer") return kInteger;
  if (text == "number") return kNumber;
  if (text == "string") return kString;
  if (text == "array") return kArray;
  if (text == "object") return kObject;
  return kAny;
}

Types type_of(const json::Value& value) {
  using Type = json::Value::Type;
  switch (value.type()) {
    case Type::kNull:
      return kNull;
    case Type::kBool:
      return kBool;
    case Type::kInteger:
      return kInteger;
    case Type::kReal: {
      // JSON Schema counts 3.0 as an integer; an integer beyond 64 bits was read as a real.
      const double number = value.as_real("argument");
      return std::trunc(number) == number ? kInteger : kNumber & ~kInteger;
    }
    case Type::kString:
      return kString;
    case Type::kArray:
      return kArray;
    case Type::kObject:
      return kObject;
  }
  return kAny;  // not reached: the switch is complete
}

/// Finds the types that a schema allows. Work is bounded, however its references are knotted.
class SchemaTypes {
 public:
  explicit SchemaTypes(const json::Value& root) : root_(root) {}

  // NOLINTNEXTLINE(misc-no-recursion): bounded by n_left_
  Types of(const json::Value& schema, std::size_t depth = 0) {
    if (n_left_ == 0 || depth > kMaxDepth) return kAny;
    --n_left_;
    Types types = kAny;
    if (const json::Value* reference = schema.find("$ref")) {
      if (const json::Value* target = resolve(*reference)) types &= of(*target, depth + 1);
    }
    if (const json::Value* type = schema.find("type")) {
      types &= type->is_array() ? union_of(*type, type_named) : type_named(*type);
    }
    if (const json::Value* value = schema.find("const")) types &= type_of(*value);
    if (const json::Value* values = schema.find("enum")) types &= union_of(*values, type_of);
    const auto of_part = [&](const json::Value& part) { return of(part, depth + 1); };
    for (const char* key : {"anyOf", "oneOf"}) {
      if (const json::Value* parts = schema.find(key)) types &= union_of(*parts, of_part);
    }
    if (const json::Value* parts = schema.find("allOf"); parts != nullptr && parts->is_array()) {
      for (const json::Value& part : parts->as_array("allOf")) types &= of_part(part);
    }
    return types;
  }

 private:
  static constexpr std::size_t kMaxDepth = 32;

  template <typename Function>
  static Types union_of(const json::Value& list, Function types_of) {
    if (!list.is_array()) return kAny;
    Types types = 0;
    for (const json::Value& element : list.as_array("schema")) types |= types_of(element);
    return types;
  }

  /// The value that a JSON pointer such as "#/$defs/city" names within the schema; nullptr for any
  /// other reference.
  const json::Value* resolve(const json::Value& reference) const {
    if (!reference.is_string()) return nullptr;
    std::string_view rest = reference.as_string("$ref");
    if (rest.empty() || rest.front() != '#') return nullptr;
    rest.remove_prefix(1);
    const json::Value* value = &root_;
    while (!rest.empty() && value != nullptr) {
      if (rest.front() != '/') return nullptr;
      rest.remove_prefix(1);
      const std::size_t end = std::min(rest.find('/'), rest.size());
      value = value->find(unescaped(rest.substr(0, end)));
      rest.remove_prefix(end);
    }
    return value;
  }

  static std::string unescaped(std::string_view step) {
    std::string key;
    for (std::size_t i = 0; i < step.size(); ++i) {
      const bool is_escape = step[i] == '~' && i + 1 < step.size();
      if (is_escape && (step[i + 1] == '0' || step[i + 1] == '1')) {
        key += step[++i] == '0' ? '~' : '/';
      } else {
        key += step[i];
      }
    }
    return key;
  }

  const json::Value& root_;
  std::size_t n_left_ = 1000;  // schemas to look at; those of real tools have a few dozen
};

std::string_view without_outer_space(std::string_view text) {
  constexpr std::string_view kJsonSpace = " \t\r\n";
  const std::size_t begin = std::min(text.find_first_not_of(kJsonSpace), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(kJsonSpace) + 1);
}

std::optional<json::Value> parsed(std::string_view text) {
  try {
    return json::parse(text, "tool argument");
  } catch (const InvalidInput&) {
    return std::nullopt;  // no error: the model wrote a string
  }
}

std::string quoted(std::string_view text) {
  json::Writer out;
  out.value(text);
  return out.text();
}

/// The object that has the function's name, and its schema or nullptr.
std::pair<const json::Value*, const json::Value*> parts_of(const json::Value& tool) {
  const json::Value* function = tool.find("function");
  const json::Value* holder = function != nullptr ? function : &tool;
  const json::Value* schema = holder->find("parameters");
  return {holder, schema != nullptr ? schema : holder->find("input_schema")};
}

}  // namespace

ToolSchemas ToolSchemas::from_json(const json::Value& tools) {
  ToolSchemas out;
  for (const json::Value& tool : tools.as_array("tools")) {
    const std::string where = fmt::format("tools[{}]", out.tools_.size());
    const auto [holder, schema] = parts_of(tool);
    const json::Value* name = holder->find("name");
    if (name == nullptr) fail("{} has no name, expected a function with one", where);
    const std::string& text = name->as_string(where + ".name");
    if (out.has_tool(text)) fail("{}: name {} is given twice", where, in_quotes(text));
    const bool has_schema = schema != nullptr && !schema->is_null();
    if (has_schema) schema->as_object(where + ": the schema of its arguments");
    out.tools_.push_back({text, has_schema ? *schema : json::Value()});
  }
  return out;
}

const ToolSchemas::Tool* ToolSchemas::find(std::string_view name) const noexcept {
  const auto found =
      std::find_if(tools_.begin(), tools_.end(), [&](const Tool& t) { return t.name == name; });
  return found == tools_.end() ? nullptr : &*found;
}

std::string ToolSchemas::argument_json(std::string_view tool,
                                       std::string_view key,
                                       std::string_view value) const {
  Types allowed = kAny;
  if (const Tool* known = find(tool)) {
    const json::Value* properties = known->schema.find("properties");
    const json::Value* schema = properties != nullptr ? properties->find(key) : nullptr;
    if (schema != nullptr) allowed = SchemaTypes(known->schema).of(*schema);
  }
  if (allowed == 0) allowed = kAny;  // no value can satisfy the schema: as if there were none
  if (allowed == kString) return quoted(value);
  const std::string_view text = without_outer_space(value);
  const std::optional<json::Value> json = parsed(text);
  if (!json || (type_of(*json) & allowed) == 0) return quoted(value);
  // Strings are written without quotes: where a schema has one, quotes belong to the value.
  if (json->is_string() && allowed != kAny) return quoted(value);
  return std::string(text);
}

}  // namespace ft::text
