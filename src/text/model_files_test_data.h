// Tests only: files of the shipped models.
#pragma once

#include "base/error.h"

#include <fstream>
#include <iterator>
#include <string>

namespace ft::text {

/// A file of models/, e.g. "glm-mini/tokenizer.json".
inline std::string read_model_file(const std::string& name) {
  std::ifstream in(FT_SOURCE_DIR "/models/" + name, std::ios::binary);
  if (!in) throw IoError("cannot open models/" + name);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace ft::text
