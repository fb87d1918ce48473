// str.format(), see printf_format.h.
#include "text/jinja/access.h"
#include "text/jinja/printf_format.h"
#include "text/jinja/python_text.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace ft::text::jinja {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 9 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const MarkedText& format, const Arguments& arguments)
      : runtime_(runtime), format_(format), bytes_(format.bytes()), arguments_(arguments) {}

  MarkedText run() {
    runtime_.spend_bytes(bytes_.size());
    for (std::size_t i = 0; i < bytes_.size();) {
      const std::size_t brace = std::min(bytes_.find_first_of("{}", i), bytes_.size());
      out_.append(format_, i, brace);
      if (brace == bytes_.size()) break;
      if (brace + 1 < bytes_.size() && bytes_[brace + 1] == bytes_[brace]) {
        out_.append(format_, brace, brace + 1);
        i = brace + 2;
        continue;
      }
      const std::size_t end = bytes_.find('}', brace);
      if (bytes_[brace] == '}' || end == std::string_view::npos) {
        runtime_.fail("format(): a single brace; write it twice");
      }
      fill(bytes_.substr(brace + 1, end - brace - 1));
      i = end + 1;
    }
    return std::move(out_);
  }

 private:
  void fill(std::string_view field) {
    if (field.find_first_of(":{") != std::string_view::npos) {
      runtime_.fail("format(): format specifications are not supported; use the filter 'format'");
    }
    bool as_repr = false;
    if (const std::size_t mark = field.find('!'); mark != std::string_view::npos) {
      const std::string_view conversion = field.substr(mark + 1);
      if (conversion != "r" && conversion != "s") runtime_.fail("format(): use !r or !s");
      as_repr = conversion == "r";
      field = field.substr(0, mark);
    }
    const Value value = value_of(field);
    if (as_repr) {
      append_repr(runtime_, out_, value);
    } else {
      append_str(runtime_, out_, value);
    }
  }

  Value value_of(std::string_view field) {
    const std::size_t end = std::min(field.find_first_of(".["), field.size());
    Value value = argument(field.substr(0, end));
    for (std::size_t i = end; i < field.size();) {
      if (field[i] == '.') {
        const std::size_t next = std::min(field.find_first_of(".[", i + 1), field.size());
        value = attribute(runtime_, value, field.substr(i + 1, next - i - 1));
        i = next;
      } else {
        const std::size_t close = field.find(']', i);
        if (field[i] != '[' || close == std::string_view::npos) {
          runtime_.fail(fmt::format("format(): the field '{}' is malformed", field));
        }
        const std::string_view key = field.substr(i + 1, close - i - 1);
        value = item(
            runtime_,
            value,
            is_number(key) ? Value::integer(std::stoll(std::string(key))) : runtime_.string(key));
        i = close + 1;
      }
    }
    return value;
  }

  Value argument(std::string_view name) {
    if (name.empty() || is_number(name)) {
      const std::size_t index =
          name.empty() ? n_automatic_++ : static_cast<std::size_t>(std::stoll(std::string(name)));
      if (index >= arguments_.positional.size()) {
        runtime_.fail(fmt::format("format(): argument {} is missing", index));
      }
      return arguments_.positional[index];
    }
    const Value* value = arguments_.find_named(name);
    if (value == nullptr) runtime_.fail(fmt::format("format(): argument '{}' is missing", name));
    return *value;
  }

  Runtime& runtime_;
  const MarkedText& format_;
  std::string_view bytes_;
  const Arguments& arguments_;
  std::size_t n_automatic_ = 0;
  MarkedText out_;
};

}  // namespace

MarkedText brace_format(Runtime& runtime, const MarkedText& format, const Arguments& arguments) {
  return BraceFormatter(runtime, format, arguments).run();
}

}  // namespace ft::text::jinja
