// An engine on a fake model with a tokenizer, and all that its streams bring.
#pragma once

#include "engine/engine.h"
#include "io/file.h"
#include "testing/fake_clock.h"
#include "testing/fake_model.h"
#include "text/tokenizer_test_data.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

namespace ft::engine {

inline constexpr Token kEos = 0;
inline constexpr std::size_t kVocab =
    96;  // ids are bytes, all of them below 128: every token is one character

struct Collected {
  std::vector<Token> ids;
  std::string text;
  std::vector<foretoken::TokenLogprobs> logprobs;
  std::size_t n_prefilled = 0;
  foretoken::Completion completion;
};

inline std::string string_of(const std::vector<Token>& ids) {
  return {ids.begin(), ids.end()};
}

inline bool same_logprobs(const Collected& a, const Collected& b) {
  return std::equal(a.logprobs.begin(),
                    a.logprobs.end(),
                    b.logprobs.begin(),
                    b.logprobs.end(),
                    [](const auto& x, const auto& y) {
                      return x.chosen.id == y.chosen.id && x.chosen.logprob == y.chosen.logprob;
                    });
}

class EngineOnFakeModel : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("engine_test_" +
               std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) + "_" +
               std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    io::LineWriter(folder_ / "tokenizer.json").write(text::TokenizerFile{}.text());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Engine> open(std::size_t context = 512,
                               std::optional<unsigned> head_quality = 70,
                               std::size_t prefill_chunk = 512,
                               std::optional<std::size_t> max_prediction = std::nullopt) {
    EngineParts parts;
    parts.max_prediction = max_prediction;
    ft::testing::FakeModelOptions fake;
    fake.n_vocab = kVocab;
    fake.eos_token = kEos;
    fake.head_quality = head_quality;
    parts.model = std::make_unique<ft::testing::FakeModel>(fake);
    parts.clock = std::make_shared<const ft::testing::FakeClock>(3);
    parts.text = std::make_shared<const ModelText>(ModelText::open(folder_, parts.clock));
    parts.draw_seed = [] { return std::uint64_t{1234}; };
    parts.context = context;
    parts.prefill_chunk = prefill_chunk;
    return std::make_unique<Engine>(std::move(parts));
  }

  static foretoken::GenerationRequest request(std::size_t max_tokens = 40) {
    foretoken::GenerationRequest out;
    out.prompt = {11, 22, 33, 44, 55};
    out.max_tokens = max_tokens;
    out.sampling.temperature = 1.0F;
    out.sampling.seed = 3;
    out.ignore_eos = true;
    out.speculate = {"none"};
    out.logprobs = 0;
    return out;
  }

  static Collected collect(EventChannel& channel) {
    Collected out;
    while (auto event = channel.next()) {
      if (auto* progress = std::get_if<foretoken::PrefillProgress>(&*event)) {
        out.n_prefilled = progress->n_done;
      } else if (auto* tokens = std::get_if<foretoken::CommittedTokens>(&*event)) {
        out.ids.insert(out.ids.end(), tokens->ids.begin(), tokens->ids.end());
        out.text += tokens->text;
        out.logprobs.insert(out.logprobs.end(), tokens->logprobs.begin(), tokens->logprobs.end());
      } else {
        out.completion = std::get<foretoken::Completion>(*event);
      }
    }
    return out;
  }

  static Collected run(Engine& engine, foretoken::GenerationRequest wanted) {
    return collect(*engine.submit(std::move(wanted)));
  }

  std::filesystem::path folder_;
};

}  // namespace ft::engine
