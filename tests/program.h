// Runs the program as a user does and keeps what it says.
#pragma once

#include "base/types.h"
#include "io/file.h"
#include "json/json.h"

#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace ft::e2e {

struct ProgramResult {
  int status = 0;  // exit status, or 128 + signal
  std::string out;
  std::string err;

  /// The document of --json. Throws if it is none.
  json::Value json() const { return json::parse(out, "output"); }
};

/// Starts build/foretoken with these arguments.
class Program {
 public:
  /// `input`: its whole standard input, at most what a pipe holds (64 KiB).
  explicit Program(const std::vector<std::string>& arguments, std::string_view input = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  Program(Program&&) = delete;
  Program& operator=(Program&&) = delete;

  /// Waits until it has written so many bytes to standard output. Returns false if it ended before.
  bool wait_for_output(std::size_t n_bytes);
  /// What it has written to standard output so far.
  const std::string& output() const noexcept { return result_.out; }
  void interrupt() const;
  /// No chance to tidy up.
  void kill() const;
  /// Nobody reads its standard output any more.
  void close_output() { out_ = io::UniqueFd(); }
  /// Reads the rest and waits for the end.
  ProgramResult finish();

 private:
  void read_once();

  pid_t process_ = -1;
  io::UniqueFd out_;
  io::UniqueFd err_;
  ProgramResult result_;
};

ProgramResult run_program(const std::vector<std::string>& arguments, std::string_view input = {});

/// One line that says what is wrong, exit status 2, nothing on standard output.
void expect_refused(const ProgramResult& result, std::string_view what);

/// "1,2,3".
std::string join_ids(TokenSpan ids);

/// Ids of a JSON array.
std::vector<Token> to_ids(const json::Value& array);
std::vector<std::size_t> to_counts(const json::Value& array);

inline constexpr std::string_view kStory =
    "[gMASK]<sop><|user|>Tell me a story about a wolf.<|assistant|><think></think>";

}  // namespace ft::e2e
