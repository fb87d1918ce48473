#include "apps/bench_prompt.h"

#include "base/error.h"
#include "base/random.h"

#include <array>
#include <string_view>

namespace ft::apps {
namespace {

constexpr std::string_view kOpening =
    "[gMASK]<sop><|user|>Tell me a story about a wolf.<|assistant|><think></think>";
constexpr std::size_t kRandomOpening = 16;

constexpr std::array<std::string_view, 36> kSentences = {
    "The ferry left the harbour at seven, and nobody on the pier waved. ",
    "Marta counted the lamps along the canal and found one more than yesterday. ",
    "In the attic stood a clock that ran only while it rained. ",
    "The baker's son had learned to whistle with two fingers and would not stop. ",
    "A letter without a stamp lay on the mat, addressed to the dog. ",
    "By noon the snow had turned the road into a river of mud. ",
    "Old Henrik kept bees because, he said, they never asked for advice. ",
    "The map showed a bridge where there had never been one. ",
    "She put the kettle on and waited for the argument to boil. ",
    "Three crows sat on the weathervane and faced in three directions. ",
    "The train stopped between two stations, and the conductor blamed the moon. ",
    "Nobody had opened the red door since the winter of the long frost. ",
    "He wrote the answer on the back of his hand and forgot the question. ",
    "The market smelled of oranges, wet wool and coal smoke. ",
    "Below the lighthouse the sea was busy grinding stones into sand. ",
    "The youngest of the sisters could tell the weather from the taste of bread. ",
    "A cart with one wheel missing blocked the gate until evening. ",
    "The teacher drew a circle on the board and asked where it began. ",
    "When the wind turned, the whole village heard the mill complain. ",
    "The cat slept on the ledger, and so the accounts were never finished. ",
    "They followed the fence for an hour before they saw that it was a ring. ",
    "An apple rolled down the stairs, one step at a time, quite unhurried. ",
    "The doctor prescribed a walk, a pear and a good excuse. ",
    "Under the bench lay a key that fitted every lock but its own. ",
    "The river had moved its bed again, and two farmers had to trade their fields. ",
    "At the edge of the wood somebody had planted a row of umbrellas. ",
    "The choir sang a little flat, but it sang with all its heart. ",
    "He sold his boat in spring, bought a piano, and learned to sail it. ",
    "The night watchman read the same page every night and liked it better each time. ",
    "On the hill a single goat stood guard over nothing at all. ",
    "The post came late because the postman had stopped to watch an eclipse. ",
    "Grandmother's recipe began with a warning and ended with a song. ",
    "The painter owned eleven blues and a very small amount of yellow. ",
    "A stranger asked the way to the sea and was given directions to the pub. ",
    "The well was so deep that a dropped coin came back with a story. ",
    "When they finally opened the box, it held another label and a smaller box. "};

std::uint64_t drawn(std::uint64_t seed, std::size_t i) {
  return noise_bits(seed, NoisePurpose::kTarget, i, 0);
}

bool has_tokenizer(const foretoken::Engine& engine) {
  try {
    engine.tokenizer();
    return true;
  } catch (const foretoken::Error&) {
    return false;
  }
}

std::vector<foretoken::Token> random_ids(std::size_t n_vocab, std::uint64_t seed, std::size_t n) {
  std::vector<foretoken::Token> out;
  for (std::size_t i = 0; i < n; ++i) {
    out.push_back(static_cast<foretoken::Token>(drawn(seed, i) % n_vocab));
  }
  return out;
}

}  // namespace

std::vector<foretoken::Token> bench_tokens(const foretoken::Engine& engine,
                                           const BenchPromptOptions& options,
                                           std::size_t n) {
  if (!has_tokenizer(engine)) return random_ids(engine.model().n_vocab, options.seed, n);
  const foretoken::Tokenizer& tokenizer = engine.tokenizer();
  if (options.text) {
    const std::vector<foretoken::Token> once = tokenizer.encode(*options.text);
    if (once.empty()) fail("--prompt-file has no tokens; give it a text");
    std::vector<foretoken::Token> out;
    while (out.size() < n) out.insert(out.end(), once.begin(), once.end());
    return out;
  }
  // Pieces are encoded on their own: a text of a million tokens at once would be held three times.
  std::vector<foretoken::Token> out;
  for (std::size_t i = 0; out.size() < n; ++i) {
    const std::string_view sentence = kSentences[drawn(options.seed, i) % kSentences.size()];
    const std::vector<foretoken::Token> ids = tokenizer.encode(sentence);
    FT_CHECK(!ids.empty());
    out.insert(out.end(), ids.begin(), ids.end());
  }
  return out;
}

std::vector<foretoken::Token> bench_opening(const foretoken::Engine& engine,
                                            const BenchPromptOptions& options) {
  if (!has_tokenizer(engine)) {
    return random_ids(engine.model().n_vocab, options.seed, kRandomOpening);
  }
  return engine.tokenizer().encode(kOpening);
}

}  // namespace ft::apps
