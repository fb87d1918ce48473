// /metrics as a strict reader of Prometheus' text format (0.0.4) takes it.
#include "server/metrics.h"

#include <array>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

namespace ft::server {
namespace {

struct Sample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

class Reader {
 public:
  /// Adds failures for whatever is not in the format.
  explicit Reader(const std::string& text) {
    EXPECT_TRUE(text.ends_with('\n'));
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) read_line(line);
    for (const auto& [name, type] : types_) {
      if (type == "histogram") check_histogram(name);
    }
  }
  double value(const std::string& name, const std::map<std::string, std::string>& labels) const {
    for (const Sample& each : samples_) {
      if (each.name == "foretoken:" + name && each.labels == labels) return each.value;
    }
    ADD_FAILURE() << "no " << name;
    return std::numeric_limits<double>::quiet_NaN();
  }
  const std::map<std::string, std::string>& types() const { return types_; }

 private:
  void read_line(const std::string& line) {
    SCOPED_TRACE(line);
    std::istringstream words(line);
    std::string mark;
    std::string kind;
    std::string name;
    if (line.starts_with('#')) {
      words >> mark >> kind >> name;
      std::string rest;
      std::getline(words, rest);
      if (kind == "HELP") {
        EXPECT_TRUE(helped_.insert(name).second) << "twice";
        EXPECT_EQ(rest.find('\\'), std::string::npos);
      } else {
        EXPECT_EQ(kind, "TYPE");
        EXPECT_TRUE(helped_.count(name) == 1) << "type before help";
        EXPECT_TRUE(types_.emplace(name, rest.substr(1)).second) << "twice";
        EXPECT_THAT(rest, ::testing::AnyOf(" counter", " gauge", " histogram"));
      }
      family_ = name;
      return;
    }
    read_sample(line);
  }

  void read_sample(const std::string& line) {
    Sample out;
    std::size_t at = line.find_first_of("{ ");
    ASSERT_NE(at, std::string::npos);
    out.name = line.substr(0, at);
    const std::string& type = types_[family_];
    if (type == "histogram") {
      EXPECT_THAT(out.name,
                  ::testing::AnyOf(family_ + "_bucket", family_ + "_sum", family_ + "_count"));
    } else {
      EXPECT_EQ(out.name, family_) << "families must not mix";
    }
    EXPECT_EQ(type == "counter", out.name.ends_with("_total"));
    if (line[at] == '{') {
      ++at;
      while (at < line.size() && line[at] != '}') read_label(line, at, out);
      ++at;
    }
    ASSERT_LT(at, line.size());
    ASSERT_EQ(line[at], ' ');
    char* end = nullptr;
    out.value = std::strtod(line.c_str() + at + 1, &end);
    EXPECT_EQ(*end, '\0');
    EXPECT_GE(out.value, 0);
    std::pair<std::string, std::map<std::string, std::string>> key(out.name, out.labels);
    EXPECT_TRUE(seen_.insert(std::move(key)).second) << "twice";
    samples_.push_back(std::move(out));
  }

  static void read_label(const std::string& line, std::size_t& at, Sample& sample) {
    const std::size_t equals = line.find("=\"", at);
    ASSERT_NE(equals, std::string::npos);
    const std::string name = line.substr(at, equals - at);
    std::string value;
    for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) {
      if (line[at] != '\\') {
        value += line[at];
        continue;
      }
      ++at;
      ASSERT_NE(std::string_view("\\\"n").find(line.at(at)), std::string_view::npos);
      value += line[at] == 'n' ? '\n' : line[at];
    }
    ++at;
    if (at < line.size() && line[at] == ',') ++at;
    EXPECT_TRUE(sample.labels.emplace(name, value).second) << "twice";
  }

  void check_histogram(const std::string& name) const {
    SCOPED_TRACE(name);
    double bound = -1;
    double n = 0;
    double n_all = -1;
    for (const Sample& each : samples_) {
      if (each.name == name + "_count") n_all = each.value;
      if (each.name != name + "_bucket") continue;
      const std::string& le = each.labels.at("le");
      const double next = le == "+Inf" ? std::numeric_limits<double>::infinity() : std::stod(le);
      EXPECT_GT(next, bound);
      EXPECT_GE(each.value, n);
      bound = next;
      n = each.value;
    }
    EXPECT_EQ(bound, std::numeric_limits<double>::infinity());
    EXPECT_EQ(n, n_all);
  }

  std::set<std::string> helped_;
  std::map<std::string, std::string> types_;
  std::set<std::pair<std::string, std::map<std::string, std::string>>> seen_;
  std::vector<Sample> samples_;
  std::string family_;
};

foretoken::Completion completion() {
  foretoken::Completion out;
  out.finish_reason = foretoken::FinishReason::kStop;
  out.usage = {100, 20, 40};
  out.timings.prompt_ms = 30;
  out.timings.time_to_first_token_ms = 50;
  out.timings.predicted_ms = 950;
  out.speculation.drafted = 12;
  out.speculation.accepted = 7;
  out.speculation.drafted_per_position = {6, 6};
  out.speculation.accepted_per_position = {5, 2};
  out.speculation.by_source = {{"mtp", {10, 7}}, {"ngram", {2, 0}}};
  out.experts.trunk.hits = 9;
  out.experts.draft.misses = 3;
  out.experts.draft.n_slots = 4;
  out.memory.kv_bytes = 4096;
  return out;
}

