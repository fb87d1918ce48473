// The GLM-5 family against the float64 oracle: golden outputs of the shipped model, and random
// checkpoints of many shapes, on every instruction set this processor has.
#include "io/file.h"
#include "json/json.h"
#include "models/glm_test_model.h"
#include "models/model.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace ft::models {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxJsonBytes = std::size_t{256} << 20;
/// Largest error of a logit, in standard deviations of its row. f32 arithmetic on f32 activations
/// leaves about 4e-6.
constexpr double kTolerance = 2e-5;
const fs::path kSource = FT_SOURCE_DIR;

std::vector<Token> tokens_of(const json::Value& value) {
  std::vector<Token> tokens;
  for (const json::Value& item : value.as_array("tokens")) {
    tokens.push_back(static_cast<Token>(item.as_integer("token")));
  }
  return tokens;
}

std::vector<double> reals_of(const json::Value& value) {
  std::vector<double> reals;
  for (const json::Value& item : value.as_array("row")) reals.push_back(item.as_real("logit"));
  return reals;
}

double deviation_of(const std::vector<double>& row) {
  double mean = 0;
  for (const double x : row) mean += x / static_cast<double>(row.size());
  double variance = 0;
  for (const double x : row) variance += (x - mean) * (x - mean) / static_cast<double>(row.size());
  return std::sqrt(variance);
}

/// Largest absolute difference over the expected row's standard deviation.
double error_of(std::span<const float> actual, const std::vector<double>& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(actual[i] - expected[i]));
  }
  return largest / deviation_of(expected);
}

json::Value read_json(const fs::path& path) {
  return json::parse(io::read_text(path, kMaxJsonBytes), path.filename().string());
}

class GlmOracleTest : public ::testing::TestWithParam<kernels::Isa> {};

INSTANTIATE_TEST_SUITE_P(All,
                         GlmOracleTest,
                         ::testing::ValuesIn(kernels::usable_isas()),
                         [](const auto& param) {
                           return std::string(kernels::isa_name(param.param));
                         });

// --- golden outputs of the shipped model

/// Greedy decoding must follow the golden tokens up to the first whose margin the tolerance could
/// turn.
void check_continuation(const Model& model,
                        cache::KvCache& cache,
                        const json::Value& entry,
                        double deviation) {
  const std::vector<Token> tokens = tokens_of(*entry.find("tokens"));
  const std::vector<double> margins = reals_of(*entry.find("margins"));
  const auto workspace = model.new_workspace();
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (margins[i + 1] < 2 * kTolerance * deviation) return;
    const SequenceSlice slice{&cache, {&tokens[i], 1}, 1};
    const ForwardOutput& output = model.forward({&slice, 1}, {}, {}, *workspace);
    ASSERT_EQ(argmax(output.logits.row(0)), tokens[i + 1]) << "token " << i + 1;
  }
}

/// The largest error over the eight best logits of each draft step.
double check_drafts(const Model& model,
                    const RowCopy& hidden,
                    TokenSpan next_tokens,
                    const json::Value& entry,
                    double deviation) {
  const DraftHead& head = *model.draft_head();
  const auto cache = head.new_cache({.max_tokens = 1024});
  const Drafted drafted = draft(head, *cache, hidden.view(0, hidden.size()), next_tokens, 3);
  EXPECT_EQ(drafted.tokens, tokens_of(*entry.find("mtp_drafts")));
  double largest = 0;
  const json::Array& steps = entry.find("mtp_logits_top")->as_array("mtp_logits_top");
  for (std::size_t step = 0; step < steps.size(); ++step) {
    for (const json::Value& pair : steps[step].as_array("step")) {
      const std::vector<double> id_and_logit = reals_of(pair);
      const auto id = static_cast<std::size_t>(id_and_logit[0]);
      const double actual = drafted.logits.view(step, 1).data[id];
      largest = std::max(largest, std::abs(actual - id_and_logit[1]) / deviation);
    }
  }
  EXPECT_LE(largest, kTolerance);
  return largest;
}

TEST_P(GlmOracleTest, ReproducesTheGoldenOutputsOfTheShippedModel) {
  const LoadedModel loaded(kSource / "models/glm-mini", GetParam(), 2);
  const json::Value goldens = read_json(kSource / "models/goldens/glm-mini.json");
  const std::string check_weights =
      fmt::format("cat '{}'/*.safetensors | sha256sum | grep -q '^{} '",
                  (kSource / "models/glm-mini").string(),
                  goldens.find("weights_sha256")->as_string("weights_sha256"));
  ASSERT_EQ(std::system(check_weights.c_str()), 0) << "golden outputs of other weights";
  double worst = 0;
  double worst_draft = 0;
  for (const auto& [name, entry] : goldens.find("entries")->as_object("entries")) {
    SCOPED_TRACE(name);
    const std::vector<Token> ids = tokens_of(*entry.find("ids"));
    const std::vector<double> expected = reals_of(*entry.find("logits"));
    const auto cache = loaded.model->new_cache({.max_tokens = 1024});
    const auto workspace = loaded.model->new_workspace();
    const LayerIndex tap = 8;
    const SequenceSlice slice{cache.get(), ids, 1};
    const ForwardOutput& output = loaded.model->forward({&slice, 1}, {&tap, 1}, {}, *workspace);
    const RowCopy hidden(output.taps[0]);
    const double error = error_of(output.logits.row(0), expected);
    EXPECT_LE(error, kTolerance);
    worst = std::max(worst, error);

    const double deviation = deviation_of(expected);
    std::vector<Token> next_tokens(ids.begin() + 1, ids.end());
    next_tokens.push_back(tokens_of(*entry.find("tokens")).front());
    worst_draft =
        std::max(worst_draft, check_drafts(*loaded.model, hidden, next_tokens, entry, deviation));
    check_continuation(*loaded.model, *cache, entry, deviation);
  }
  fmt::print("{}: largest error {:.1e} of a deviation, of drafts {:.1e}\n",
             kernels::isa_name(GetParam()),
             worst,
             worst_draft);
}

