#include "experts/extent_reader.h"

#include "base/error.h"
#include "checkpoint/checksum.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

namespace ft::experts {
namespace {

// Checking 4 MiB takes about 0.3 ms, in which a fast drive empties a queue of a few MiB. Larger
// experts are checked on a thread of their own; for smaller ones the hand-over would cost as much.
constexpr std::uint64_t kOwnThreadBytes = std::uint64_t{4} << 20;

/// The queue's "cannot read 'FILE': why" as the end of a line that starts alike.
std::string_view cause_of(std::string_view error) {
  constexpr std::string_view kStart = "cannot read ";
  return error.starts_with(kStart) ? error.substr(kStart.size()) : error;
}

}  // namespace

ExtentReader::ExtentReader(std::vector<ExtentFiles> layers,
                           const Clock& clock,
                           std::unique_ptr<io::ReadQueue> queue,
                           std::function<void(const ExtentOutcome&)> done)
    : layers_(std::move(layers)),
      clock_(clock),
      done_(std::move(done)),
      queue_(std::move(queue)),
      mirrors_(layers_.empty() ? 1 : layers_.front().files.size()) {
  const bool has_large = std::ranges::any_of(
      layers_, [](const ExtentFiles& layer) { return layer.extent_bytes >= kOwnThreadBytes; });
  try {
    queue_thread_ = std::jthread([this] { serve_queue(); });
    if (has_large) check_thread_ = std::jthread([this] { serve_checks(); });
  } catch (const std::system_error& error) {
    stop();  // the threads that did start
    throw ResourceExhausted(fmt::format(
        "experts: cannot start a thread for reads: {}; raise the limit on threads", error.what()));
  }
}

ExtentReader::~ExtentReader() {
  stop();
}

void ExtentReader::stop() {
  {
    const std::scoped_lock lock(mutex_);
    is_stopping_ = true;
  }
  queue_->wake();
  has_checks_.notify_all();
}

void ExtentReader::start(std::span<const ExtentRead> reads, ThreadPool* pool) {
  std::vector<char> is_copied(reads.size());
  const auto copy = [&](std::size_t begin, std::size_t end, std::size_t) {
    for (std::size_t i = begin; i < end; ++i) is_copied[i] = copy_from_cache(reads[i]) ? 1 : 0;
  };
  const bool may_copy =
      // Once it has, the kernel may still write to a destination: nothing else may come to lie
      // there.
      !has_queue_failed() &&
      std::ranges::any_of(reads, [this](const ExtentRead& read) { return may_be_copied(read); });
  if (may_copy && pool != nullptr) {
    pool->parallel_for(reads.size(), 1, copy);
  } else if (may_copy) {
    copy(0, reads.size(), 0);
  }
  std::vector<Attempt> missing;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    if (is_copied[i] != 0) {
      ExtentOutcome outcome;
      outcome.read = reads[i];
      outcome.was_cached = true;
      done_(outcome);
    } else {
      missing.emplace_back().outcome.read = reads[i];
    }
  }
  if (!missing.empty()) queue_up(std::move(missing));
}

bool ExtentReader::has_queue_failed() {
  const std::scoped_lock lock(mutex_);
  return !queue_failure_.empty();
}

void ExtentReader::queue_up(std::vector<Attempt> attempts) {
  bool is_served = false;
  {
    const std::scoped_lock lock(mutex_);
    is_served = queue_failure_.empty();
    if (is_served) std::ranges::move(attempts, std::back_inserter(to_start_));
  }
  if (is_served) {
    queue_->wake();
  } else {
    for (Attempt& attempt : attempts) refuse(std::move(attempt));
  }
}

void ExtentReader::refuse(Attempt attempt) {
  ExtentOutcome& outcome = attempt.outcome;
  outcome.was_guess = outcome.read.priority == io::ReadPriority::kAhead;
  ++outcome.n_failed;
  outcome.error = unreadable(attempt, queue_failure_);
  done_(outcome);
}

bool ExtentReader::may_be_copied(const ExtentRead& read) const noexcept {
  const ExtentFiles& layer = layers_[read.layer_index];
  return layer.uses_page_cache && layer.extent_bytes <= kCopiedBytes &&
         read.priority == io::ReadPriority::kDemand;
}

bool ExtentReader::copy_from_cache(const ExtentRead& read) const noexcept {
  if (!may_be_copied(read)) return false;
  const ExtentFiles& layer = layers_[read.layer_index];
  const std::span<std::byte> destination = read.destination.first(layer.extent_bytes);
  return layer.files.front().read_if_cached(destination, read.expert * layer.extent_bytes) &&
         checkpoint::checksum_of(destination) == layer.checksums[read.expert];
}

void ExtentReader::promote(std::uint64_t tag) {
  {
    const std::scoped_lock lock(mutex_);
    to_promote_.push_back(tag);
  }
  queue_->wake();
}

void ExtentReader::drop(std::uint64_t tag) {
  {
    const std::scoped_lock lock(mutex_);
    to_drop_.push_back(tag);
  }
  queue_->wake();
}

