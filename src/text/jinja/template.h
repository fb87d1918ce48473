// A compiled template: the engine's front door.
#pragma once

#include "json/json.h"
#include "text/jinja/marked_text.h"
#include "text/jinja/runtime.h"
#include "text/jinja/statement.h"

#include <memory>
#include <string_view>

namespace ft::text::jinja {

/// Immutable after compile(); renders may run in parallel.
class Template {
 public:
  /// Throws InvalidInput with the line for a syntax error or a construct that the engine does not
  /// know.
  static Template compile(std::string_view source);

  /// The template's text for variables that are the members of `untrusted` and, taking precedence,
  /// of `trusted` (both JSON objects; null has none). Bytes that come from `untrusted` are marked
  /// so. Throws InvalidInput as Runtime says.
  MarkedText render(const json::Value& untrusted,
                    const json::Value& trusted = {},
                    const Limits& limits = {}) const;

 private:
  explicit Template(std::shared_ptr<const TemplateNode> root) : root_(std::move(root)) {}
  std::shared_ptr<const TemplateNode> root_;
};

}  // namespace ft::text::jinja
