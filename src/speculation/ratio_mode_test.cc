// Ratio mode through whole rounds: the law of the text, what sources are asked for, what fails.
#include "base/error.h"
#include "base/random.h"
#include "speculation/decode_round.h"
#include "testing/generation.h"
#include "testing/law_check.h"

#include <array>
#include <map>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

using testing::FakeModel;
using testing::FakeModelOptions;
using testing::Generation;
using testing::GenerationOptions;
using ::testing::HasSubstr;
using testing::LawCheck;

constexpr std::size_t kVocab = 8;
constexpr double kRight = 4;  // standard deviations
constexpr double kWrong = 8;

// Knows the model: drafts from its logits, disturbed. Goes on behind any drafts.
class DrawingSource final : public DraftSource {
 public:
  DrawingSource(const FakeModel& model, const sampling::SamplingParams& params)
      : model_(model), sampler_(params, kVocab) {}

  std::string_view name() const noexcept override { return "drawing"; }
  void observe(const Committed& committed) override {
    sequence_.assign(committed.sequence.begin(), committed.sequence.end());
    n_prompt_ = committed.n_prompt;
  }
  Draft propose(const DraftRequest& request, std::stop_token /*stop*/) override {
    requests.push_back(request);
    std::vector<Token> tokens = sequence_;
    tokens.insert(tokens.end(), request.ahead.begin(), request.ahead.end());
    Draft out;
    for (std::size_t i = 0; i < request.max_tokens; ++i) {
      const std::vector<float> logits = disturbed(tokens);
      const sampling::History history{tokens, n_prompt_};
      const NoisePurpose purpose =
          request.wants_laws ? NoisePurpose::kDraft : NoisePurpose::kTarget;
      out.tokens.push_back(sampler_.pick(logits, history, purpose, request.attempt));
      if (request.wants_laws) {
        out.laws.resize(out.laws.size() + kVocab);
        sampling::Sampler& law = has_raw_laws ? raw_ : sampler_;
        law.probabilities(logits, history, std::span(out.laws).last(kVocab));
      }
      tokens.push_back(out.tokens.back());
    }
    out.laws.resize(out.laws.size() + n_too_many - n_too_few);
    return out;
  }

  std::vector<DraftRequest> requests;  // their `ahead` is dead
  std::size_t n_too_many = 0;          // numbers of its laws
  std::size_t n_too_few = 0;
  bool has_raw_laws = false;  // planted bug: from before temperature and filters

 private:
  std::vector<float> disturbed(TokenSpan tokens) const {
    std::vector<float> logits = model_.logits_after(tokens);
    for (std::size_t id = 0; id < kVocab; ++id) {
      const auto index = static_cast<std::uint32_t>(id + kVocab * tokens.size());
      logits[id] = 0.6F * logits[id] +
                   static_cast<float>(2 * noise_uniform(3, NoisePurpose::kDraft, 0, index));
    }
    return logits;
  }

  const FakeModel& model_;
  sampling::Sampler sampler_;
  sampling::Sampler raw_{{}, kVocab};
  std::vector<Token> sequence_;
  std::size_t n_prompt_ = 0;
};

// Drafts that are no draws.
class FixedSource final : public DraftSource {
 public:
  std::string_view name() const noexcept override { return "fixed"; }
  void observe(const Committed& committed) override { last_ = committed.sequence.back(); }
  Draft propose(const DraftRequest& request, std::stop_token /*stop*/) override {
    Draft out;
    Token token = request.ahead.empty() ? last_ : request.ahead.back();
    for (std::size_t i = 0; i < request.max_tokens; ++i) {
      token = static_cast<Token>((5 * token + 3) % static_cast<Token>(kVocab));
      out.tokens.push_back(token);
    }
    return out;
  }

 private:
  Token last_ = 0;
};

FakeModel make_model() {
  FakeModelOptions options;
  options.n_vocab = kVocab;
  options.is_repetitive = true;
  options.head_quality = 50;
  return FakeModel(options);
}

