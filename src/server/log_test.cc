#include "server/log.h"

#include "json/json.h"

#include <string>
#include <string_view>
#include <utility>

#include <gmock/gmock.h>

namespace ft::server {
namespace {

using std::chrono::microseconds;

const Log::Time kNow{std::chrono::milliseconds(1'800'000'000'007)};

class LogTest : public ::testing::Test {
 protected:
  std::string line_of(const RequestHead& head,
                      const ReplyFacts& facts,
                      LogFormat format = LogFormat::kText,
                      LogLevel least = LogLevel::kDebug) {
    lines_.clear();
    log(format, least).request({head, facts, microseconds(12'345)});
    return lines_;
  }
  Log log(LogFormat format, LogLevel least) {
    return {format, least, [this](std::string_view line) { lines_ += line; }, [] { return kNow; }};
  }
  std::string lines_;
};

RequestHead head_of(std::string path) {
  RequestHead head;
  head.id = "req-1";
  head.method = "POST";
  head.path = std::move(path);
  head.query = "key=secret";
  head.authorization = "Bearer secret";
  head.api_key = "secret";
  return head;
}

ReplyFacts generated() {
  ReplyFacts facts;
  facts.status = 200;
  facts.n_bytes = 321;
  facts.generation = {2, 13, 5, 64, 40, 30, 0.25, 3.5, "stop"};
  return facts;
}

TEST_F(LogTest, TellsNumbersInBothFormats) {
  EXPECT_EQ(line_of(head_of("/v1/completions"), generated()),
            "2027-01-15T08:00:00.007Z info    id=req-1 method=POST path=/v1/completions status=200 "
            "ms=12.345 bytes=321 client_gone=false choices=2 prompt_tokens=13 cached_tokens=5 "
            "completion_tokens=64 drafted=40 accepted=30 queue_ms=0.250 ttft_ms=3.500 "
            "finish_reason=stop\n");
  EXPECT_EQ(line_of(head_of("/v1/completions"), generated(), LogFormat::kJson),
            R"({"time":"2027-01-15T08:00:00.007Z","level":"info","id":"req-1","method":"POST",)"
            R"("path":"/v1/completions","status":200,"ms":12.345,"bytes":321,"client_gone":false,)"
            R"("choices":2,"prompt_tokens":13,"cached_tokens":5,"completion_tokens":64,)"
            R"("drafted":40,"accepted":30,"queue_ms":0.25,"ttft_ms":3.5,"finish_reason":"stop"})"
            "\n");
}

TEST_F(LogTest, ClientsCannotForgeLinesOrShowSecrets) {
  std::string path = "/x\r\n2027 info \"id\\\x1b[31m\x7f\xe2\x80\xa8";
  for (int c = 0; c < 256; ++c) path += static_cast<char>(c);
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    RequestHead head = head_of(path);
    head.method = "GE T\n";
    const std::string line = line_of(head, {}, format);
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    for (const char c : line.substr(0, line.size() - 1)) EXPECT_TRUE(c >= ' ' && c <= '~');
    EXPECT_EQ(line.find("secret"), std::string::npos);
    EXPECT_LT(line.size(), 800U);
    if (format == LogFormat::kJson) json::parse(line, "line");
  }
}

TEST_F(LogTest, LevelsFollowWhatHappened) {
  ReplyFacts facts;
  const auto has_line = [&](int status, std::string_view path, LogLevel least) {
    facts.status = status;
    return !line_of(head_of(std::string(path)), facts, LogFormat::kText, least).empty();
  };
  EXPECT_TRUE(has_line(500, "/tokenize", LogLevel::kError));
  EXPECT_FALSE(has_line(404, "/tokenize", LogLevel::kError));
  EXPECT_TRUE(has_line(404, "/tokenize", LogLevel::kWarning));
  EXPECT_FALSE(has_line(200, "/tokenize", LogLevel::kWarning));
  EXPECT_TRUE(has_line(200, "/tokenize", LogLevel::kInfo));
  EXPECT_FALSE(has_line(200, "/health", LogLevel::kInfo));
  EXPECT_TRUE(has_line(200, "/health", LogLevel::kDebug));
  EXPECT_EQ(log_level("warning"), LogLevel::kWarning);
  EXPECT_EQ(log_level("loud"), std::nullopt);
}

TEST_F(LogTest, MessagesAreOneLine) {
  log(LogFormat::kText, LogLevel::kInfo).message(LogLevel::kWarning, "a\nb");
  log(LogFormat::kJson, LogLevel::kInfo).message(LogLevel::kInfo, "a\nb");
  log(LogFormat::kJson, LogLevel::kInfo).message(LogLevel::kDebug, "left out");
  EXPECT_EQ(lines_,
            "2027-01-15T08:00:00.007Z warning a\\x0ab\n"
            R"({"time":"2027-01-15T08:00:00.007Z","level":"info","message":"a\nb"})"
            "\n");
}

}  // namespace
}  // namespace ft::server
