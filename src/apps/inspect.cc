// foretoken inspect: what a model folder is, from headers alone; with --verify every byte of a
// container is read.
#include "apps/commands.h"
#include "apps/model_path.h"
#include "apps/options.h"
#include "apps/result_writer.h"
#include "apps/sizes.h"
#include "apps/verify.h"
#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "json/json.h"
#include "models/model.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace ft::apps {
namespace {

struct InspectOptions {
  std::string model;
  bool tensors = false;
  bool verify = false;
  bool json = false;
};

std::string name_of(const checkpoint::Checkpoint& checkpoint) {
  std::error_code error;
  const auto real = std::filesystem::canonical(checkpoint.folder(), error);
  return (error ? checkpoint.folder() : real).filename().string();
}

std::string shard_name(const checkpoint::Checkpoint& checkpoint, std::size_t shard) {
  return checkpoint.shards()[shard].path.filename().string();
}

struct TensorLine {
  std::string name;
  std::string_view format;
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;
  std::size_t shard = 0;
};

std::vector<TensorLine> all_tensors(const checkpoint::Checkpoint& checkpoint) {
  std::vector<TensorLine> lines;
  for (const checkpoint::TensorInfo& t : checkpoint.tensors()) {
    lines.push_back({t.name, dtype_name(t.dtype), t.shape, t.size_bytes, t.shard});
  }
  for (const checkpoint::PanelTensor& t : checkpoint.panel_tensors()) {
    lines.push_back(
        {t.name, quant_format_name(t.format), {t.n_rows, t.n_cols}, t.size_bytes, t.shard});
  }
  std::sort(lines.begin(), lines.end(), [](const TensorLine& a, const TensorLine& b) {
    return a.name < b.name;
  });
  return lines;
}

void write_tensors(json::Writer& out, const checkpoint::Checkpoint& checkpoint) {
  out.key("tensors").begin_array();
  for (const TensorLine& tensor : all_tensors(checkpoint)) {
    out.begin_object();
    out.member("name", tensor.name);
    out.member("dtype", tensor.format);
    out.key("shape").begin_array();
    for (const std::uint64_t size : tensor.shape) out.value(size);
    out.end_array();
    out.member("bytes", tensor.bytes);
    out.member("file", shard_name(checkpoint, tensor.shard));
    out.end_object();
  }
  out.end_array();
}

void write_container(json::Writer& out, const checkpoint::ContainerIndex* index) {
  out.key("container");
  if (index == nullptr) {
    out.null();
    return;
  }
  out.begin_object().member("converter", index->converter).key("formats").begin_object();
  for (const auto& [part, format] : index->formats) out.member(part, format);
  out.end_object().key("source").begin_array();
  for (const checkpoint::SourceFile& file : index->sources) out.value(file.name);
  out.end_array().end_object();
}

std::string container_line(const checkpoint::ContainerIndex& index) {
  std::string formats;
  for (const auto& [part, format] : index.formats) {
    formats += fmt::format("{}{} {}", formats.empty() ? "" : ", ", part, format);
  }
  return fmt::format("container   {} by {}\n", formats, index.converter);
}

std::string to_json(const checkpoint::Checkpoint& checkpoint,
                    const models::Inspection& inspection,
                    bool with_tensors) {
  const models::ModelConfig& config = inspection.config;
  json::Writer out;
  out.begin_object();
  out.member("family", config.family);
  out.member("name", name_of(checkpoint));
  out.member("parameters", config.n_parameters);
  out.member("layers", std::uint64_t{config.n_layers});
  out.member("mtp_layers", inspection.has_draft_head ? 1 : 0);
  out.member("experts", std::uint64_t{config.n_experts});
  out.member("context", std::uint64_t{config.max_context});
  out.member("format", config.weight_format);
  out.key("tensor_bytes").begin_object();
  out.member("dense", config.dense_bytes);
  out.member("experts", config.expert_bytes);
  out.member("mtp", config.draft_head_bytes);
  out.end_object();
  out.key("files").begin_array();
  for (std::size_t i = 0; i < checkpoint.shards().size(); ++i) out.value(shard_name(checkpoint, i));
  out.end_array();
  write_container(out, checkpoint.container());
  out.key("problems").begin_array();
  for (const std::string& problem : inspection.problems) out.value(problem);
  out.end_array();
  if (with_tensors) write_tensors(out, checkpoint);
  out.end_object();
  return out.text() + "\n";
}

std::string tensor_lines(const checkpoint::Checkpoint& checkpoint) {
  std::string out;
  for (const TensorLine& tensor : all_tensors(checkpoint)) {
    out +=
        fmt::format("{:<8} [{}] {}\n", tensor.format, fmt::join(tensor.shape, ", "), tensor.name);
  }
  return out;
}

std::string to_text(const checkpoint::Checkpoint& checkpoint,
                    const models::Inspection& inspection,
                    bool with_tensors) {
  const models::ModelConfig& config = inspection.config;
  std::string out;
  out += fmt::format("name        {}\nfamily      {}\n", name_of(checkpoint), config.family);
  out += fmt::format("parameters  {:.1f} M, {}\n",
                     static_cast<double>(config.n_parameters) / 1e6,
                     config.weight_format);
  out += fmt::format("layers      {}{}\n",
                     config.n_layers,
                     inspection.has_draft_head ? " and 1 next-token (MTP) layer" : "");
  out += fmt::format("experts     {}\ncontext     {}\n", config.n_experts, config.max_context);
  out += fmt::format("bytes       dense {}, experts {}, mtp {}\n",
                     format_size(config.dense_bytes),
                     format_size(config.expert_bytes),
                     format_size(config.draft_head_bytes));
  if (checkpoint.container() != nullptr) out += container_line(*checkpoint.container());
  for (std::size_t i = 0; i < checkpoint.shards().size(); ++i) {
    out += fmt::format("file        {} ({})\n",
                       shard_name(checkpoint, i),
                       format_size(checkpoint.shards()[i].size_bytes));
  }
  for (const std::string& problem : inspection.problems)
    out += fmt::format("problem     {}\n", problem);
  if (with_tensors) out += tensor_lines(checkpoint);
  return out;
}

int run(const InspectOptions& options) {
  const std::filesystem::path path = resolve_model(options.model, model_folders());
  if (options.verify) {
    std::error_code ignored;
    const bool is_folder = std::filesystem::is_directory(path, ignored);
    verify((is_folder ? path : path.parent_path()).string(), {.json = options.json});
  }
  const auto checkpoint = checkpoint::Checkpoint::open(path);
  const models::Inspection inspection = models::inspect_model(checkpoint);
  ResultWriter().write(options.json ? to_json(checkpoint, inspection, options.tensors)
                                    : to_text(checkpoint, inspection, options.tensors));
  if (!inspection.problems.empty()) fail("{}", inspection.problems.front());
  return 0;
}

}  // namespace

void add_inspect(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("inspect", "What a model is, from its headers alone");
  auto options = std::make_shared<InspectOptions>();
  add_model_argument(*command, options->model);
  command->add_flag("--tensors", options->tensors, "Every tensor with type and shape")
      ->group("Output");
  command->add_flag("--verify", options->verify, "Check every byte of a container")
      ->group("Output");
  add_json_option(*command, options->json);
  command->callback(
      [options, &chosen] { chosen = [options](Environment&) { return run(*options); }; });
}

}  // namespace ft::apps
