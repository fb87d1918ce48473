// The small files of a model folder that a container takes along: config, tokenizer, template.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ft::checkpoint {

struct MetadataText {
  std::string name;
  std::string text;
};

/// Those that are there, in a fixed order. Throws InvalidInput without a config.json.
std::vector<MetadataText> read_metadata_files(const std::filesystem::path& folder);

}  // namespace ft::checkpoint
