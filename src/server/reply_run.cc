#include "server/reply_run.h"

#include "server/api_error.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iterator>
#include <limits>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace ft::server {
namespace {

// Of comments that tell how far a prompt is.
constexpr std::int64_t kProgressPauseUs = 1'000'000;

// Appends what came later, joining texts that belong together.
void append(ReplyPart& reply, ReplyPart part) {
  for (foretoken::ReplyDelta& delta : part.deltas) {
    const bool is_begin = delta.kind == foretoken::ReplyDelta::Kind::kToolName;
    if (!reply.deltas.empty() && !is_begin && reply.deltas.back().kind == delta.kind &&
        reply.deltas.back().call_index == delta.call_index) {
      reply.deltas.back().text += delta.text;
    } else {
      reply.deltas.push_back(std::move(delta));
    }
  }
  reply.logprobs.insert(reply.logprobs.end(),
                        std::make_move_iterator(part.logprobs.begin()),
                        std::make_move_iterator(part.logprobs.end()));
}

GenerationFacts facts_of(const foretoken::Completion* completion) noexcept {
  GenerationFacts out;
  out.n_choices = 1;
  out.finish_reason = "error";
  if (completion == nullptr) return out;
  out.n_prompt = completion->usage.prompt_tokens;
  out.n_cached = completion->usage.cached_tokens;
  out.n_tokens = completion->usage.completion_tokens;
  out.n_drafted = completion->speculation.drafted;
  out.n_accepted = completion->speculation.accepted;
  out.time_to_first_token_ms = completion->timings.time_to_first_token_ms;
  out.queue_ms = queue_ms(completion->timings);
  out.finish_reason = foretoken::to_string(completion->finish_reason);
  return out;
}

// The life of a generation, for metrics and log.
class Measured {
 public:
  Measured(Metrics& metrics,
           Reply& reply,
           const Clock& clock,
           std::int64_t submitted_us,
           std::size_t n_prompt)
      : metrics_(metrics),
        reply_(reply),
        clock_(clock),
        submitted_us_(submitted_us),
        n_positions_(n_prompt) {
    metrics_.on_submitted();
  }
  ~Measured() {
    metrics_.on_ended({is_started_, completion_ != nullptr, n_positions_});
    reply_.add_facts(facts_of(completion_));
  }
  Measured(const Measured&) = delete;
  Measured& operator=(const Measured&) = delete;
  Measured(Measured&&) = delete;
  Measured& operator=(Measured&&) = delete;

  void on_event() {
    if (!std::exchange(is_started_, true)) metrics_.on_started(n_positions_);
  }
  void on_tokens(std::size_t n) {
    const std::int64_t now_us = clock_.now_us();
    const bool is_first = last_us_ == kNever;
    if (is_first) metrics_.on_first_token(static_cast<double>(now_us - submitted_us_) * 1e-6);
    metrics_.on_tokens(n, is_first ? -1 : static_cast<double>(now_us - last_us_) * 1e-6);
    last_us_ = now_us;
    n_positions_ += n;
  }
  void on_completion(const foretoken::Completion& completion) {
    metrics_.on_completion(completion);
    completion_ = &completion;
  }

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();

  Metrics& metrics_;
  Reply& reply_;
  const Clock& clock_;
  const std::int64_t submitted_us_;
  std::int64_t last_us_ = kNever;
  std::size_t n_positions_;
  bool is_started_ = false;
  const foretoken::Completion* completion_ = nullptr;
};

}  // namespace

ReplyRun::ReplyRun(const ReplyPlan& plan, Backend& backend, Metrics& metrics, const Clock& clock)
    : plan_(plan),
      backend_(backend),
      metrics_(metrics),
      clock_(clock),
      generations_(plan.n_choices()),
      feeds_(plan.n_choices()),
      submitted_us_(clock.now_us()) {
  if (plan.request.max_tokens == std::size_t{0}) return;  // an echo alone
  const std::uint64_t drawn = plan.request.n > 1 ? foretoken::draw_seed() : 0;
  for (std::size_t i = 0; i < generations_.size(); ++i) {
    foretoken::GenerationRequest request = plan.generations[plan.prompt_of(i)];
    if (plan.request.n > 1) {
      request.sampling.seed = request.sampling.seed.value_or(drawn) + i % plan.request.n;
    }
    if (plan.request.includes_rounds) {
      feeds_[i] = std::make_shared<RoundFeed>();
      request.trace = [feed = feeds_[i]](std::string_view line) { feed->add(line); };
    }
    generations_[i] = backend_.submit(std::move(request));
  }
}

void ReplyRun::cancel() noexcept {
  for (const auto& generation : generations_) {
    if (generation) generation->cancel();
  }
}

std::vector<Choice> ReplyRun::collect(Reply& reply) {
  return run(reply, nullptr);
}

void ReplyRun::stream(ReplyWriter& writer, Reply& reply) {
  Stream stream{writer, reply, {}, clock_.now_us()};
  reply.write(writer.begin(generations_.size()));
  const std::vector<Choice> choices = run(reply, &stream);
  reply.write(writer.end(choices));
}

std::vector<Choice> ReplyRun::run(Reply& reply, Stream* stream) {
  const std::stop_callback on_gone(reply.gone(), [this] { cancel(); });
  std::vector<Choice> out(generations_.size());
  run_each([&](std::size_t i) { out[i] = run_choice(i, reply, stream); });
  return out;
}

