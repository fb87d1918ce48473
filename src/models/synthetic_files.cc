#include "models/synthetic_files.h"

#include "base/error.h"
#include "json/json.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace ft::models {
namespace {

constexpr std::size_t kMaxLayers = 128;
constexpr std::size_t kContext = 1048576;
constexpr std::size_t kIndexTopK = 2048;

/// In the order of their ids: the first is 60 before the end of the vocabulary, as in the released
/// model.
constexpr std::array<std::string_view, 36> kSpecialTokens = {"<|endoftext|>",
                                                             "[MASK]",
                                                             "[gMASK]",
                                                             "[sMASK]",
                                                             "<sop>",
                                                             "<eop>",
                                                             "<|system|>",
                                                             "<|user|>",
                                                             "<|assistant|>",
                                                             "<|observation|>",
                                                             "<|begin_of_image|>",
                                                             "<|end_of_image|>",
                                                             "<|begin_of_video|>",
                                                             "<|end_of_video|>",
                                                             "<|begin_of_audio|>",
                                                             "<|end_of_audio|>",
                                                             "<|begin_of_transcription|>",
                                                             "<|end_of_transcription|>",
                                                             "<|code_prefix|>",
                                                             "<|code_middle|>",
                                                             "<|code_suffix|>",
                                                             "<think>",
                                                             "</think>",
                                                             "<tool_call>",
                                                             "</tool_call>",
                                                             "<tool_response>",
                                                             "</tool_response>",
                                                             "<arg_key>",
                                                             "</arg_key>",
                                                             "<arg_value>",
                                                             "</arg_value>",
                                                             "/nothink",
                                                             "<|begin_of_box|>",
                                                             "<|end_of_box|>",
                                                             "<|image|>",
                                                             "<|video|>"};
constexpr std::size_t kSpecialsFromEnd = 60;

constexpr std::string_view kSplitPattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

std::uint64_t u64(std::size_t n) {
  return n;
}

std::size_t scaled(std::size_t width, double fraction) {
  const auto units =
      static_cast<std::size_t>(std::lround(static_cast<double>(width) * fraction / 64));
  return 64 * (units == 0 ? 1 : units);
}

std::size_t first_special(const SyntheticShape& shape) {
  return shape.n_vocab - kSpecialsFromEnd;
}

void write_eos(json::Writer& out, const SyntheticShape& shape) {
  constexpr std::array<std::size_t, 3> kEndsOfText = {0, 7, 9};  // endoftext, user, observation
  out.key("eos_token_id").begin_array();
  for (const std::size_t special : kEndsOfText) out.value(u64(first_special(shape) + special));
  out.end_array();
  out.member("pad_token_id", u64(first_special(shape)));
}

void append_utf8(std::string& text, std::uint32_t letter) {  // below U+0800
  if (letter < 0x80) {
    text += static_cast<char>(letter);
    return;
  }
  text += static_cast<char>(0xC0 | letter >> 6);
  text += static_cast<char>(0x80 | (letter & 0x3F));
}

/// The letter that stands for a byte in byte-level vocabularies.
std::string byte_letter(std::uint32_t byte) {
  const auto is_own = [](std::uint32_t b) {
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
  };
  std::uint32_t letter = byte;
  if (!is_own(byte)) {
    letter = 0x100;
    for (std::uint32_t b = 0; b < byte; ++b) letter += is_own(b) ? 0 : 1;
  }
  std::string out;
  append_utf8(out, letter);
  return out;
}

void write_pre_tokenizer(json::Writer& out) {
  out.key("pre_tokenizer").begin_object().member("type", "Sequence");
  out.key("pretokenizers").begin_array();
  out.begin_object().member("type", "Split");
  out.key("pattern").begin_object().member("Regex", kSplitPattern).end_object();
  out.member("behavior", "Isolated").member("invert", false).end_object();
  out.begin_object().member("type", "ByteLevel").member("add_prefix_space", false);
  out.member("trim_offsets", true).member("use_regex", false).end_object();
  out.end_array().end_object();
}

void write_added_tokens(json::Writer& out, const SyntheticShape& shape) {
  out.key("added_tokens").begin_array();
  for (std::size_t i = 0; i < kSpecialTokens.size(); ++i) {
    out.begin_object().member("id", u64(first_special(shape) + i));
    out.member("content", kSpecialTokens[i]).member("single_word", false);
    out.member("lstrip", false).member("rstrip", false).member("normalized", false);
    out.member("special", true).end_object();
  }
  out.end_array();
}

void write_vocabulary(json::Writer& out, const SyntheticShape& shape) {
  out.key("vocab").begin_object();
  for (std::uint32_t byte = 0; byte < 256; ++byte) out.member(byte_letter(byte), u64(byte));
  const std::size_t specials_end = first_special(shape) + kSpecialTokens.size();
  for (std::size_t id = 256; id < shape.n_vocab; ++id) {
    if (id >= first_special(shape) && id < specials_end) continue;
    out.member("\xC4\xA0w" + std::to_string(id), u64(id));  // "Ġw300": the word w300
  }
  out.end_object();
}

void write_attention(json::Writer& out, const SyntheticShape& shape) {
  out.member("num_attention_heads", u64(shape.n_heads));
  out.member("num_key_value_heads", u64(shape.n_heads));
  out.member("q_lora_rank", u64(shape.q_rank)).member("kv_lora_rank", u64(shape.latent_dim));
  out.member("qk_nope_head_dim", u64(shape.nope_dim));
  out.member("qk_rope_head_dim", u64(shape.rope_dim));
  out.member("qk_head_dim", u64(shape.query_dim())).member("v_head_dim", u64(shape.value_dim));
  out.member("head_dim", u64(shape.nope_dim)).member("attention_bias", false);
  out.member("rms_norm_eps", 1e-5).member("rope_interleave", true);
  out.key("rope_parameters").begin_object().member("rope_theta", 8e6);
  out.member("rope_type", "default").end_object();
  out.member("index_n_heads", u64(shape.index_heads));
  out.member("index_head_dim", u64(shape.index_dim)).member("index_topk", u64(kIndexTopK));
  out.member("index_topk_freq", 4).member("index_skip_topk_offset", 3);
  out.member("indexer_rope_interleave", true).member("index_share_for_mtp_iteration", true);
  out.key("indexer_types").begin_array();
  for (std::size_t i = 0; i < shape.n_layers; ++i) {
    out.value(shape.has_indexer(i) ? "full" : "shared");
  }
  out.end_array();
}

void write_feed_forward(json::Writer& out, const SyntheticShape& shape) {
  out.member("intermediate_size", u64(shape.dense_width)).member("hidden_act", "silu");
  out.member("moe_intermediate_size", u64(shape.expert_width));
  out.member("first_k_dense_replace", u64(shape.n_dense_layers)).member("moe_layer_freq", 1);
  out.key("mlp_layer_types").begin_array();
  for (std::size_t i = 0; i < shape.n_layers; ++i) {
    out.value(shape.is_sparse(i) ? "sparse" : "dense");
  }
  out.end_array();
  out.member("n_routed_experts", u64(shape.n_experts)).member("n_shared_experts", 1);
  out.member("num_experts_per_tok", u64(shape.n_active)).member("norm_topk_prob", true);
  out.member("n_group", 1).member("topk_group", 1).member("topk_method", "noaux_tc");
  out.member("scoring_func", "sigmoid").member("routed_scaling_factor", 2.5);
}

}  // namespace

