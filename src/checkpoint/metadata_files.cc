#include "checkpoint/metadata_files.h"

#include "io/file.h"

#include <array>
#include <string_view>

namespace ft::checkpoint {

std::vector<MetadataText> read_metadata_files(const std::filesystem::path& folder) {
  constexpr std::string_view kConfig = "config.json";
  constexpr std::array kNames{kConfig,
                              std::string_view("generation_config.json"),
                              std::string_view("tokenizer.json"),
                              std::string_view("tokenizer_config.json"),
                              std::string_view("chat_template.jinja")};
  constexpr std::size_t kMaxBytes = std::size_t{256} << 20;  // as the tokenizer's reader takes
  std::vector<MetadataText> files;
  for (const std::string_view name : kNames) {
    const std::filesystem::path path = folder / name;
    if (name != kConfig && !io::is_there(path)) continue;
    files.push_back({std::string(name), io::read_text(path, kMaxBytes)});
  }
  return files;
}

}  // namespace ft::checkpoint
