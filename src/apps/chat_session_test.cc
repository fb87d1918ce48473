// Conversation, settings and commands, with a generator that answers by rote.
#include "apps/chat_session.h"

#include "base/error.h"
#include "io/file.h"
#include "json/json.h"

#include <filesystem>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Chat : public ::testing::Test {
 protected:
  void SetUp() override {
    model_.n_vocab = 100;
    model_.draft_sources = {"mtp", "ngram"};
    session_.emplace(hands(), ChatSettings({}, model_), "", "mini");
  }
  void TearDown() override { std::filesystem::remove(path()); }

  ChatHands hands() {
    ChatHands out;
    out.reply = [this](const Conversation& conversation, const ChatOptions& options) {
      if (engine_fails_) throw foretoken::Error(foretoken::ErrorCode::kInvalidInput, "too long");
      requests_.push_back(conversation.request_json(options.is_thinking()));
      ++n_replies_;
      return ChatReply{
          fmt::format("thought {}", n_replies_), fmt::format("reply {}", n_replies_), "fast\n"};
    };
    out.say = [this](std::string_view lines) { said_ += lines; };
    out.complain = [this](std::string_view line) { complaints_.emplace_back(line); };
    return out;
  }

  bool handle(const std::string& text) { return session_->handle({text}); }
  std::vector<std::string> contents() const {
    std::vector<std::string> out;
    for (const ChatMessage& message : session_->conversation().messages()) {
      out.push_back(message.content);
    }
    return out;
  }
  static std::string path() {
    return (std::filesystem::path(::testing::TempDir()) / fmt::format("chat_{}.json", ::getpid()))
        .string();
  }
  static void write(std::string_view text) { io::LineWriter(path()).write(text); }

  foretoken::ModelInfo model_;
  std::optional<ChatSession> session_;
  std::vector<std::string> requests_;
  std::vector<std::string> complaints_;
  std::string said_;
  std::size_t n_replies_ = 0;
  bool engine_fails_ = false;
};

TEST_F(Chat, KeepsWhatWasSaidAndThought) {
  EXPECT_TRUE(handle("one"));
  EXPECT_TRUE(handle("  "));
  EXPECT_TRUE(handle("//two"));
  EXPECT_THAT(contents(), ElementsAre("one", "reply 1", "/two", "reply 2"));
  EXPECT_EQ(session_->conversation().messages()[1].reasoning, "thought 1");
  ASSERT_EQ(requests_.size(), 2U);
  EXPECT_EQ(requests_[1],
            R"({"enable_thinking":true,"messages":[{"role":"user","content":"one"},)"
            R"({"role":"assistant","content":"reply 1","reasoning_content":"thought 1"},)"
            R"({"role":"user","content":"/two"}]})");
  EXPECT_THAT(complaints_, IsEmpty());
}

TEST_F(Chat, TakesAMessageBack_WhenTheEngineRefusesIt) {
  handle("one");
  engine_fails_ = true;
  EXPECT_TRUE(handle("two"));
  EXPECT_TRUE(handle("/regen"));
  EXPECT_THAT(contents(), ElementsAre("one", "reply 1"));
  EXPECT_THAT(complaints_, ElementsAre("too long", "too long"));
  EXPECT_TRUE(session_->has_failed());
}

TEST_F(Chat, AnswersAgain) {
  handle("/regen");
  EXPECT_THAT(complaints_, ElementsAre(HasSubstr("no message to answer")));
  handle("one");
  handle("/regen");
  EXPECT_THAT(contents(), ElementsAre("one", "reply 2"));
  EXPECT_EQ(requests_[1], requests_[0]);
}

TEST_F(Chat, ClearsMessages_AndKeepsTheSystemMessage) {
  handle("/system Be brief.");
  handle("one");
  handle("/clear");
  handle("two");
  EXPECT_THAT(contents(), ElementsAre("two", "reply 2"));
  EXPECT_THAT(requests_[1], HasSubstr(R"({"role":"system","content":"Be brief."})"));
  handle("/system");
  EXPECT_EQ(session_->conversation().system(), "");
}

TEST_F(Chat, EndsAtQuit_AndTellsStatisticsAndHelp) {
  handle("/stats");
  EXPECT_THAT(complaints_, ElementsAre(HasSubstr("no reply yet")));
  handle("one");
  handle("/stats");
  handle("/help");
  EXPECT_THAT(said_, HasSubstr("fast\n/help"));
  EXPECT_FALSE(handle("/quit"));
}

TEST_F(Chat, SavesAndLoads) {
  handle("/system S");
  handle("one");
  handle("/set thinking off");
  handle("/save " + path());
  const std::string file = io::read_text(path(), 10000);
  EXPECT_EQ(json::parse(file, "file").find("model")->as_string(""), "mini");
  handle("/clear");
  handle("/system other");
  handle("/set thinking on");
  handle("/load " + path());
  EXPECT_THAT(complaints_, IsEmpty());
  EXPECT_THAT(contents(), ElementsAre("one", "reply 1"));
  EXPECT_EQ(session_->conversation().messages()[1].reasoning, "thought 1");
  EXPECT_EQ(session_->conversation().system(), "S");
  EXPECT_FALSE(session_->settings().options().is_thinking());
}

