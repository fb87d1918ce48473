// The shipped model against the float64 oracle, through the program.
#include "program.h"

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace ft::e2e {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{16} << 20;

json::Value goldens(const std::string& name) {
  const std::string path = FT_SOURCE_DIR "/models/goldens/" + name;
  return json::parse(io::read_text(path, kMaxFileBytes), name);
}

const json::Value& at(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  if (value == nullptr) throw std::out_of_range(std::string(name));
  return *value;
}

std::vector<double> to_reals(const json::Value& array) {
  std::vector<double> out;
  for (const json::Value& value : array.as_array("reals")) out.push_back(value.as_real("real"));
  return out;
}

double deviation(const std::vector<double>& values) {
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  const auto n = static_cast<double>(values.size());
  return std::sqrt(squares / n - sum / n * (sum / n));
}

class Golden : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const json::Value file = goldens("glm-mini.json");
    entry_ = at(at(file, "entries"), GetParam());
    ids_ = to_ids(at(entry_, "ids"));
    tokens_ = to_ids(at(entry_, "tokens"));
  }

  json::Value entry_;
  std::vector<Token> ids_;
  std::vector<Token> tokens_;
};

// The f32 budget of one forward; the goldens themselves are rounded to 1e-6.
constexpr double kLogitTolerance = 2e-5;

TEST_P(Golden, LogitsAndDrafts) {
  const ProgramResult result =
      run_program({"logits", "--token-ids", join_ids(ids_), "--mtp", "3", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json::Value out = result.json();
  const std::vector<double> expected = to_reals(at(entry_, "logits"));
  const std::vector<double> found = to_reals(at(out, "logits").as_array("logits").at(0));
  ASSERT_EQ(found.size(), expected.size());
  const double tolerance = kLogitTolerance * deviation(expected) + 1e-6;
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance) << i;
  EXPECT_EQ(to_counts(at(out, "positions")), std::vector<std::size_t>{ids_.size() - 1});

  EXPECT_EQ(to_ids(at(at(out, "mtp"), "drafts")), to_ids(at(entry_, "mtp_drafts")));
  const json::Array& tops = at(entry_, "mtp_logits_top").as_array("mtp_logits_top");
  const json::Array& rows = at(at(out, "mtp"), "logits").as_array("mtp.logits");
  ASSERT_EQ(rows.size(), tops.size());
  for (std::size_t step = 0; step < tops.size(); ++step) {
    const std::vector<double> row = to_reals(rows[step]);
    for (const json::Value& pair : tops[step].as_array("top")) {
      const json::Array& id_and_logit = pair.as_array("pair");
      const auto id = static_cast<std::size_t>(id_and_logit[0].as_integer("id"));
      EXPECT_NEAR(
          row.at(id), id_and_logit[1].as_real("logit"), kLogitTolerance * deviation(row) + 1e-6);
    }
  }
}

TEST_P(Golden, GreedyTokensAndAcceptedLengths) {
  for (const char* depth : {"1", "3", "5"}) {
    const ProgramResult result = run_program({"generate",
                                              "--token-ids",
                                              join_ids(ids_),
                                              "--temperature",
                                              "0",
                                              "--ignore-eos",
                                              "-n",
                                              std::to_string(tokens_.size()),
                                              "--speculate",
                                              "mtp",
                                              "--draft-tokens",
                                              depth,
                                              "--draft-format",
                                              "stored",
                                              "--kv-type",
                                              "f32",
                                              "--json"});
    ASSERT_EQ(result.status, 0) << result.err;
    const json::Value out = result.json();
    EXPECT_EQ(to_ids(at(out, "token_ids")), tokens_);
    EXPECT_EQ(to_counts(at(at(out, "speculation"), "acceptance_lengths")),
              to_counts(at(at(entry_, "accepted"), depth)))
        << "depth " << depth;
  }
}

INSTANTIATE_TEST_SUITE_P(GlmMini,
                         Golden,
                         testing::Values("capital",
                                         "story",
                                         "thinking",
                                         "go",
                                         "python",
                                         "one_token",
                                         "unicode",
                                         "long_chat",
                                         "long_stories"),
                         [](const auto& param) { return param.param; });

TEST(GoldenText, TokenizesAsTheOracle) {
  const json::Value file = goldens("glm-mini.json");
  for (const auto& [name, entry] : at(file, "entries").as_object("entries")) {
    const ProgramResult result =
        run_program({"tokenize", at(entry, "prompt_text").as_string("prompt_text")});
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(to_ids(result.json()), to_ids(at(entry, "ids"))) << name;
  }
}

}  // namespace
}  // namespace ft::e2e