SyntheticShape synthetic_shape(std::size_t n_layers, double fraction) {
  if (n_layers == 0 || n_layers > kMaxLayers) {
    fail("synth: {} layers are asked for, expected 1 to {}", n_layers, kMaxLayers);
  }
  if (!(fraction > 0 && fraction <= 1)) {
    fail("synth: the width is {}, expected full or a fraction above 0 and up to 1", fraction);
  }
  SyntheticShape shape;
  shape.n_layers = n_layers;
  if (shape.n_dense_layers > n_layers) shape.n_dense_layers = n_layers;
  shape.d_model = scaled(shape.d_model, fraction);
  const auto heads = std::lround(static_cast<double>(shape.n_heads) * fraction);
  shape.n_heads = heads < 1 ? 1 : static_cast<std::size_t>(heads);
  shape.q_rank = scaled(shape.q_rank, fraction);
  shape.dense_width = scaled(shape.dense_width, fraction);
  shape.expert_width = scaled(shape.expert_width, fraction);
  shape.n_vocab = scaled(shape.n_vocab, fraction);
  constexpr std::size_t kLeastVocab = 1024;
  if (shape.n_vocab < kLeastVocab) shape.n_vocab = kLeastVocab;
  return shape;
}

std::string synthetic_config(const SyntheticShape& shape) {
  json::Writer out;
  out.begin_object();
  out.key("architectures").begin_array().value("GlmMoeDsaForCausalLM").end_array();
  out.member("model_type", "glm_moe_dsa").member("dtype", "bfloat16");
  out.member("hidden_size", u64(shape.d_model));
  out.member("num_hidden_layers", u64(shape.n_layers));
  out.member("num_nextn_predict_layers", shape.has_mtp ? 1 : 0);
  out.member("vocab_size", u64(shape.n_vocab)).member("tie_word_embeddings", false);
  out.member("max_position_embeddings", u64(kContext));
  write_eos(out, shape);
  write_attention(out, shape);
  write_feed_forward(out, shape);
  return out.end_object().text() + "\n";
}

std::string synthetic_generation_config(const SyntheticShape& shape) {
  json::Writer out;
  out.begin_object().member("do_sample", true).member("temperature", 1.0).member("top_p", 0.95);
  write_eos(out, shape);
  return out.end_object().text() + "\n";
}

std::string synthetic_tokenizer(const SyntheticShape& shape) {
  json::Writer out;
  out.begin_object().member("version", "1.0");
  out.key("truncation").null().key("padding").null();
  write_added_tokens(out, shape);
  out.key("normalizer").null();
  write_pre_tokenizer(out);
  out.key("post_processor").null();
  out.key("decoder").begin_object().member("type", "ByteLevel").member("add_prefix_space", true);
  out.member("trim_offsets", true).member("use_regex", true).end_object();
  out.key("model").begin_object().member("type", "BPE");
  out.key("dropout").null().key("unk_token").null();
  out.key("continuing_subword_prefix").null().key("end_of_word_suffix").null();
  out.member("fuse_unk", false).member("byte_fallback", false).member("ignore_merges", false);
  write_vocabulary(out, shape);
  out.key("merges").begin_array().end_array();
  return out.end_object().end_object().text() + "\n";
}

}  // namespace ft::models
