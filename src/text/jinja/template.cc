#include "text/jinja/template.h"

#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"
#include "text/jinja/scope_resolver.h"

#include <utility>
#include <vector>

namespace ft::text::jinja {
namespace {

void add_variables(Runtime& runtime,
                   const json::Value& members,
                   bool is_trusted,
                   std::vector<DictObject::Entry>& out) {
  if (members.is_null()) return;
  for (const auto& [name, value] : members.as_object("template variables")) {
    out.push_back({runtime.string(name), runtime.from_json(value, is_trusted)});
  }
}

}  // namespace

Template Template::compile(std::string_view source) {
  std::unique_ptr<TemplateNode> root = parse_template(source);
  resolve_scopes(*root);
  return Template(std::move(root));
}

MarkedText Template::render(const json::Value& untrusted,
                            const json::Value& trusted,
                            const Limits& limits) const {
  Runtime runtime(limits);
  std::vector<DictObject::Entry> variables;
  add_variables(runtime, untrusted, false, variables);
  add_variables(runtime, trusted, true, variables);  // the last of equal names wins
  Interpreter interpreter(runtime, *root_, runtime.dict(std::move(variables)));
  return interpreter.run();
}

}  // namespace ft::text::jinja