TEST(Metrics, TellsWhatGenerationsWere) {
  Metrics metrics("m");
  const foretoken::Completion done = completion();
  for (int i = 0; i < 2; ++i) {
    metrics.on_submitted();
    metrics.on_started(100);
    metrics.on_first_token(0.05);
    metrics.on_tokens(1, -1);
    metrics.on_tokens(19, 0.95);
    metrics.on_completion(done);
    metrics.on_ended({true, true, 120});
  }
  metrics.on_submitted();
  metrics.on_ended({false, false, 100});
  metrics.on_submitted();
  metrics.on_started(7);
  metrics.on_reply({.status = 200});
  metrics.on_reply({.status = 200, .is_client_gone = true});
  metrics.on_reply({.is_client_gone = true});
  const Reader reader(metrics.text(3, 70));
  const std::map<std::string, std::string> model = {{"model_name", "m"}};
  const auto with = [&](const std::string& name, const std::string& value) {
    auto out = model;
    out.emplace(name, value);
    return out;
  };
  EXPECT_EQ(reader.value("num_requests_running", model), 1);
  EXPECT_EQ(reader.value("num_requests_waiting", model), 0);
  EXPECT_EQ(reader.value("http_connections", model), 3);
  EXPECT_EQ(reader.value("kv_cache_positions", model), 7);
  EXPECT_EQ(reader.value("kv_cache_usage_perc", model), 0.1);
  EXPECT_EQ(reader.value("prompt_tokens_total", model), 200);
  EXPECT_EQ(reader.value("prefix_cache_hits_total", model), 80);
  EXPECT_EQ(reader.value("generation_tokens_total", model), 40);
  EXPECT_EQ(reader.value("request_success_total", with("finished_reason", "stop")), 2);
  EXPECT_EQ(reader.value("request_success_total", with("finished_reason", "error")), 1);
  EXPECT_EQ(reader.value("request_success_total", with("finished_reason", "cancelled")), 0);
  EXPECT_EQ(reader.value("http_responses_total", {{"status", "200"}}), 2);
  EXPECT_EQ(reader.value("http_clients_gone_total", model), 2);
  EXPECT_EQ(reader.value("spec_decode_num_drafts_total", model), 12);
  EXPECT_EQ(reader.value("spec_decode_num_accepted_tokens_per_pos_total", with("position", "1")),
            4);
  EXPECT_EQ(reader.value("spec_decode_num_draft_tokens_per_source_total", with("source", "ngram")),
            4);
  EXPECT_EQ(reader.value("expert_hits_total", with("tier", "trunk")), 18);
  EXPECT_EQ(reader.value("expert_misses_total", with("tier", "draft")), 6);
  EXPECT_EQ(reader.value("expert_slots", with("tier", "draft")), 4);
  EXPECT_EQ(reader.value("kv_cache_bytes", model), 4096);
  EXPECT_EQ(reader.value("e2e_request_latency_seconds_count", model), 2);
  EXPECT_EQ(reader.value("e2e_request_latency_seconds_sum", model), 2);
  EXPECT_EQ(reader.value("request_queue_time_seconds_bucket", with("le", "0.01")), 0);
  EXPECT_EQ(reader.value("request_queue_time_seconds_bucket", with("le", "0.025")), 2);
  EXPECT_EQ(reader.value("request_prompt_tokens_bucket", with("le", "100")), 2);
  EXPECT_EQ(reader.value("request_prompt_tokens_bucket", with("le", "50")), 0);
  EXPECT_EQ(reader.value("request_generation_tokens_sum", model), 40);
  EXPECT_EQ(reader.value("inter_token_latency_seconds_bucket", with("le", "0.05")), 38);
}

TEST(Metrics, CacheUsageIsAShareOfWhatAllSessionsHave) {
  const std::map<std::string, std::string> model = {{"model_name", "m"}};
  Metrics metrics("m");
  const auto usage = [&] {
    return Reader(metrics.text(0, 200)).value("kv_cache_usage_perc", model);
  };
  EXPECT_EQ(usage(), 0);
  for (int i = 0; i < 2; ++i) {
    metrics.on_submitted();
    metrics.on_started(50);
    metrics.on_tokens(30, -1);
    EXPECT_EQ(usage(), (i + 1) * 0.4);
  }
  metrics.on_tokens(60, 0.1);
  EXPECT_EQ(usage(), 1);
  metrics.on_ended({true, true, 140});
  EXPECT_EQ(usage(), 0.4);
  metrics.on_ended({true, true, 80});
  EXPECT_EQ(usage(), 0);
}

TEST(Metrics, NamesAreEscaped) {
  const std::string name = "a\"b\\c\nd";
  const Reader reader(Metrics(name).text(0, 0));
  EXPECT_EQ(reader.value("num_requests_running", {{"model_name", name}}), 0);
  EXPECT_EQ(reader.types().at("foretoken:request_prompt_tokens"), "histogram");
}

TEST(Metrics, ValuesBeyondTheBoundsCount) {
  constexpr std::array<double, 2> kBounds = {1, 2};
  Histogram histogram(kBounds);
  for (const double value : {0.5, 1.0, 1.5, 3.0}) histogram.add(value);
  std::string text;
  histogram.write(text, "x", "a=\"b\"");
  EXPECT_EQ(text,
            "foretoken:x_bucket{a=\"b\",le=\"1\"} 2\nforetoken:x_bucket{a=\"b\",le=\"2\"} 3\n"
            "foretoken:x_bucket{a=\"b\",le=\"+Inf\"} 4\nforetoken:x_sum{a=\"b\"} 6\n"
            "foretoken:x_count{a=\"b\"} 4\n");
}

}  // namespace
}  // namespace ft::server