// --- random checkpoints

/// Runs the oracle unless its results are there. Returns the folder with one case in each
/// subfolder.
fs::path oracle_cases() {
  const fs::path folder = fs::path(FT_BINARY_DIR) / "oracle_cases";
  const std::string command = fmt::format("/usr/bin/python3 '{}' '{}'",
                                          (kSource / "tests/oracle/run_cases.py").string(),
                                          folder.string());
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  return folder;
}

double check_logits(const RowCopy& actual, const json::Value& expected) {
  const json::Array& rows = expected.as_array("logits");
  EXPECT_EQ(actual.size(), rows.size());
  double worst = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const double error = error_of(actual.view(r, 1).row(0), reals_of(rows[r]));
    EXPECT_LE(error, kTolerance) << "row " << r;
    worst = std::max(worst, error);
  }
  return worst;
}

/// Commits the sequence piece by piece, as a session does, and drafts after each: pieces of which
/// all rows go through one step, pieces appended first (another source proposed), and pieces
/// without a draft.
double check_draft_head(const Model& model,
                        const std::vector<Token>& tokens,
                        const json::Value& expected) {
  const DraftHead& head = *model.draft_head();
  const auto cache = model.new_cache({.max_tokens = tokens.size()});
  const auto draft_cache = head.new_cache({.max_tokens = tokens.size() + 3});
  const auto workspace = head.new_workspace();
  double worst = 0;
  std::size_t begin = 0;
  std::size_t n_pieces = 0;
  for (const json::Value& piece : expected.as_array("mtp")) {
    const auto end = static_cast<std::size_t>(piece.find("length")->as_integer("length"));
    const TokenSpan fed_tokens = TokenSpan(tokens).subspan(begin, end - begin);
    const TokenSpan next_tokens = TokenSpan(tokens).subspan(begin + 1, end - begin);
    const RowCopy hidden = feed(model, *cache, fed_tokens, fed_tokens.size()).hidden;
    const std::size_t kind = n_pieces++ % 3;
    const std::size_t n_appended = kind == 0 ? 0 : kind == 1 ? hidden.size() - 1 : hidden.size();
    head.append(
        *draft_cache, hidden.view(0, n_appended), next_tokens.first(n_appended), *workspace);
    if (n_appended < hidden.size()) {
      const Drafted drafted = draft(head,
                                    *draft_cache,
                                    hidden.view(n_appended, hidden.size() - n_appended),
                                    next_tokens.subspan(n_appended),
                                    3);
      EXPECT_EQ(drafted.tokens, tokens_of(*piece.find("drafts"))) << "length " << end;
      worst = std::max(worst, check_logits(drafted.logits, *piece.find("logits")));
    }
    EXPECT_EQ(draft_cache->length(), end);
    begin = end;
  }
  return worst;
}

struct WorstErrors {
  double logits = 0;
  double drafts = 0;
};

void check_case(const fs::path& folder, kernels::Isa isa, WorstErrors& worst) {
  const json::Value expected = read_json(folder / "expected.json");
  const std::vector<Token> tokens = tokens_of(*expected.find("tokens"));
  const json::Value* shipped = expected.find("model");
  const fs::path model_folder = shipped != nullptr ? kSource / shipped->as_string("model") : folder;
  const LoadedModel one(model_folder, isa, 1);
  const LoadedModel two(model_folder, isa, 2);

  const auto logits = [&](const LoadedModel& loaded, std::size_t chunk) {
    const auto cache = loaded.model->new_cache({.max_tokens = tokens.size()});
    return feed(*loaded.model, *cache, tokens, chunk).logits;
  };
  const RowCopy whole = logits(one, tokens.size());
  worst.logits = std::max(worst.logits, check_logits(whole, *expected.find("logits")));
  for (const std::size_t chunk : {std::size_t{1}, std::size_t{7}, tokens.size()}) {
    EXPECT_EQ(logits(one, chunk), whole) << "chunk " << chunk;
    EXPECT_EQ(logits(two, chunk), whole) << "2 threads, chunk " << chunk;
  }
  const json::Value* mtp = expected.find("mtp");
  ASSERT_EQ(mtp != nullptr, one.model->draft_head() != nullptr);
  if (mtp == nullptr) return;
  for (const LoadedModel* loaded : {&one, &two}) {
    worst.drafts = std::max(worst.drafts, check_draft_head(*loaded->model, tokens, *mtp));
  }
}

TEST_P(GlmOracleTest, AgreesOnRandomCheckpoints) {
  std::size_t n_cases = 0;
  WorstErrors worst;
  for (const auto& folder : fs::directory_iterator(oracle_cases())) {
    if (!folder.is_directory()) continue;
    SCOPED_TRACE(folder.path().filename().string());
    check_case(folder.path(), GetParam(), worst);
    ++n_cases;
  }
  EXPECT_GE(n_cases, 20U);
  fmt::print("{}: {} checkpoints, largest error {:.1e} of a deviation, of drafts {:.1e}\n",
             kernels::isa_name(GetParam()),
             n_cases,
             worst.logits,
             worst.drafts);
}

}  // namespace
}  // namespace ft::models
