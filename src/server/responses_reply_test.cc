#include "json/json.h"
#include "server/api_error.h"
#include "server/dialect.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::server {
namespace {

using foretoken::ReplyDelta;
using ::testing::ElementsAre;
using Kind = ReplyDelta::Kind;

const std::vector<std::string> kTexts = {"Hm", "</think>", "Hel", "lo", "<call>"};

// The reply of a model that thinks, speaks and calls, in three parts.
std::vector<ReplyPart> parts() {
  const auto tokens = [](std::vector<foretoken::Token> ids) {
    std::vector<foretoken::TokenLogprobs> out;
    for (const foretoken::Token id : ids) out.push_back({{id, -0.5F}, {{id, -0.5F}}});
    return out;
  };
  return {{{{Kind::kReasoning, "Hm", 0}}, tokens({0})},
          {{{Kind::kContent, "Hel", 0}}, tokens({1, 2})},
          {{{Kind::kContent, "lo", 0},
            {Kind::kToolName, "f", 0},
            {Kind::kToolArguments, "{\"x\":", 0},
            {Kind::kToolArguments, "1}", 0},
            {Kind::kToolName, "g", 1},
            {Kind::kToolArguments, "{}", 1}},
           tokens({3, 4})}};
}

Choice choice(foretoken::FinishReason reason) {
  Choice out;
  out.n_calls = 2;
  out.n_reasoning_tokens = 1;
  out.completion.finish_reason = reason;
  out.completion.seed = 7;
  out.completion.usage = {10, 6, 4};
  return out;
}

std::unique_ptr<ReplyWriter> writer(const std::string& members) {
  const TextRequest request =
      responses_dialect().parse(fmt::format(R"({{"input":"Hi"{}}})", members), {});
  return responses_dialect().writer(request, {"r", 5, "m", "fp"}, [](foretoken::Token id) {
    return kTexts[static_cast<std::size_t>(id)];
  });
}
const std::string kLogprobs = R"(,"include":["message.output_text.logprobs"],"top_logprobs":1)";

// The data of events; their names must repeat the types, their numbers must count.
std::vector<json::Value> events(std::string_view text) {
  std::vector<json::Value> out;
  while (!text.empty()) {
    const std::size_t line = text.find('\n');
    const std::size_t end = text.find("\n\n");
    const std::string_view name = text.substr(0, line);
    const std::string_view data = text.substr(line + 1, end - line - 1);
    EXPECT_TRUE(name.starts_with("event: ") && data.starts_with("data: ")) << text;
    out.push_back(json::parse(data.substr(6), "event"));
    EXPECT_EQ(out.back().find("type")->as_string(""), name.substr(7));
    EXPECT_EQ(out.back().find("sequence_number")->as_integer(""),
              static_cast<std::int64_t>(out.size() - 1));
    text.remove_prefix(end + 2);
  }
  return out;
}

std::string text_of(const json::Value& value) {
  json::Writer out;
  return out.value(value).text();
}

// Types without "response.", with the item where there is one.
std::vector<std::string> types(const std::vector<json::Value>& events) {
  std::vector<std::string> out;
  for (const json::Value& event : events) {
    std::string type = event.find("type")->as_string("");
    if (type.starts_with("response.")) type.erase(0, 9);
    const json::Value* index = event.find("output_index");
    if (index != nullptr) type += fmt::format(" {}", index->as_integer(""));
    out.push_back(type);
  }
  return out;
}

std::string stream(ReplyWriter& writer, foretoken::FinishReason reason) {
  std::string out = writer.begin(1);
  for (const ReplyPart& part : parts()) out += writer.part(0, part);
  const Choice end = choice(reason);
  out += writer.end_choice(end);
  return out + writer.end({&end, 1});
}

TEST(ResponsesReply, StreamHasTypedEventsInOrder) {
  const auto all = events(stream(*writer(""), foretoken::FinishReason::kStop));
  EXPECT_THAT(types(all),
              ElementsAre("created",
                          "in_progress",
                          "output_item.added 0",
                          "content_part.added 0",
                          "reasoning_text.delta 0",
                          "reasoning_text.done 0",
                          "content_part.done 0",
                          "output_item.done 0",
                          "output_item.added 1",
                          "content_part.added 1",
                          "output_text.delta 1",
                          "output_text.delta 1",
                          "output_text.done 1",
                          "content_part.done 1",
                          "output_item.done 1",
                          "output_item.added 2",
                          "function_call_arguments.delta 2",
                          "function_call_arguments.delta 2",
                          "function_call_arguments.done 2",
                          "output_item.done 2",
                          "output_item.added 3",
                          "function_call_arguments.delta 3",
                          "function_call_arguments.done 3",
                          "output_item.done 3",
                          "completed"));
  EXPECT_EQ(text_of(all[2]),
            R"({"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":)"
            R"({"id":"rs_r_0","type":"reasoning","summary":[],"status":"in_progress",)"
            R"("content":[]}})");
  EXPECT_EQ(text_of(all[11]),
            R"({"type":"response.output_text.delta","sequence_number":11,"item_id":"msg_r_1",)"
            R"("output_index":1,"content_index":0,"delta":"lo","logprobs":[]})");
  EXPECT_EQ(text_of(all[18]),
            R"({"type":"response.function_call_arguments.done","sequence_number":18,)"
            R"("item_id":"fc_r_2","output_index":2,"name":"f","arguments":"{\"x\":1}"})");
}

TEST(ResponsesReply, WholeReplyIsTheLastEventOfAStream) {
  for (const std::string& members : {std::string(), kLogprobs}) {
    Choice whole = choice(foretoken::FinishReason::kStop);
    for (ReplyPart part : parts()) {
      for (auto& delta : part.deltas) whole.reply.deltas.push_back(std::move(delta));
      for (auto& token : part.logprobs) whole.reply.logprobs.push_back(std::move(token));
    }
    const auto all = events(stream(*writer(members), foretoken::FinishReason::kStop));
    EXPECT_EQ(writer(members)->whole({&whole, 1}), text_of(*all.back().find("response")));
  }
}

TEST(ResponsesReply, HasOutputUsageAndWhatTheRequestSaid) {
  const auto all = events(stream(*writer(R"(,"metadata":{"a":"b"},"instructions":"Be brief.")"),
                                 foretoken::FinishReason::kStop));
  const json::Value& response = *all.back().find("response");
  EXPECT_EQ(response.find("id")->as_string(""), "resp_r");
  EXPECT_EQ(response.find("object")->as_string(""), "response");
  EXPECT_EQ(response.find("status")->as_string(""), "completed");
  EXPECT_EQ(response.find("created_at")->as_integer(""), 5);
  EXPECT_TRUE(response.find("error")->is_null());
  EXPECT_TRUE(response.find("incomplete_details")->is_null());
  EXPECT_EQ(text_of(*response.find("output")),
            R"([{"id":"rs_r_0","type":"reasoning","summary":[],"status":"completed",)"
            R"("content":[{"type":"reasoning_text","text":"Hm"}]},)"
            R"({"id":"msg_r_1","type":"message","role":"assistant","status":"completed",)"
            R"("content":[{"type":"output_text","text":"Hello","annotations":[],"logprobs":[]}]},)"
            R"({"id":"fc_r_2","type":"function_call","status":"completed","call_id":"call_r_2",)"
            R"("name":"f","arguments":"{\"x\":1}"},)"
            R"({"id":"fc_r_3","type":"function_call","status":"completed","call_id":"call_r_3",)"
            R"("name":"g","arguments":"{}"}])");
  EXPECT_EQ(text_of(*response.find("usage")),
            R"({"input_tokens":10,"input_tokens_details":{"cached_tokens":4,)"
            R"("cache_write_tokens":0},"output_tokens":6,)"
            R"("output_tokens_details":{"reasoning_tokens":1},"total_tokens":16})");
  EXPECT_EQ(response.find("seed")->as_integer(""), 7);
  EXPECT_NE(response.find("timings")->find("predicted_per_second"), nullptr);
  EXPECT_EQ(response.find("metadata")->find("a")->as_string(""), "b");
  EXPECT_EQ(response.find("instructions")->as_string(""), "Be brief.");
  EXPECT_EQ(response.find("previous_response_id")->type(), json::Value::Type::kNull);
}

