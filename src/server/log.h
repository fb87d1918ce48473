// What a server tells its operator: a line per request, and messages. Lines have ids, numbers and
// paths, never a prompt, a reply or a key, and whatever a client sent is escaped.
#pragma once

#include "server/http_types.h"

#include <chrono>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

namespace ft::server {

enum class LogFormat { kText, kJson };
enum class LogLevel { kError, kWarning, kInfo, kDebug };

/// "error", "warning", "info", "debug".
std::string_view to_string(LogLevel level) noexcept;
std::optional<LogLevel> log_level(std::string_view name) noexcept;

/// Thread-safe if `write` is.
class Log {
 public:
  using Time = std::chrono::system_clock::time_point;

  /// `write` gets each line with its newline. `least`: lines that matter less are left out.
  Log(LogFormat format,
      LogLevel least,
      std::function<void(std::string_view line)> write,
      std::function<Time()> now = std::chrono::system_clock::now)
      : format_(format), least_(least), write_(std::move(write)), now_(std::move(now)) {}

  void message(LogLevel level, std::string_view text) const;
  /// Server errors are errors, other refusals warnings; successful looks at /health and /metrics,
  /// which come every few seconds, are debug lines.
  void request(const RequestRecord& record) const;

 private:
  const LogFormat format_;
  const LogLevel least_;
  const std::function<void(std::string_view line)> write_;
  const std::function<Time()> now_;
};

}  // namespace ft::server
