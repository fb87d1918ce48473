// Any bytes are either rounds that can be planned again and played, or InvalidInput.
#include "base/error.h"
#include "engine/trace_reader.h"
#include "speculation/recorded_world.h"
#include "speculation/replay.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const std::vector<ft::speculation::RecordedTrace> traces = {
        ft::engine::parse_trace(text, "fuzz")};
    ft::speculation::find_difference(traces.front());
    // A choice is played to 1,000 tokens: a part of the inputs has to do.
    constexpr std::size_t kPlayed = 32;
    if (size % kPlayed == 0) ft::speculation::RecordedWorld(traces).play();
  } catch (const ft::InvalidInput&) {
  }
  return 0;
}
