#include "engine/model_text.h"

#include "base/error.h"
#include "io/file.h"
#include "json/json.h"
#include "text/chat_template.h"

#include <system_error>
#include <utility>

namespace ft::engine {
namespace fs = std::filesystem;
namespace {

constexpr const char* kTokenizerFile = "tokenizer.json";
constexpr std::size_t kMaxTokenizerBytes = std::size_t{256} << 20;
// Templates in the field are below 100 kB.
constexpr std::size_t kMaxTemplateBytes = std::size_t{4} << 20;

fs::path folder_of(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) fail("model {}: no such file or folder", in_quotes(path.native()));
  if (fs::is_directory(path, error)) return path;
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// tokenizer_config.json holds one template, or a list of named ones of which "default" is meant.
std::optional<std::string> template_of_config(const fs::path& folder) {
  const fs::path path = folder / "tokenizer_config.json";
  if (!io::is_there(path)) return std::nullopt;
  const json::Value config =
      json::parse(io::read_text(path, kMaxTemplateBytes), "tokenizer_config.json");
  const json::Value* entry = config.find("chat_template");
  if (entry == nullptr || entry->is_null()) return std::nullopt;
  constexpr const char* kWhere = "tokenizer_config.json: chat_template";
  if (entry->is_string()) return entry->as_string(kWhere);
  for (const json::Value& named : entry->as_array(kWhere)) {
    const json::Value* name = named.find("name");
    const json::Value* source = named.find("template");
    if (name != nullptr && source != nullptr && name->as_string(kWhere) == "default") {
      return source->as_string(kWhere);
    }
  }
  return std::nullopt;
}

std::string read_template(const fs::path& folder) {
  const fs::path path = folder / "chat_template.jinja";
  if (io::is_there(path)) return io::read_text(path, kMaxTemplateBytes);
  std::optional<std::string> source = template_of_config(folder);
  if (!source) {
    fail(
        "model {} has no chat template (chat_template.jinja, or chat_template in "
        "tokenizer_config.json); give a plain prompt",
        in_quotes(folder.native()));
  }
  return *std::move(source);
}

}  // namespace

ModelText ModelText::open(const fs::path& path, const std::shared_ptr<const Clock>& clock) {
  fs::path folder = folder_of(path);
  if (!exists(folder)) {
    fail("model {} has no {}; it can be run on token ids only",
         in_quotes(folder.native()),
         kTokenizerFile);
  }
  text::Tokenizer tokenizer =
      text::Tokenizer::from_json(io::read_text(folder / kTokenizerFile, kMaxTokenizerBytes), clock);
  return {std::move(folder), std::move(tokenizer)};
}

bool ModelText::exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(folder_of(path) / kTokenizerFile, error);
}

foretoken::ChatPrompt ModelText::encode_chat(std::string_view request_json) const {
  const json::Value request = json::parse(request_json, "chat request");
  const auto chat_template = text::ChatTemplate::compile(read_template(folder_));
  const std::vector<text::TextSegment> segments = chat_template.render(request);
  foretoken::ChatPrompt out;
  for (const text::TextSegment& segment : segments) out.text += segment.text;
  out.ids = tokenizer_.encode(segments);
  return out;
}

}  // namespace ft::engine