TEST_F(Chat, KeepsItsState_WhenAFileIsNoChat) {
  handle("one");
  const std::vector<std::pair<const char*, const char*>> files = {
      {"{", "chat_"},
      {"[]", "no messages"},
      {R"({"messages":3})", "messages is an integer, expected an array"},
      {R"({"messages":[7]})", "message 0 is an integer, expected an object"},
      {R"({"messages":[{"role":"tool","content":"x"}]})", "message 0 has role 'tool'"},
      {R"({"messages":[{"role":"user","content":"x"},{"role":"system","content":"x"}]})",
       "message 1 has role 'system'"},
      {R"({"messages":[{"role":"assistant","tool_calls":[]}]})", "message 0 has 'tool_calls'"},
      {R"({"messages":[{"role":"user","content":[]}]})", "content is an array"},
      {R"({"messages":[{"role":"user","reasoning_content":"x"}]})", "'user''s"},
      {R"({"enable_thinking":"yes","messages":[]})", "enable_thinking is a string"},
  };
  for (const auto& [text, complaint] : files) {
    write(text);
    complaints_.clear();
    handle("/load " + path());
    EXPECT_THAT(complaints_, ElementsAre(HasSubstr(complaint))) << text;
    EXPECT_THAT(contents(), ElementsAre("one", "reply 1"));
  }
  handle("/load /nowhere/chat.json");
  EXPECT_EQ(complaints_.size(), 2U);
}

TEST_F(Chat, LeavesTheOldFile_WhenItCannotSave) {
  handle("/save /nowhere/chat.json");
  EXPECT_THAT(complaints_, ElementsAre(HasSubstr("/nowhere/chat.json")));
}

TEST_F(Chat, SetsWhatTheCommandLineSets) {
  for (const char* line : {"/set temperature 0.5",
                           "/set top_p 0.9",
                           "/set top_k 40",
                           "/set min_p 0.1",
                           "/set seed 7",
                           "/set max_tokens 12",
                           "/set stop two words",
                           "/set logit_bias 3:-1",
                           "/set ignore_eos on",
                           "/set speculate mtp,ngram",
                           "/set draft_tokens 3",
                           "/set accept ratio",
                           "/set show_drafts on",
                           "/set thinking off"}) {
    handle(line);
  }
  EXPECT_THAT(complaints_, IsEmpty());
  const ChatOptions& options = session_->settings().options();
  const foretoken::GenerationRequest request = chat_request(options);
  EXPECT_EQ(request.sampling.temperature, 0.5F);
  EXPECT_EQ(request.sampling.top_p, 0.9F);
  EXPECT_EQ(request.sampling.top_k, 40U);
  EXPECT_EQ(request.sampling.min_p, 0.1F);
  EXPECT_EQ(request.sampling.seed, 7U);
  EXPECT_EQ(request.max_tokens, 12U);
  EXPECT_THAT(request.stop, ElementsAre("two words"));
  EXPECT_EQ(request.sampling.logit_bias.size(), 1U);
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_THAT(request.speculate, ElementsAre("mtp", "ngram"));
  EXPECT_EQ(request.draft_tokens, 3U);
  EXPECT_EQ(request.accept, "ratio");
  EXPECT_TRUE(options.show_drafts);
  EXPECT_FALSE(options.is_thinking());

  handle("/set temperature default");
  handle("/set stop default");
  handle("/set");
  EXPECT_FALSE(session_->settings().options().generation.temperature);
  EXPECT_THAT(session_->settings().options().generation.stop, IsEmpty());
  EXPECT_THAT(said_, HasSubstr("max_tokens         12\ntemperature        the model's\n"));
}

TEST_F(Chat, RefusesASettingInTheWordsOfItsOption_AndKeepsTheOldOne) {
  handle("/set top_k 5");
  const std::vector<std::pair<const char*, const char*>> lines = {
      {"/set heat 3", "unknown setting 'heat'"},
      {"/set top-k 3", "unknown setting 'top-k'"},
      {"/set logprobs 3", "unknown setting 'logprobs'"},
      {"/set top_k", "'top_k' needs a value"},
      {"/set top_k many", "--top-k: is 'many', expected a whole number of at least 0"},
      {"/set max_tokens 0", "--max-tokens: is '0', expected a whole number of at least 1"},
      {"/set temperature hot", "--temperature"},
      {"/set temperature -1", "temperature is -1"},
      {"/set top_p 1.5", "top_p is 1.5"},
      {"/set seed -3", "--seed: is '-3'"},
      {"/set logit_bias 3", "--logit-bias is '3', expected ID:BIAS"},
      {"/set logit_bias 100:1", "logit_bias names token 100"},
      {"/set draft_tokens 65", "draft_tokens is 65, expected 0 to 64"},
      {"/set draft_tokens x", "--draft-tokens is 'x', expected auto or 0 to 64"},
      {"/set speculate turbo", "draft source 'turbo' is none of this model's"},
      {"/set speculate mtp,mtp", "named twice"},
      {"/set speculate prediction", "needs a prediction"},
      {"/set accept maybe", "accept is 'maybe'"},
      {"/set thinking perhaps", "--thinking: is 'perhaps', expected on or off"},
  };
  for (const auto& [line, complaint] : lines) {
    complaints_.clear();
    handle(line);
    EXPECT_THAT(complaints_, ElementsAre(HasSubstr(complaint))) << line;
  }
  EXPECT_EQ(session_->settings().options().generation.top_k, 5U);
}

TEST_F(Chat, RefusesToDraft_WhenItWasStartedWithout) {
  ChatOptions options;
  options.speculation.speculate = {"none"};
  ChatSettings settings(options, model_);
  EXPECT_THROW(settings.set("speculate", "mtp"), InvalidInput);
  settings.set("speculate", "none");
}

}  // namespace
}  // namespace ft::apps
