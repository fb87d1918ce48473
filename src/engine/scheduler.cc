#include "engine/scheduler.h"

#include "foretoken/foretoken.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace ft::engine {

Scheduler::Scheduler(SchedulerOptions options)
    : options_(std::move(options)), thread_([this](const std::stop_token& stop) { serve(stop); }) {}

Scheduler::~Scheduler() {
  thread_.request_stop();
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
    if (running_) running_->cancel();
    for (const auto& member : members_) member->cancel();
  }
  thread_.join();
  for (const Work& work : waiting_) work.job ? work.job->abandon() : work.member->abandon();
}

void Scheduler::submit(std::unique_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(job), nullptr});
  }
  options_.bell->ring();
}

void Scheduler::submit(std::unique_ptr<Member> member) {
  {
    const std::lock_guard lock(mutex_);
    // Those that could start at once do not wait, even if the engine thread has yet to see them.
    const std::size_t n_free =
        options_.max_members - std::min(options_.max_members, members_.size());
    if (n_waiting_members_ >= n_free && n_waiting_members_ - n_free >= options_.max_queued) {
      throw foretoken::Busy(fmt::format(
          "{} requests run and {} wait, as many as may (max_sessions {}, max_queued {}); submit "
          "again later",
          members_.size(),
          n_waiting_members_,
          options_.max_members,
          options_.max_queued));
    }
    waiting_.push_back({nullptr, std::move(member)});
    ++n_waiting_members_;
  }
  options_.bell->ring();
}

Scheduler::Load Scheduler::load() const {
  const std::lock_guard lock(mutex_);
  return {members_.size(), n_waiting_members_};
}

void Scheduler::serve(const std::stop_token& stop) {
  if (options_.first) options_.first();
  std::vector<Member*> views;
  while (!stop.stop_requested()) {
    end_cancelled();
    start_what_may();
    if (stop.stop_requested()) break;
    views.clear();
    for (const auto& member : members_) views.push_back(member.get());
    const bool has_stepped = !views.empty() && options_.step(views, stop);
    drop_finished();
    // Whatever else there may be to do, somebody rings for it.
    if (!has_stepped && members_.size() == views.size()) options_.bell->wait(stop, time_left());
  }
  for (const auto& member : members_) {
    member->cancel();
    static_cast<void>(member->need());  // where it ends
  }
  drop_finished();
}

/// Until somebody's time is over.
std::optional<std::chrono::microseconds> Scheduler::time_left() const {
  std::optional<std::chrono::microseconds> least;
  const auto consider = [&least](const Member& member) {
    const auto left = member.time_left();
    if (left) least = std::min(least.value_or(*left), *left);
  };
  const std::lock_guard lock(mutex_);
  for (const auto& member : members_) consider(*member);
  for (const Work& work : waiting_) {
    if (work.member) consider(*work.member);
  }
  return least;
}

/// Those that nobody wants any more, or whose time is over, give up their place in the queue.
void Scheduler::end_cancelled() {
  const auto is_over = [](const Member& member) {
    return member.stop_token().stop_requested() ||
           member.time_left().value_or(std::chrono::microseconds::max()).count() <= 0;
  };
  std::vector<std::unique_ptr<Member>> cancelled;
  {
    const std::lock_guard lock(mutex_);
    for (Work& work : waiting_) {
      if (work.member && is_over(*work.member)) cancelled.push_back(std::move(work.member));
    }
    std::erase_if(waiting_, [](const Work& work) { return !work.job && !work.member; });
    n_waiting_members_ -= cancelled.size();
  }
  for (const auto& member : cancelled) {
    member->start();
    static_cast<void>(member->need());
  }
}

void Scheduler::start_what_may() {
  while (std::optional<Work> work = take_next()) {
    if (work->job) {
      run(std::move(work->job));
    } else {
      start(std::move(work->member));
    }
  }
}

std::optional<Scheduler::Work> Scheduler::take_next() {
  const std::lock_guard lock(mutex_);
  if (is_closing_ || waiting_.empty() || !may_start(waiting_.front())) return std::nullopt;
  Work work = std::move(waiting_.front());
  waiting_.pop_front();
  if (work.member) --n_waiting_members_;
  return work;
}

bool Scheduler::may_start(const Work& work) const {
  if (members_.empty()) return true;
  const bool is_alone = work.job || work.member->meter() != nullptr;
  return !is_alone && members_.front()->meter() == nullptr &&
         members_.size() < options_.max_members;
}

void Scheduler::run(std::unique_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    running_ = std::move(job);
    if (is_closing_) running_->cancel();
  }
  running_->run();
  std::unique_ptr<Job> done;
  const std::lock_guard lock(mutex_);
  done = std::move(running_);
}

void Scheduler::start(std::unique_ptr<Member> member) {
  Member& started = *member;
  {
    const std::lock_guard lock(mutex_);
    members_.push_back(std::move(member));
    if (is_closing_) started.cancel();
  }
  started.start();
}

void Scheduler::drop_finished() {
  std::vector<const Member*> over;
  for (const auto& member : members_) {
    if (member->need() == Member::Need::kNothing) over.push_back(member.get());
  }
  if (over.empty()) return;
  std::vector<std::unique_ptr<Member>> finished;  // die outside the lock
  const std::lock_guard lock(mutex_);
  for (auto& member : members_) {
    if (std::ranges::find(over, member.get()) != over.end()) finished.push_back(std::move(member));
  }
  std::erase(members_, nullptr);
}

}  // namespace ft::engine
