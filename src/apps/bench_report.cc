#include "apps/bench_report.h"

#include "apps/expert_report.h"
#include "apps/sizes.h"
#include "base/error.h"
#include "engine/expert_counts.h"
#include "json/json.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

namespace ft::apps {
namespace {

using StageEntry = std::pair<std::string_view, double foretoken::StageTimes::*>;
constexpr std::array<StageEntry, 8> kStages = {{
    {"attention", &foretoken::StageTimes::attention},
    {"indexer", &foretoken::StageTimes::indexer},
    {"experts", &foretoken::StageTimes::experts},
    {"dense", &foretoken::StageTimes::dense},
    {"head", &foretoken::StageTimes::head},
    {"sampling", &foretoken::StageTimes::sampling},
    {"draft", &foretoken::StageTimes::draft},
    {"other", &foretoken::StageTimes::other},
}};

double acceptance(const foretoken::SpeculationStatistics& speculation) {
  return speculation.drafted == 0
             ? 0
             : static_cast<double>(speculation.accepted) / static_cast<double>(speculation.drafted);
}

void write_machine(json::Writer& out, const BenchReport& report) {
  const MachineReport& machine = report.machine;
  out.begin_object();
  out.member("cpu", machine.cpu);
  out.member("threads", std::uint64_t{machine.n_threads});
  out.member("isa", report.model.isa);
  out.member("read_bandwidth_bytes_per_s", machine.read_bytes_per_s);
  out.member("f32_peak_ops_per_s", machine.f32_ops_per_s);
  out.member("int8_peak_ops_per_s", machine.int8_ops_per_s);
  out.member("others_share", machine.others_share);
  out.member("thread_scaling", machine.thread_scaling);
  out.member("busy", machine.is_busy);
  out.end_object();
}

void write_model(json::Writer& out, const BenchReport& report) {
  const foretoken::ModelInfo& model = report.model;
  out.begin_object();
  out.member("name", model.name);
  out.member("parameters", model.parameters);
  out.member("weight_bytes", model.weight_bytes);
  out.member("format", model.format);
  out.member("hash", model.hash);
  out.member("kv_type", report.kv_type);
  out.end_object();
}

void write_speculation(json::Writer& out, const BenchResult& result) {
  if (!result.test.drafts()) {
    out.null();
    return;
  }
  const foretoken::SpeculationStatistics& speculation = result.completion.speculation;
  out.begin_object();
  out.key("sources").begin_array();
  for (const std::string& source : speculation.sources) out.value(source);
  out.end_array();
  out.key("draft_tokens");
  if (result.test.draft_tokens) {
    out.value(std::uint64_t{*result.test.draft_tokens});
  } else {
    out.value("auto");
  }
  out.member("rounds", std::uint64_t{speculation.rounds});
  out.member("drafted", std::uint64_t{speculation.drafted});
  out.member("accepted", std::uint64_t{speculation.accepted});
  out.member("acceptance", acceptance(speculation));
  out.member("tokens_per_forward", speculation.tokens_per_forward);
  out.end_object();
}

/// The members of one result, without the braces.
void write_result(json::Writer& out, const BenchReport& report, const BenchResult& result) {
  out.member("test", result.test.name());
  out.member("n_prompt", std::uint64_t{result.test.n_prompt});
  out.member("n_gen", std::uint64_t{result.test.n_generated});
  out.member("depth", std::uint64_t{result.test.depth});
  out.key("tokens_per_second").begin_object();
  out.member("median", result.median());
  out.member("min", result.least());
  out.member("max", result.most());
  out.member("samples", std::uint64_t{result.tokens_per_second.size()});
  out.end_object();
  out.member("stable", !report.machine.is_busy);
  out.member("weight_bytes_per_token", result.weight_bytes_per_token());
  out.member("bandwidth_share", report.bandwidth_share(result));
  write_speculation(out.key("speculation"), result);
  const foretoken::PhaseWork& work = result.work();
  engine::write_experts(out.key("experts"), work.experts);
  out.member("drive_bytes_per_s", read_bytes_per_s(work.experts, work.wall_ms));
  out.member("stall_share", stall_share(work.experts, work.wall_ms));
  out.key("stages_ms").begin_object();
  for (const auto& [name, member] : kStages) out.member(name, result.work().stages_ms.*member);
  out.end_object();
}

std::string to_json(const BenchReport& report) {
  json::Writer out;
  out.begin_object();
  write_machine(out.key("machine"), report);
  write_model(out.key("model"), report);
  out.key("results").begin_array();
  for (const BenchResult& result : report.results) {
    out.begin_object();
    write_result(out, report, result);
    out.end_object();
  }
  out.end_array().end_object();
  return out.text() + "\n";
}

std::string to_json_lines(const BenchReport& report) {
  std::string lines;
  for (const BenchResult& result : report.results) {
    json::Writer out;
    out.begin_object();
    write_machine(out.key("machine"), report);
    write_model(out.key("model"), report);
    write_result(out, report, result);
    out.end_object();
    lines += out.text() + "\n";
  }
  return lines;
}

/// A field of RFC 4180.
std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

std::string to_csv(const BenchReport& report) {
  std::string out =
      "model,format,weight_bytes,parameters,cpu,threads,isa,kv_type,read_bandwidth_bytes_per_s,"
      "others_share,busy,test,n_prompt,n_gen,depth,speculate,samples,tokens_per_second_median,"
      "tokens_per_second_min,tokens_per_second_max,tokens_per_forward,acceptance,"
      "weight_bytes_per_token,bandwidth_share,experts,expert_hit_rate,drive_bytes_per_s,"
      "stall_share";
  for (const auto& [name, member] : kStages) out += fmt::format(",{}_ms", name);
  out += "\n";
  const MachineReport& machine = report.machine;
  const foretoken::ModelInfo& model = report.model;
  for (const BenchResult& result : report.results) {
    const foretoken::SpeculationStatistics& speculation = result.completion.speculation;
    out += fmt::format("{},{},{},{},{},{},{},{},{:.0f},{:.4f},{}",
                       csv_field(model.name),
                       model.format,
                       model.weight_bytes,
                       model.parameters,
                       csv_field(machine.cpu),
                       machine.n_threads,
                       model.isa,
                       report.kv_type,
                       machine.read_bytes_per_s,
                       machine.others_share,
                       machine.is_busy);
    out += fmt::format(",{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.3f},{:.4f},{:.0f},{:.4f}",
                       result.test.name(),
                       result.test.n_prompt,
                       result.test.n_generated,
                       result.test.depth,
                       csv_field(result.test.speculation()),
                       result.tokens_per_second.size(),
                       result.median(),
                       result.least(),
                       result.most(),
                       result.test.is_prompt() ? 0 : speculation.tokens_per_forward,
                       acceptance(speculation),
                       result.weight_bytes_per_token(),
                       report.bandwidth_share(result));
    const foretoken::PhaseWork& work = result.work();
    out += fmt::format(",{},{:.4f},{:.0f},{:.4f}",
                       work.experts.mode,
                       work.experts.hit_rate,
                       read_bytes_per_s(work.experts, work.wall_ms),
                       stall_share(work.experts, work.wall_ms));
    for (const auto& [name, member] : kStages) {
      out += fmt::format(",{:.3f}", result.work().stages_ms.*member);
    }
    out += "\n";
  }
  return out;
}

std::string speed_text(double tokens_per_second) {
  return fmt::format("{:.{}f}", tokens_per_second, tokens_per_second < 100 ? 2 : 0);
}

std::string speed_table(const BenchReport& report) {
  std::string out =
      "| model | size | params | threads | kv | test | speculate | t/s | min–max | tokens/forward "
      "| accepted | weights/token | of bandwidth |\n"
      "|---|---:|---:|---:|---|---|---|---:|---:|---:|---:|---:|---:|\n";
  for (const BenchResult& result : report.results) {
    const foretoken::SpeculationStatistics& speculation = result.completion.speculation;
    const bool drafts = result.test.drafts() && !result.test.is_prompt();
    out += fmt::format(
        "| {} {} | {} | {:.1f} M | {} | {} | {} | {} | {}{} | {}–{} | {} | {} | {} | {:.0f} % |\n",
        report.model.name,
        report.model.format,
        format_size(report.model.weight_bytes),
        static_cast<double>(report.model.parameters) / 1e6,
        report.machine.n_threads,
        report.kv_type,
        result.test.name(),
        result.test.speculation(),
        report.machine.is_busy ? "~" : "",
        speed_text(result.median()),
        speed_text(result.least()),
        speed_text(result.most()),
        drafts ? fmt::format("{:.2f}", speculation.tokens_per_forward) : "",
        drafts ? fmt::format("{:.0f} %", 100 * acceptance(speculation)) : "",
        format_size(static_cast<std::uint64_t>(result.weight_bytes_per_token())),
        100 * report.bandwidth_share(result));
  }
  return out;
}

/// Empty unless experts stream.
std::string expert_table(const BenchReport& report) {
  std::string rows;
  for (const BenchResult& result : report.results) {
    const foretoken::PhaseWork& work = result.work();
    if (work.experts.mode != "stream") continue;
    rows += fmt::format(
        "| {} | {} | {} + {} | {:.1f} % | {} | {}/s | {:.0f} % |\n",
        result.test.name(),
        result.test.speculation(),
        work.experts.trunk.n_slots,
        work.experts.draft.n_slots,
        100 * work.experts.hit_rate,
        format_size(work.experts.bytes_read / result.n_tokens()),
        format_size(static_cast<std::uint64_t>(read_bytes_per_s(work.experts, work.wall_ms))),
        100 * stall_share(work.experts, work.wall_ms));
  }
  if (rows.empty()) return rows;
  return "\n| experts | speculate | slots | hits | read/token | from the drive | waiting |\n"
         "|---|---|---:|---:|---:|---:|---:|\n" +
         rows;
}

std::string stage_table(const BenchReport& report) {
  std::string head = "| ms per token | speculate |";
  std::string rule = "|---|---|";
  for (const auto& [name, member] : kStages) {
    head += fmt::format(" {} |", name);
    rule += "---:|";
  }
  std::string out = head + "\n" + rule + "\n";
  for (const BenchResult& result : report.results) {
    out += fmt::format("| {} | {} |", result.test.name(), result.test.speculation());
    const auto n_tokens = static_cast<double>(result.n_tokens());
    for (const auto& [name, member] : kStages) {
      out += fmt::format(" {:.3f} |", result.work().stages_ms.*member / n_tokens);
    }
    out += "\n";
  }
  return out;
}

std::string to_markdown(const BenchReport& report) {
  const MachineReport& machine = report.machine;
  std::string out = speed_table(report) + "\n" + stage_table(report) + expert_table(report) + "\n";
  out += fmt::format("{}, {} threads, {}; reads {:.1f} GB/s, {:.0f} GFLOP/s f32",
                     machine.cpu.empty() ? "unknown processor" : machine.cpu,
                     machine.n_threads,
                     report.model.isa,
                     machine.read_bytes_per_s * 1e-9,
                     machine.f32_ops_per_s * 1e-9);
  if (machine.int8_ops_per_s > 0) {
    out += fmt::format(", {:.0f} GOP/s int8", machine.int8_ops_per_s * 1e-9);
  }
  out += fmt::format("; others used {:.0f} % of the processors", 100 * machine.others_share);
  out += machine.is_busy ? ": speeds marked ~ are not stable\n" : "\n";
  return out;
}

}  // namespace

BenchFormat bench_format(std::string_view name) {
  if (name == "md") return BenchFormat::kMarkdown;
  if (name == "json") return BenchFormat::kJson;
  if (name == "jsonl") return BenchFormat::kJsonLines;
  if (name == "csv") return BenchFormat::kCsv;
  fail("--output is {}, expected md, json, jsonl or csv", in_quotes(name));
}

std::string BenchTest::name() const {
  std::string out = is_prompt() ? fmt::format("pp{}", n_prompt) : fmt::format("tg{}", n_generated);
  if (depth > 0) out += fmt::format(" @ d{}", depth);
  return out;
}

std::string BenchTest::speculation() const {
  std::string out = fmt::format("{}", fmt::join(speculate, ","));
  if (drafts() && draft_tokens) out += fmt::format(" x{}", *draft_tokens);
  return out;
}

double BenchResult::median() const {
  std::vector<double> sorted = tokens_per_second;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double BenchResult::least() const {
  return *std::min_element(tokens_per_second.begin(), tokens_per_second.end());
}

double BenchResult::most() const {
  return *std::max_element(tokens_per_second.begin(), tokens_per_second.end());
}

const foretoken::PhaseWork& BenchResult::work() const {
  const auto& work = test.is_prompt() ? completion.prompt_work : completion.predicted_work;
  FT_CHECK(work.has_value());
  return *work;
}

double BenchResult::weight_bytes_per_token() const {
  return static_cast<double>(work().weight_bytes) / static_cast<double>(n_tokens());
}

double BenchReport::bandwidth_share(const BenchResult& result) const {
  if (!(machine.read_bytes_per_s > 0)) return 0;
  return result.weight_bytes_per_token() * result.median() / machine.read_bytes_per_s;
}

std::string BenchReport::text(BenchFormat format) const {
  switch (format) {
    case BenchFormat::kMarkdown:
      return to_markdown(*this);
    case BenchFormat::kJson:
      return to_json(*this);
    case BenchFormat::kJsonLines:
      return to_json_lines(*this);
    case BenchFormat::kCsv:
      return to_csv(*this);
  }
  return {};
}

}  // namespace ft::apps