// Runs `work` for every choice, each on a thread of its own if there are several. Throws what the
// first one threw that failed, once all have ended.
void ReplyRun::run_each(const std::function<void(std::size_t)>& work) {
  std::mutex mutex;
  std::exception_ptr error;
  const auto guarded = [&](std::size_t i) noexcept {
    try {
      work(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
      cancel();
    }
  };
  {
    std::vector<std::jthread> threads;
    try {
      for (std::size_t i = 1; i < generations_.size(); ++i) threads.emplace_back(guarded, i);
    } catch (...) {  // no thread to be had
      cancel();
      throw;
    }
    guarded(0);
  }
  if (error) std::rethrow_exception(error);
}

Choice ReplyRun::run_choice(std::size_t index, Reply& reply, Stream* stream) {
  const std::vector<foretoken::Token>& prompt = plan_.generations[plan_.prompt_of(index)].prompt;
  Choice out;
  out.index = index;
  if (!plan_.echoes.empty()) {
    ReplyPart echo;
    echo.deltas.push_back(
        {foretoken::ReplyDelta::Kind::kContent, plan_.echoes[plan_.prompt_of(index)], 0});
    add(index, std::move(echo), out, stream);
  }
  if (!generations_[index]) {
    out.completion.finish_reason = foretoken::FinishReason::kLength;
    out.completion.usage.prompt_tokens = prompt.size();
    return out;
  }
  std::unique_ptr<ReplySplitter> splitter;
  if (!plan_.request.chat_json.empty()) {
    splitter = backend_.reply_splitter(prompt, plan_.request.tools_json);
  }
  bool is_complete = false;
  {
    Measured measured(metrics_, reply, clock_, submitted_us_, prompt.size());
    while (std::optional<foretoken::Event> event = generations_[index]->next()) {
      if (auto* completion = std::get_if<foretoken::Completion>(&*event)) {
        out.completion = std::move(*completion);
        is_complete = true;
        measured.on_completion(out.completion);
        continue;
      }
      measured.on_event();
      if (const auto* progress = std::get_if<foretoken::PrefillProgress>(&*event)) {
        if (stream != nullptr) on_progress(*progress, *stream);
        continue;
      }
      auto& tokens = std::get<foretoken::CommittedTokens>(*event);
      measured.on_tokens(tokens.ids.size());
      add(index, part_of(std::move(tokens), splitter.get()), out, stream);
      if (stream != nullptr && feeds_[index]) {
        send_rounds(index, feeds_[index]->take(clock_.now_us()), *stream);
      }
    }
  }
  if (!is_complete || out.completion.finish_reason == foretoken::FinishReason::kCancelled) {
    throw api_error(503, "the generation was cancelled: the server is stopping", "server_stopping");
  }
  if (splitter) {
    ReplyPart rest;
    rest.deltas = splitter->finish();
    add(index, std::move(rest), out, stream);
    out.n_calls = splitter->n_calls();
    out.n_reasoning_tokens = splitter->n_reasoning_tokens();
  }
  if (stream != nullptr) {
    if (feeds_[index]) send_rounds(index, feeds_[index]->take_rest(), *stream);
    const std::lock_guard lock(stream->mutex);
    stream->reply.write(stream->writer.end_choice(out));
  }
  return out;
}

void ReplyRun::send_rounds(std::size_t index, std::span<const std::string> lines, Stream& stream) {
  if (lines.empty()) return;
  const std::lock_guard lock(stream.mutex);
  stream.reply.write(stream.writer.rounds(index, lines));
}

void ReplyRun::on_progress(const foretoken::PrefillProgress& progress, Stream& stream) const {
  const std::lock_guard lock(stream.mutex);
  const std::int64_t now_us = clock_.now_us();
  if (now_us - stream.last_progress_us < kProgressPauseUs) return;
  stream.last_progress_us = now_us;
  stream.reply.write(fmt::format(": prompt {}/{}\n\n", progress.n_done, progress.n_prompt));
}

void ReplyRun::add(std::size_t index, ReplyPart part, Choice& choice, Stream* stream) {
  if (part.is_empty()) return;
  if (stream == nullptr) {
    append(choice.reply, std::move(part));
    return;
  }
  const std::lock_guard lock(stream->mutex);
  if (!stream->reply.write(stream->writer.part(index, part))) cancel();
}

ReplyPart ReplyRun::part_of(foretoken::CommittedTokens tokens, ReplySplitter* splitter) const {
  ReplyPart out;
  out.logprobs = std::move(tokens.logprobs);
  if (!plan_.request.generation.ignore_eos && !out.logprobs.empty()) {
    const std::vector<foretoken::Token>& ends = backend_.model().eos_tokens;
    if (std::find(ends.begin(), ends.end(), out.logprobs.back().chosen.id) != ends.end()) {
      out.logprobs.pop_back();  // it ends the text and is none of it
    }
  }
  if (splitter != nullptr) {
    out.deltas = splitter->push(tokens);
  } else if (!tokens.text.empty()) {
    out.deltas.push_back({foretoken::ReplyDelta::Kind::kContent, std::move(tokens.text), 0});
  }
  return out;
}

}  // namespace ft::server