GenerationOptions options_for(const sampling::SamplingParams& params, std::uint64_t seed) {
  GenerationOptions options;
  options.sampling = params;
  options.sampling.seed = seed;
  options.prompt = {3, 1, 4};
  options.cache_tokens = 64;
  return options;
}

enum class Who { kMtp, kDrawing, kFixed };
struct Part {
  Who who;
  std::size_t n_drafts;
};

struct LawCase {
  std::string name;
  sampling::SamplingParams sampling = {};
  std::vector<Part> parts;
  bool has_raw_laws = false;  // planted bug
  std::size_t n_texts = 30'000;
};

// Of the first tokens after the first one of prefill: two rounds, then until there are three.
struct TextLaws {
  LawCheck text;
  LawCheck second_round;
  std::size_t n_accepted = 0;
};

class Trials {
 public:
  explicit Trials(const LawCase& wanted) : wanted_(wanted), model_(make_model()) {}

  TextLaws run() {
    for (std::uint64_t seed = 1; seed <= wanted_.n_texts; ++seed) add_text(seed);
    std::vector<double> law;
    std::vector<Token> tokens = options_for({}, 0).prompt;
    add_texts(tokens, 1, law);
    laws_.text.add(texts_, law);
    for (const auto& [round_1, counts] : second_rounds_) {
      laws_.second_round.add(counts, law_after(round_1));
    }
    return laws_;
  }

 private:
  void add_text(std::uint64_t seed) {
    const GenerationOptions options = options_for(wanted_.sampling, seed);
    Generation generation(model_, options);
    DraftSource& mtp = generation.add_source("mtp");
    DrawingSource drawing(model_, options.sampling);
    drawing.has_raw_laws = wanted_.has_raw_laws;
    FixedSource fixed;
    generation.add_source(drawing);
    generation.add_source(fixed);
    generation.state().accept = sampling::AcceptMode::kRatio;
    generation.state().stop_tokens = {};
    generation.prefill();
    std::vector<Proposer> proposers;
    for (const Part& part : wanted_.parts) {
      const std::array<DraftSource*, 3> sources = {&mtp, &drawing, &fixed};
      proposers.push_back({sources.at(static_cast<std::size_t>(part.who)), part.n_drafts});
    }
    laws_.n_accepted += decode_round(generation.state(), proposers, {}).n_accepted;
    const std::vector<Token> round_1 = generation.tokens();
    decode_round(generation.state(), proposers, {});
    const TokenSpan output = TokenSpan(generation.tokens()).subspan(options.prompt.size());
    ++texts_[static_cast<std::size_t>((output[0] * 8 + output[1]) * 8 + output[2])];
    std::vector<std::uint64_t>& group = second_rounds_[round_1];
    group.resize(kVocab);
    ++group[static_cast<std::size_t>(generation.tokens()[round_1.size()])];
  }

  std::vector<double> law_after(TokenSpan tokens) const {
    std::vector<float> law(kVocab);
    sampling::Sampler(wanted_.sampling, kVocab)
        .probabilities(model_.logits_after(tokens), {tokens, 3}, law);
    return {law.begin(), law.end()};
  }
  void add_texts(std::vector<Token>& tokens, double probability, std::vector<double>& out) const {
    if (tokens.size() == 6) {
      out.push_back(probability);
      return;
    }
    const std::vector<double> law = law_after(tokens);
    for (std::size_t id = 0; id < kVocab; ++id) {
      tokens.push_back(static_cast<Token>(id));
      add_texts(tokens, probability * law[id], out);
      tokens.pop_back();
    }
  }

  const LawCase& wanted_;
  FakeModel model_;
  std::vector<std::uint64_t> texts_ = std::vector<std::uint64_t>(kVocab * kVocab * kVocab);
  std::map<std::vector<Token>, std::vector<std::uint64_t>> second_rounds_;
  TextLaws laws_;
};

