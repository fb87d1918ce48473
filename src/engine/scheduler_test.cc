#include "engine/scheduler.h"

#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace ft::engine {
namespace {

/// What happened to the jobs, in order.
class Journal {
 public:
  void add(const std::string& entry) {
    const std::lock_guard lock(mutex_);
    entries_.push_back(entry);
  }
  std::vector<std::string> entries() const {
    const std::lock_guard lock(mutex_);
    return entries_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> entries_;
};

/// Notes that it ran; if it holds a promise, waits until it is cancelled.
class TestJob final : public Job {
 public:
  TestJob(std::string name, Journal& journal) : name_(std::move(name)), journal_(journal) {}

  void wait_for_cancel(std::promise<void>& started) { started_ = &started; }
  void run() noexcept override {
    journal_.add(name_ + " runs");
    if (started_ == nullptr) return;
    started_->set_value();
    cancelled_.get_future().wait();
  }
  void cancel() noexcept override {
    journal_.add(name_ + " cancelled");
    cancelled_.set_value();
  }
  void abandon() noexcept override { journal_.add(name_ + " abandoned"); }

 private:
  std::string name_;
  Journal& journal_;
  std::promise<void>* started_ = nullptr;
  std::promise<void> cancelled_;
};

/// Fulfils a promise: the jobs before it are done.
class Fence final : public Job {
 public:
  explicit Fence(std::promise<void>& reached) : reached_(reached) {}
  void run() noexcept override { reached_.set_value(); }
  void cancel() noexcept override {}
  void abandon() noexcept override {}

 private:
  std::promise<void>& reached_;
};

TEST(Scheduler, RunsJobsInOrderOfSubmission) {
  Journal journal;
  Scheduler scheduler;
  for (const char* name : {"a", "b", "c"}) {
    scheduler.submit(std::make_unique<TestJob>(name, journal));
  }
  std::promise<void> done;
  scheduler.submit(std::make_unique<Fence>(done));
  done.get_future().wait();
  EXPECT_EQ(journal.entries(), (std::vector<std::string>{"a runs", "b runs", "c runs"}));
}

TEST(Scheduler, CancelsTheRunningJobAndAbandonsTheRestWhenItCloses) {
  Journal journal;
  std::promise<void> started;
  {
    Scheduler scheduler;
    auto first = std::make_unique<TestJob>("a", journal);
    first->wait_for_cancel(started);
    scheduler.submit(std::move(first));
    scheduler.submit(std::make_unique<TestJob>("b", journal));
    started.get_future().wait();
  }
  EXPECT_EQ(journal.entries(), (std::vector<std::string>{"a runs", "a cancelled", "b abandoned"}));
}

TEST(Scheduler, ClosesWithoutWork) {
  const Scheduler scheduler;
}

}  // namespace
}  // namespace ft::engine
