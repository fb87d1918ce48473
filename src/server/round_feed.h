// The rounds of a generation on their way into its stream: from the engine's thread, which traces
// them, to the thread that writes the reply.
#pragma once

#include "json/json.h"
#include "server/dialect.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ft::server {

class RoundFeed {
 public:
  /// Engine's thread; a line of GenerationRequest::trace. Lines that nobody takes in time are
  /// dropped, the newest first.
  void add(std::string_view trace_line);

  /// All lines since the last call, at most every few hundredths of a second: eyes need no more.
  std::vector<std::string> take(std::int64_t now_us);
  std::vector<std::string> take_rest();

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::int64_t taken_us_ = std::numeric_limits<std::int64_t>::min();
};

/// Writes the rounds of docs/server-api.md, an array. `trace_lines`: those of docs/speculation.md;
/// what is no round is left out.
void write_rounds(json::Writer& out,
                  std::span<const std::string> trace_lines,
                  const TokenText& token_text);

}  // namespace ft::server