class RatioLaw : public ::testing::TestWithParam<LawCase> {};

TEST_P(RatioLaw, IsThatOfPlainDecoding) {
  const TextLaws laws = Trials(GetParam()).run();
  EXPECT_LT(laws.text.sigmas(), kRight);
  EXPECT_LT(laws.second_round.sigmas(), kRight);
  EXPECT_GT(laws.n_accepted, GetParam().n_texts / 20);
}

std::vector<LawCase> cases() {
  const sampling::SamplingParams plain;
  const sampling::SamplingParams filtered = {.temperature = 0.9F,
                                             .top_k = 6,
                                             .top_p = 0.95F,
                                             .min_p = 0.02F,
                                             .repetition_penalty = 1.2F,
                                             .presence_penalty = 0.3F,
                                             .frequency_penalty = 0.4F,
                                             .logit_bias = {{2, 0.5F}}};
  return {
      {.name = "mtp_1", .sampling = plain, .parts = {{Who::kMtp, 1}}},
      {.name = "mtp_3", .sampling = plain, .parts = {{Who::kMtp, 3}}},
      {.name = "drawing_2", .sampling = plain, .parts = {{Who::kDrawing, 2}}},
      {.name = "fixed_2", .sampling = plain, .parts = {{Who::kFixed, 2}}},
      {.name = "fixed_drawing", .sampling = plain, .parts = {{Who::kFixed, 1}, {Who::kDrawing, 2}}},
      {.name = "mtp_fixed_drawing_filtered",
       .sampling = filtered,
       .parts = {{Who::kMtp, 1}, {Who::kFixed, 1}, {Who::kDrawing, 1}}},
      {.name = "mtp_2_filtered", .sampling = filtered, .parts = {{Who::kMtp, 2}}}};
}

INSTANTIATE_TEST_SUITE_P(Sources, RatioLaw, ::testing::ValuesIn(cases()), [](const auto& wanted) {
  return wanted.param.name;
});

TEST(RatioLawBugs, LawsFromBeforeTheFiltersAreCaught) {
  sampling::SamplingParams params;
  params.top_k = 3;
  LawCase wanted{.name = "raw", .sampling = params, .parts = {{Who::kDrawing, 2}}};
  EXPECT_LT(Trials(wanted).run().text.sigmas(), kRight);
  wanted.has_raw_laws = true;
  EXPECT_GT(Trials(wanted).run().text.sigmas(), kWrong);
}

TEST(RatioMode, WithoutDraftsTheTextIsThatOfPlainDecoding) {
  const FakeModel model = make_model();
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const GenerationOptions options = options_for({}, seed);
    Generation generation(model, options);
    generation.state().accept = sampling::AcceptMode::kRatio;
    EXPECT_EQ(generation.run([](std::size_t) { return std::pair(-1, std::size_t{0}); }),
              generate_plainly(model, options));
  }
}

TEST(RatioMode, GreedyTextIsThatOfPlainDecoding) {
  const FakeModel model = make_model();
  sampling::SamplingParams greedy;
  greedy.temperature = 0;
  greedy.frequency_penalty = 0.3F;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const GenerationOptions options = options_for(greedy, seed);
    Generation generation(model, options);
    generation.add_source("mtp");
    DrawingSource drawing(model, options.sampling);
    generation.add_source(drawing);
    generation.state().accept = sampling::AcceptMode::kRatio;
    EXPECT_EQ(generation.run([](std::size_t round) {
      return std::pair(static_cast<int>(round % 2), std::size_t{3});
    }),
              generate_plainly(model, options));
    for (const DraftRequest& request : drawing.requests) EXPECT_FALSE(request.wants_laws);
  }
}

std::vector<Token> ratio_text(const FakeModel& model,
                              const GenerationOptions& options,
                              std::size_t depth) {
  Generation generation(model, options);
  generation.add_source("mtp");
  generation.state().accept = sampling::AcceptMode::kRatio;
  return generation.run([depth](std::size_t) { return std::pair(0, depth); });
}

