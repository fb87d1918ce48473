// What a request says about its tools, as far as replies need it: their names and the JSON types of
// their arguments.
#pragma once

#include "json/json.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ft::text {

class ToolSchemas {
 public:
  /// `tools`: an array of functions as OpenAI's chat API writes them ({"type": "function",
  /// "function": {"name", "parameters"}}), its Responses API ({"name", "parameters"}) or
  /// Anthropic's
  /// ({"name", "input_schema"}). Throws InvalidInput naming the entry for one without a name, a
  /// name given twice, or a schema that is no object.
  static ToolSchemas from_json(const json::Value& tools);

  bool has_tool(std::string_view name) const noexcept { return find(name) != nullptr; }
  /// The JSON text of an argument that the model wrote as `value`. If its schema allows strings
  /// only, `value` as a string. Else `value` itself if it is JSON of a type that the schema allows;
  /// without a schema every type is allowed. Else `value` as a string. A schema's type comes from
  /// `type`, `enum`, `const`, `anyOf`, `oneOf`, `allOf` and references within the schema; whatever
  /// else it demands is not looked at.
  std::string argument_json(std::string_view tool,
                            std::string_view key,
                            std::string_view value) const;

 private:
  struct Tool {
    std::string name;
    json::Value schema;
  };
  const Tool* find(std::string_view name) const noexcept;

  std::vector<Tool> tools_;
};

}  // namespace ft::text
