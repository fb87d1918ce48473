// Speculation never changes a result: text, ids and log-probabilities are equal bit for bit over
// sources, draft lengths, thread counts, prefill chunks and sampling laws. In process, because it
// is a matrix of hundreds of requests.
#include "apps/difference.h"
#include "apps/outcome.h"
#include "base/thread_pool.h"
#include "engine/engine.h"
#include "engine/open_engine.h"
#include "foretoken/foretoken.h"
#include "program.h"
#include "testing/adversary_source.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <sched.h>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace ft::e2e {
namespace {

constexpr const char* kModel = FT_SOURCE_DIR "/models/glm-mini";
constexpr const char* kDraftModel = FT_SOURCE_DIR "/models/glm-mini-draft";

foretoken::Engine open(std::size_t n_threads, const std::string& kv_type) {
  foretoken::EngineOptions options;
  options.model_path = kModel;
  options.kv_type = kv_type;
  options.n_threads = n_threads;
  options.draft_model = kDraftModel;
  return foretoken::Engine::open(options);
}

apps::Outcome run(foretoken::Engine& engine, foretoken::GenerationRequest request) {
  foretoken::TokenStream stream = engine.submit(std::move(request));
  return apps::collect(stream, {});
}

enum class Law { kGreedy, kSampled, kPenalised };

foretoken::GenerationRequest request_of(Law law,
                                        std::vector<Token> prompt,
                                        std::size_t max_tokens) {
  foretoken::GenerationRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.logprobs = 2;
  request.sampling.seed = 20240229;
  switch (law) {
    case Law::kGreedy:
      request.sampling.temperature = 0.0F;
      break;
    case Law::kSampled:
      request.sampling.temperature = 1.0F;
      request.sampling.top_p = 0.95F;
      break;
    case Law::kPenalised:
      request.sampling.temperature = 0.8F;
      request.sampling.top_k = 50;
      request.sampling.repeat_penalty = 1.1F;
      request.sampling.presence_penalty = 0.2F;
      request.sampling.frequency_penalty = 0.3F;
      request.sampling.logit_bias = {{43, 1.5F}, {32, -2.0F}};
      break;
  }
  return request;
}

const std::vector<std::vector<std::string>> kSourceLists = {
    {"mtp"}, {"draft"}, {"prediction"}, {"ngram", "suffix"}, {"auto"}};

std::string describe(const foretoken::GenerationRequest& request) {
  std::string out = "chunk " + std::to_string(request.prefill_chunk) + ", depth " +
                    (request.draft_tokens ? std::to_string(*request.draft_tokens) : "auto") +
                    ", sources";
  for (const std::string& source : request.speculate) out += " " + source;
  return out;
}

void expect_same(const apps::Outcome& base,
                 const apps::Outcome& variant,
                 const std::string& label) {
  const auto difference = apps::first_difference(base, variant);
  EXPECT_FALSE(difference.has_value()) << label << ": " << apps::to_text(*difference);
}

class Exactness : public ::testing::TestWithParam<std::tuple<Law, std::size_t, std::string>> {};

TEST_P(Exactness, StoryOverSourcesDepthsAndChunks) {
  const auto [law, n_threads, kv_type] = GetParam();
  foretoken::Engine single = open(1, kv_type);
  const std::vector<Token> prompt = single.tokenizer().encode(kStory);
  foretoken::GenerationRequest request = request_of(law, prompt, 40);
  request.speculate = {"none"};
  const apps::Outcome base = run(single, request);
  ASSERT_EQ(base.token_ids.size(), 40U);

  foretoken::Engine engine = open(n_threads, kv_type);
  request.prediction = base.token_ids;
  for (std::size_t i = 7; i < request.prediction.size(); i += 11) ++request.prediction[i];
  std::size_t n_accepted = 0;
  for (const std::size_t chunk : {1, 7, 512}) {
    request.prefill_chunk = chunk;
    for (const std::vector<std::string>& sources : kSourceLists) {
      request.speculate = sources;
      for (std::size_t depth = 0; depth <= 9; ++depth) {
        request.draft_tokens = depth == 9 ? std::nullopt : std::optional(depth);
        const apps::Outcome variant = run(engine, request);
        expect_same(base, variant, describe(request));
        n_accepted += variant.completion.speculation.accepted;
      }
    }
  }
  EXPECT_GT(n_accepted, 0U) << "nothing was speculated, nothing was proved";
}

INSTANTIATE_TEST_SUITE_P(
    GlmMini,
    Exactness,
    ::testing::Combine(::testing::Values(Law::kGreedy, Law::kSampled, Law::kPenalised),
                       ::testing::Values(1U, 2U),
                       ::testing::Values("bf16", "f32")));

class ExactnessBeyondTopK : public ::testing::TestWithParam<std::string> {};

TEST_P(ExactnessBeyondTopK, LongPrompt) {
  // More positions than the indexer keeps, so that every row attends its own selection.
  foretoken::Engine single = open(1, GetParam());
  std::string text = "[gMASK]<sop>";
  for (int i = 0; i < 24; ++i) {
    text += "A wolf named Ada lived near the river " + std::to_string(i) + " and loved soup. ";
  }
  const std::vector<Token> prompt = single.tokenizer().encode(text);
  ASSERT_GT(prompt.size(), 300U);
  for (const Law law : {Law::kGreedy, Law::kSampled}) {
    foretoken::GenerationRequest request = request_of(law, prompt, 24);
    request.speculate = {"none"};
    const apps::Outcome base = run(single, request);
    for (const std::size_t n_threads : {1, 2}) {
      foretoken::Engine engine = open(n_threads, GetParam());
      for (const std::size_t chunk : {1, 7, 512}) {
        request.prefill_chunk = chunk;
        for (const std::size_t depth : {0, 1, 4, 8}) {
          request.speculate = {"mtp", "draft", "suffix", "ngram"};
          request.draft_tokens = depth;
          expect_same(base, run(engine, request), describe(request));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(GlmMini, ExactnessBeyondTopK, ::testing::Values("bf16", "f32"));

// Two turns of a conversation, then a branch of it, in one engine: what came before is not fed
// again.
TEST(ExactnessOfReusedPrefixes, ConversationOverSources) {
  foretoken::EngineOptions options;
  options.model_path = kModel;
  options.draft_model = kDraftModel;
  foretoken::Engine plain = foretoken::Engine::open(options);
  options.reuses_prefixes = true;
  options.max_sessions = 2;
  foretoken::Engine engine = foretoken::Engine::open(options);
  std::string text = "[gMASK]<sop>";  // longer than what the indexer keeps
  for (int i = 0; i < 24; ++i) text += "A wolf named Ada lived near the river, and loved soup. ";
  for (const std::vector<std::string>& sources : kSourceLists) {
    const Law law = sources.size() > 1 ? Law::kPenalised : Law::kSampled;
    // Each list begins its own conversation.
    foretoken::GenerationRequest request =
        request_of(law, plain.tokenizer().encode(sources[0] + text), 20);
    request.prediction = plain.tokenizer().encode(kStory);
    request.speculate = sources;
    const std::size_t n_first = request.prompt.size();
    for (std::size_t turn = 0; turn < 3; ++turn) {
      const apps::Outcome reused = run(engine, request);
      expect_same(run(plain, request), reused, sources[0] + ' ' + std::to_string(turn));
      const std::size_t n_cached = reused.completion.usage.cached_tokens;
      EXPECT_GE(n_cached, turn == 0 ? 0 : turn == 1 ? n_first + 19 : n_first);
      if (turn == 0) {
        request.prompt.insert(
            request.prompt.end(), reused.token_ids.begin(), reused.token_ids.end());
      }
      const std::size_t n_kept = turn == 0 ? request.prompt.size() : n_first + 5;
      request.prompt.resize(n_kept);
      for (const Token token : plain.tokenizer().encode(" And then")) {
        request.prompt.push_back(token);
      }
    }
  }
}

// Per thread of this process, how many processors it may run on.
std::vector<int> processors_per_thread() {
  std::vector<int> out;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(std::stoi(task.path().filename()), sizeof set, &set) == 0) {
      out.push_back(CPU_COUNT(&set));
    }
  }
  return out;
}

TEST(ExactnessPinned, ComputeThreadsStayOnOneProcessorAndChangeNothing) {
  const std::size_t n_threads = std::min<std::size_t>(usable_cores(), 2);
  foretoken::EngineOptions options;
  options.model_path = kModel;
  options.n_threads = n_threads;
  const std::vector<int> before = processors_per_thread();
  foretoken::Engine free = foretoken::Engine::open(options);
  options.pin_threads = true;
  foretoken::Engine pinned = foretoken::Engine::open(options);
  const auto request = request_of(Law::kSampled, free.tokenizer().encode(kStory), 24);
  expect_same(run(free, request), run(pinned, request), "pinned");
  const std::vector<int> after = processors_per_thread();
  // Where the process has one processor, every thread is bound to it anyway.
  const auto n_bound = [](const std::vector<int>& threads) {
    return std::count(threads.begin(), threads.end(), 1);
  };
  EXPECT_EQ(n_bound(after),
            n_bound(before) == 0 ? static_cast<std::ptrdiff_t>(n_threads) : std::ssize(after));

  options.n_threads = 1000;
  try {
    foretoken::Engine::open(options);
    FAIL() << "1000 pinned threads";
  } catch (const foretoken::Error& error) {
    EXPECT_EQ(error.code(), foretoken::ErrorCode::kInvalidInput);
    EXPECT_NE(std::string(error.what()).find("pin_threads is set for 1000 threads"),
              std::string::npos);
  }
}

class AdversaryProvider final : public speculation::DraftProvider {
 public:
  explicit AdversaryProvider(ft::testing::Malice malice) : malice_(malice) {}
  std::unique_ptr<speculation::DraftSource> open(
      const speculation::SourceContext& context) const override {
    const models::ModelConfig& config = context.model->config();
    return std::make_unique<ft::testing::AdversarySource>(
        malice_, config.n_vocab, config.eos_tokens.front(), 17);
  }

 private:
  ft::testing::Malice malice_;
};

std::vector<Token> run_ids(engine::Engine& engine, foretoken::GenerationRequest request) {
  const auto channel = engine.submit(std::move(request));
  std::vector<Token> out;
  while (auto event = channel->next()) {
    if (const auto* tokens = std::get_if<foretoken::CommittedTokens>(&*event)) {
      out.insert(out.end(), tokens->ids.begin(), tokens->ids.end());
    }
  }
  return out;
}

TEST(ExactnessAdversary, BadDraftsChangeNothing) {
  using ft::testing::Malice;
  for (const Malice malice : {Malice::kRandomTokens, Malice::kEndOfText, Malice::kRepeatsPending}) {
    foretoken::EngineOptions options;
    options.model_path = kModel;
    engine::EngineParts parts = engine::open_parts(options);
    parts.providers["adversary"] = std::make_unique<AdversaryProvider>(malice);
    engine::Engine engine(std::move(parts));
    const std::vector<Token> prompt = engine.parts().text->tokenizer().encode(kStory);
    for (const Law law : {Law::kGreedy, Law::kSampled}) {
      foretoken::GenerationRequest request = request_of(law, prompt, 40);
      request.speculate = {"none"};
      const std::vector<Token> base = run_ids(engine, request);
      for (const std::size_t depth : {1, 3, 8}) {
        request.draft_tokens = depth;
        request.speculate = {"adversary"};
        EXPECT_EQ(run_ids(engine, request), base);
        request.speculate = {"adversary", "mtp"};
        EXPECT_EQ(run_ids(engine, request), base);
      }
    }
  }
}

}  // namespace
}  // namespace ft::e2e
