// The generations behind one reply: all its choices at once, their tokens handed to a writer or
// collected.
#pragma once

#include "base/clock.h"
#include "server/backend.h"
#include "server/dialect.h"
#include "server/http_types.h"
#include "server/metrics.h"
#include "server/round_feed.h"
#include "server/text_request.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace ft::server {

/// A request whose generations are ready to be submitted.
struct ReplyPlan {
  TextRequest request;
  std::vector<foretoken::GenerationRequest> generations;  // one per prompt
  std::vector<std::string> echoes;                        // by prompt; empty: none

  std::size_t n_choices() const { return generations.size() * request.n; }
  std::size_t prompt_of(std::size_t choice) const { return choice / request.n; }
};

class ReplyRun {
 public:
  /// Submits all choices. Those of one prompt have seeds that follow each other: the first is the
  /// request's, or drawn. Throws what the engine refuses. The references must outlive this object.
  ReplyRun(const ReplyPlan& plan, Backend& backend, Metrics& metrics, const Clock& clock);

  /// Once one of these two. They end early if `reply` is gone. Throw ApiError and foretoken::Error;
  /// no choice runs any more then.
  std::vector<Choice> collect(Reply& reply);
  void stream(ReplyWriter& writer, Reply& reply);

 private:
  struct Stream {
    ReplyWriter& writer;
    Reply& reply;
    std::mutex mutex;  // of both
    std::int64_t last_progress_us;
  };

  std::vector<Choice> run(Reply& reply, Stream* stream);
  void run_each(const std::function<void(std::size_t)>& work);
  Choice run_choice(std::size_t index, Reply& reply, Stream* stream);
  void send_rounds(std::size_t index, std::span<const std::string> lines, Stream& stream);
  void on_progress(const foretoken::PrefillProgress& progress, Stream& stream) const;
  void add(std::size_t index, ReplyPart part, Choice& choice, Stream* stream);
  ReplyPart part_of(foretoken::CommittedTokens tokens, ReplySplitter* splitter) const;
  void cancel() noexcept;

  const ReplyPlan& plan_;
  Backend& backend_;
  Metrics& metrics_;
  const Clock& clock_;
  std::vector<std::unique_ptr<Generation>> generations_;  // by choice; nullptr: nothing to generate
  // By choice; nullptr: the request wants none. The engine may trace for a moment longer than it is
  // read.
  std::vector<std::shared_ptr<RoundFeed>> feeds_;
  std::int64_t submitted_us_;
};

}  // namespace ft::server