void ExtentReader::serve_queue() {
  std::string failure;
  try {
    pass_on_reads();
    return;
  } catch (const std::exception& error) {
    failure = fmt::format("{}; open the model again", error.what());
  }
  std::vector<Attempt> refused;
  {
    const std::scoped_lock lock(mutex_);
    queue_failure_ = std::move(failure);
    refused.swap(to_start_);
  }
  for (auto& [tag, attempt] : std::exchange(under_way_, {})) refused.push_back(std::move(attempt));
  for (Attempt& attempt : refused) refuse(std::move(attempt));
}

void ExtentReader::pass_on_reads() {
  std::vector<Attempt> starting;
  std::vector<std::uint64_t> promoted;
  std::vector<std::uint64_t> dropped;
  std::vector<io::ReadRequest> requests;
  std::vector<io::ReadResult> finished;
  while (true) {
    starting.clear();
    promoted.clear();
    dropped.clear();
    {
      const std::scoped_lock lock(mutex_);
      if (is_stopping_) break;
      starting.swap(to_start_);
      promoted.swap(to_promote_);
      dropped.swap(to_drop_);
    }
    submit(starting, requests);
    for (const std::uint64_t tag : promoted) {
      const auto attempt = under_way_.find(tag);
      if (attempt == under_way_.end()) continue;
      attempt->second.outcome.read.priority = io::ReadPriority::kDemand;
      queue_->promote(tag);
    }
    for (const std::uint64_t tag : dropped) queue_->drop(tag);
    finished.clear();
    queue_->wait(finished);
    for (const io::ReadResult& result : finished) finish(result);
  }
}

void ExtentReader::submit(std::vector<Attempt>& attempts, std::vector<io::ReadRequest>& requests) {
  requests.clear();
  for (Attempt& attempt : attempts) {
    const ExtentRead& read = attempt.outcome.read;
    const ExtentFiles& layer = layers_[read.layer_index];
    attempt.mirror = mirrors_.choose(layer.extent_bytes, clock_.now_us(), attempt.mirror);
    requests.push_back({.file = &layer.files[attempt.mirror],
                        .offset = read.expert * layer.extent_bytes,
                        .destination = read.destination.first(layer.extent_bytes),
                        .tag = read.tag,
                        .priority = read.priority});
    const std::uint64_t tag = read.tag;
    under_way_.insert_or_assign(tag, std::move(attempt));
  }
  if (!requests.empty()) queue_->submit(requests);
}

void ExtentReader::finish(const io::ReadResult& result) {
  auto node = under_way_.extract(result.tag);
  FT_CHECK(!node.empty());
  Attempt attempt = std::move(node.mapped());
  const ExtentFiles& layer = layers_[attempt.outcome.read.layer_index];
  mirrors_.finished(attempt.mirror, layer.extent_bytes, result.n_bytes, clock_.now_us());
  attempt.outcome.latency_us = result.latency_us;
  attempt.outcome.bytes_read += result.n_bytes;
  if (result.was_dropped) {
    attempt.outcome.was_guess = true;
    attempt.outcome.was_dropped = true;
    attempt.outcome.error = result.error;
    done_(attempt.outcome);
    return;
  }
  attempt.outcome.error.clear();
  if (!result.error.empty()) {
    attempt.outcome.error = unreadable(attempt, cause_of(result.error));
  }
  if (result.error.empty() && layer.extent_bytes >= kOwnThreadBytes) {
    {
      const std::scoped_lock lock(mutex_);
      to_check_.push_back(std::move(attempt));
    }
    has_checks_.notify_one();
  } else {
    check(std::move(attempt));
  }
}

void ExtentReader::serve_checks() {
  std::vector<Attempt> checking;
  while (true) {
    checking.clear();
    {
      std::unique_lock lock(mutex_);
      has_checks_.wait(lock, [this] { return is_stopping_ || !to_check_.empty(); });
      if (is_stopping_) break;
      checking.swap(to_check_);
    }
    for (Attempt& attempt : checking) check(std::move(attempt));
  }
}

void ExtentReader::check(Attempt attempt) {
  ExtentOutcome& outcome = attempt.outcome;
  if (outcome.error.empty()) outcome.error = damage(attempt);
  const bool is_good = outcome.error.empty();
  mirrors_.judged(attempt.mirror, is_good, clock_.now_us());
  outcome.was_guess = attempt.outcome.read.priority == io::ReadPriority::kAhead;
  outcome.n_failed += is_good ? 0 : 1;
  if (is_good || outcome.was_guess || outcome.n_failed > 1) {
    done_(outcome);
    return;
  }
  std::vector<Attempt> again;
  again.push_back(std::move(attempt));
  queue_up(std::move(again));
}

std::string ExtentReader::unreadable(const Attempt& attempt, std::string_view why) const {
  const ExtentRead& read = attempt.outcome.read;
  return fmt::format(
      "cannot read expert {} of layer {}: {}", read.expert, layers_[read.layer_index].layer, why);
}

std::string ExtentReader::damage(const Attempt& attempt) const {
  const ExtentRead& read = attempt.outcome.read;
  const ExtentFiles& layer = layers_[read.layer_index];
  const std::uint64_t checksum =
      checkpoint::checksum_of(read.destination.first(layer.extent_bytes));
  if (checksum == layer.checksums[read.expert]) return {};
  return fmt::format(
      "expert {} of layer {} in {} is damaged: its checksum differs; copy the file again or run "
      "inspect --verify",
      read.expert,
      layer.layer,
      in_quotes(layer.files[attempt.mirror].path().native()));
}

}  // namespace ft::experts
