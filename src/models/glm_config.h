// config.json of the GLM-5 family (model_type glm_moe_dsa), checked. Reads json only; refuses what
// the family's code does not compute. Used by glm_moe_dsa.cc.
#pragma once

#include "base/types.h"
#include "json/json.h"
#include "nn/latent_attention.h"
#include "nn/router.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ft::models {

struct GlmConfig {
  std::size_t n_layers = 0;  // the draft layer not counted
  std::size_t d_model = 0;
  std::size_t n_vocab = 0;
  std::size_t max_context = 0;
  nn::LatentAttentionShape attention;
  double rope_theta = 0;

  std::optional<nn::IndexerShape> indexer;  // absent: every row attends all earlier positions
  std::vector<bool> has_indexer;            // per layer; the first is true if any is

  std::vector<bool> is_sparse;  // per layer: experts instead of one dense network
  std::size_t dense_width = 0;  // 0 if no layer is dense
  bool has_experts = false;     // the fields below are set
  nn::RouterShape router;
  std::size_t expert_width = 0;
  std::size_t n_shared_experts = 0;  // one network of that many expert widths

  bool draft_layer_is_sparse = true;
  bool drafts_share_selection = false;  // index_share_for_mtp_iteration

  bool ties_head = false;
  std::size_t block_rows = 128;  // of fp8 scales
  std::size_t block_cols = 128;
  std::vector<Token> eos_tokens;  // config.json's, then those only generation_config.json has
};

struct ParsedGlmConfig {
  GlmConfig config;                   // usable only if there are no problems
  std::vector<std::string> problems;  // one line each, all that were found
};

/// Both files as parsed; `generation_config` is null if absent. Never throws on bad contents.
ParsedGlmConfig parse_glm_config(const json::Value& config, const json::Value& generation_config);

}  // namespace ft::models
