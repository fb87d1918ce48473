#include "program.h"

#include "base/error.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace ft::e2e {
namespace {

std::pair<io::UniqueFd, io::UniqueFd> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw IoError("cannot make a pipe");
  return {io::UniqueFd(ends[0]), io::UniqueFd(ends[1])};
}

// Appends what is there; closes the end when the writer is gone.
void drain(io::UniqueFd& end, std::string& text) {
  std::array<char, 65536> block{};
  const ssize_t n = ::read(end.get(), block.data(), block.size());
  if (n > 0) {
    text.append(block.data(), static_cast<std::size_t>(n));
  } else {
    end = io::UniqueFd();
  }
}

}  // namespace

Program::Program(const std::vector<std::string>& arguments, std::string_view input) {
  auto [in_read, in_write] = make_pipe();
  if (::write(in_write.get(), input.data(), input.size()) != static_cast<ssize_t>(input.size())) {
    throw IoError("cannot write the program's input");
  }
  in_write = io::UniqueFd();
  auto [out_read, out_write] = make_pipe();
  auto [err_read, err_write] = make_pipe();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in_read.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out_write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err_write.get(), STDERR_FILENO);
  std::vector<std::string> words = {FT_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int error = posix_spawn(&process_, FT_PROGRAM, &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw IoError(fmt::format("cannot start {}", FT_PROGRAM));
  out_ = std::move(out_read);
  err_ = std::move(err_read);
}

Program::~Program() {
  if (process_ < 0) return;
  ::kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

void Program::read_once() {
  std::array<pollfd, 2> ends = {pollfd{out_.get(), POLLIN, 0}, pollfd{err_.get(), POLLIN, 0}};
  if (poll(ends.data(), ends.size(), -1) < 0) throw IoError("cannot poll");
  if (out_.is_open() && ends[0].revents != 0) drain(out_, result_.out);
  if (err_.is_open() && ends[1].revents != 0) drain(err_, result_.err);
}

bool Program::wait_for_output(std::size_t n_bytes) {
  while (result_.out.size() < n_bytes && out_.is_open()) read_once();
  return result_.out.size() >= n_bytes;
}

void Program::interrupt() const {
  ::kill(process_, SIGINT);
}

void Program::kill() const {
  ::kill(process_, SIGKILL);
}

ProgramResult Program::finish() {
  while (out_.is_open() || err_.is_open()) read_once();
  int status = 0;
  waitpid(process_, &status, 0);
  process_ = -1;
  result_.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result_;
}

ProgramResult run_program(const std::vector<std::string>& arguments, std::string_view input) {
  return Program(arguments, input).finish();
}

void expect_refused(const ProgramResult& result, std::string_view what) {
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_THAT(result.err, ::testing::HasSubstr(std::string(what)));
  EXPECT_LT(result.err.size(), 1000U);
}

std::string join_ids(TokenSpan ids) {
  return fmt::format("{}", fmt::join(ids, ","));
}

std::vector<Token> to_ids(const json::Value& array) {
  std::vector<Token> out;
  for (const json::Value& id : array.as_array("ids")) {
    out.push_back(static_cast<Token>(id.as_integer("id")));
  }
  return out;
}

std::vector<std::size_t> to_counts(const json::Value& array) {
  std::vector<std::size_t> out;
  for (const json::Value& count : array.as_array("counts")) {
    out.push_back(static_cast<std::size_t>(count.as_integer("count")));
  }
  return out;
}

}  // namespace ft::e2e
