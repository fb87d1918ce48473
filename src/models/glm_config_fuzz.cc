// Reads the input as config.json of the GLM family. Whatever it is, the parser answers with a
// config, a list of problems, or InvalidInput.
#include "base/error.h"
#include "json/json.h"
#include "models/glm_config.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const ft::json::Value config = ft::json::parse(text, "config.json");
    ft::models::parse_glm_config(config, {});
    ft::models::parse_glm_config(config, config);  // it also reads generation_config.json's keys
  } catch (const ft::InvalidInput&) {
  }
  return 0;
}