TEST(ResponsesReply, LogprobsAreThoseOfTheMessage) {
  const auto all = events(stream(*writer(kLogprobs), foretoken::FinishReason::kStop));
  const auto tokens = [](const json::Value& holder) {
    std::string out;
    for (const json::Value& token : holder.find("logprobs")->as_array("")) {
      EXPECT_EQ(token.find("top_logprobs")->as_array("").size(), 1U);
      EXPECT_FALSE(token.find("bytes")->as_array("").empty());
      out += token.find("token")->as_string("") + "|";
    }
    return out;
  };
  EXPECT_EQ(tokens(all[10]), "Hel|");
  EXPECT_EQ(tokens(all[11]), "lo|");
  EXPECT_EQ(tokens(all[12]), "Hel|lo|");
  EXPECT_EQ(tokens(*all[13].find("part")), "Hel|lo|");
}

TEST(ResponsesReply, TokenLimitLeavesTheLastMessageIncomplete) {
  const auto message = writer("");
  std::string text = message->begin(1);
  text += message->part(0, parts()[1]);
  const Choice end = choice(foretoken::FinishReason::kLength);
  text += message->end_choice(end);
  text += message->end({&end, 1});
  const auto all = events(text);
  EXPECT_EQ(all.back().find("type")->as_string(""), "response.incomplete");
  const json::Value& response = *all.back().find("response");
  EXPECT_EQ(response.find("status")->as_string(""), "incomplete");
  EXPECT_EQ(text_of(*response.find("incomplete_details")), R"({"reason":"max_output_tokens"})");
  EXPECT_EQ(response.find("output")->as_array("")[0].find("status")->as_string(""), "incomplete");
}

TEST(ResponsesReply, ErrorInAStreamIsAnEventAndAFailedResponse) {
  const auto reply = writer("");
  std::string text = reply->begin(1);
  text += reply->part(0, parts()[1]);
  text += reply->error(api_error(503, "stopping", "server_stopping"));
  const auto all = events(text);
  ASSERT_GE(all.size(), 2U);
  EXPECT_EQ(text_of(all[all.size() - 2]),
            R"({"type":"error","sequence_number":5,"code":"server_stopping","message":"stopping",)"
            R"("param":null,"error":{"type":"server_error","code":"server_stopping",)"
            R"("message":"stopping","param":null}})");
  const json::Value& response = *all.back().find("response");
  EXPECT_EQ(all.back().find("type")->as_string(""), "response.failed");
  EXPECT_EQ(response.find("status")->as_string(""), "failed");
  EXPECT_EQ(text_of(*response.find("error")), R"({"code":"server_error","message":"stopping"})");
  EXPECT_EQ(response.find("output")->as_array("")[0].find("status")->as_string(""), "incomplete");
}

TEST(ResponsesReply, EmptyReplyHasNoOutput) {
  const Choice empty = choice(foretoken::FinishReason::kStop);
  const json::Value response = json::parse(writer("")->whole({&empty, 1}), "reply");
  EXPECT_TRUE(response.find("output")->as_array("").empty());
  EXPECT_EQ(response.find("status")->as_string(""), "completed");
}

}  // namespace
}  // namespace ft::server