TEST(RatioMode, AScheduleIsReproducedAndAnotherOneIsAnotherText) {
  const FakeModel model = make_model();
  std::size_t n_other = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const GenerationOptions options = options_for({}, seed);
    const std::vector<Token> text = ratio_text(model, options, 3);
    EXPECT_EQ(ratio_text(model, options, 3), text);
    if (ratio_text(model, options, 2) != text) ++n_other;
  }
  EXPECT_GT(n_other, 10u);
}

TEST(RatioMode, AsksForLawsWithTheRoundAsAttempt) {
  const FakeModel model = make_model();
  const GenerationOptions options = options_for({}, 5);
  for (const auto mode : {sampling::AcceptMode::kMatch, sampling::AcceptMode::kRatio}) {
    Generation generation(model, options);
    DrawingSource source(model, options.sampling);
    generation.add_source(source);
    generation.state().accept = mode;
    generation.prefill();
    for (std::size_t i = 0; i < 3; ++i) generation.round(&source, 2);
    ASSERT_EQ(source.requests.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(source.requests[i].attempt, i);
      EXPECT_EQ(source.requests[i].wants_laws, mode == sampling::AcceptMode::kRatio);
    }
  }
}

// Of a draft that is no draw the walk is all that the attempt is for.
TEST(RatioMode, WalksWithTheRoundAsAttempt) {
  const FakeModel model = make_model();
  std::size_t n_other = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::array<std::vector<Token>, 3> texts;
    for (const std::size_t attempt : {0u, 1u, 2u}) {
      Generation generation(model, options_for({}, seed));
      FixedSource source;
      generation.add_source(source);
      generation.state().accept = sampling::AcceptMode::kRatio;
      generation.state().n_rounds = attempt;
      generation.prefill();
      generation.round(&source, 2);
      texts.at(attempt) = generation.tokens();
    }
    if (texts[1] != texts[0] || texts[2] != texts[0]) ++n_other;
  }
  EXPECT_GT(n_other, 20u);
}

TEST(RatioMode, LawsOfAWrongSizeFailTheRoundAndLeaveEverythingAsItWas) {
  const FakeModel model = make_model();
  const GenerationOptions options = options_for({}, 5);
  Generation generation(model, options);
  DrawingSource source(model, options.sampling);
  generation.add_source(source);
  generation.state().accept = sampling::AcceptMode::kRatio;
  generation.prefill();
  const std::vector<Token> before = generation.tokens();
  const auto expect_refused = [&](const char* expected) {
    try {
      generation.round(&source, 2);
      FAIL();
    } catch (const LogicError& error) {
      EXPECT_THAT(error.what(), HasSubstr(expected));
    }
    EXPECT_EQ(generation.tokens(), before);
  };
  source.n_too_few = 1;
  expect_refused("'drawing' returned laws of 15 numbers, expected 16");
  source.n_too_few = 0;
  source.n_too_many = 1;
  expect_refused("'drawing' returned laws of 17 numbers, expected 16");
  source.n_too_many = 0;
  EXPECT_GE(generation.round(&source, 2).n_committed, 1u);
}

TEST(RatioMode, MtpAcceptsMoreThanInMatchMode) {
  const FakeModel model = make_model();
  std::array<std::size_t, 2> n_accepted{};
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    for (const auto mode : {sampling::AcceptMode::kMatch, sampling::AcceptMode::kRatio}) {
      Generation generation(model, options_for({}, seed));
      DraftSource& mtp = generation.add_source("mtp");
      generation.state().accept = mode;
      generation.prefill();
      for (std::size_t i = 0; i < 4; ++i) {
        n_accepted.at(static_cast<std::size_t>(mode)) += generation.round(&mtp, 1).n_accepted;
      }
    }
  }
  EXPECT_GT(n_accepted[1], n_accepted[0]);
}

}  // namespace
}  // namespace ft::speculation
