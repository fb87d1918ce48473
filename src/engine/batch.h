// Requests that go on together: a step is one forward for rows of many of them, prompts and drafts
// mixed. What a request gets is what it would get alone, for rows do not depend on each other.
//
// Every step all requests that decode come first, each with its whole window, in turns where they
// do not all fit; then prompts, in turns, as many rows as are left. Beside rows that decode only a
// few of a prompt are fed, so that a long prompt slows the others down and does not stop them.
#pragma once

#include "base/work_meter.h"
#include "engine/engine_core.h"
#include "engine/session.h"
#include "speculation/forward_share.h"
#include "speculation/round_draft.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

namespace ft::engine {

/// A request as a batch sees it. Engine thread, but for what says otherwise. What goes wrong is
/// told to whoever waits for the request, and it is over.
class Member {
 public:
  enum class Need : std::uint8_t {
    kPrefill,  // its prompt is to be fed
    kRound,    // it decodes
    kReader,   // its reader is too far behind; rings the engine's bell when that changes
    kOther,    // another member that can go on is feeding what both begin with
    kNothing,  // it is over
  };

  virtual ~Member() = default;
  /// Opens the session, or waits with it. Called once, first.
  virtual void start() noexcept = 0;
  /// What it needs to go on. One that was cancelled ends here.
  virtual Need need() noexcept = 0;
  /// Prepares the next forward: at most max_rows >= 1 rows of a prompt, or a round. A round that
  /// waits for its forward already stays as it is.
  virtual void begin(std::size_t max_rows, Company company) noexcept = 0;
  /// The draft of a round that was begun in company, for speculation::draft_together(); null: there
  /// is none to complete.
  virtual speculation::RoundDraft* drafting() noexcept = 0;
  /// It is complete.
  virtual void end_drafting() noexcept = 0;
  /// Of the forward that was prepared. Not if begin() ended the request.
  virtual speculation::ForwardPart part() const = 0;
  /// The forward was done.
  virtual void take(const speculation::ForwardShare& share) noexcept = 0;
  /// The forward failed, and would with no other request in it.
  virtual void fail(const std::exception_ptr& error) noexcept = 0;
  /// Within a forward of its own or with others.
  virtual void on_layer(std::size_t n_done, std::size_t n_layers) noexcept = 0;
  /// What it wants measured; null: nothing. Measured members run alone.
  virtual WorkMeter* meter() noexcept = 0;
  /// Fires when it is cancelled. Any thread.
  virtual std::stop_token stop_token() const noexcept = 0;
  /// Until its time is over; nullopt: never. Then it is to end as if cancelled. Any thread.
  virtual std::optional<std::chrono::microseconds> time_left() const noexcept = 0;
  /// It is to end soon. Any thread.
  virtual void cancel() noexcept = 0;
  /// The engine closed before start().
  virtual void abandon() noexcept = 0;
};

/// Of one step.
struct BatchLimits {
  std::size_t n_rows = 0;    // of a forward; one request's part alone may have more
  std::size_t n_logits = 0;  // rows of it with logits; the same
  std::size_t n_prefill_beside_rounds = 0;
};

/// What memory was planned for.
BatchLimits batch_limits(const EngineParts& parts);

class Batch {
 public:
  Batch(EngineCore& core, BatchLimits limits) : core_(core), limits_(limits) {}

  /// One forward for those that can go on; false: none can. `closing` ends a shared forward, a
  /// request's own token one of its own. A shared forward that fails is repeated one by one, so
  /// that only those fail that do by themselves.
  bool step(std::span<Member* const> members, const std::stop_token& closing);

 private:
  struct Entrant {
    Member* member = nullptr;
    speculation::ForwardPart part;
    bool is_prefill = false;
  };

  void add_rounds(std::span<Member* const> members);
  void add_prompts(std::span<Member* const> members, Company company);
  void add(Member& member, bool is_prefill);
  void draft(std::span<Member* const> members, const std::stop_token& closing);
  std::size_t n_rows() const noexcept;
  void forward(const std::stop_token& closing);
  void forward_alone(const Entrant& entrant);
  void run(std::span<const Entrant> entrants, const std::stop_token& stop);
  std::vector<Member*> in_turn(std::span<Member* const> members) const;

  EngineCore& core_;
  BatchLimits limits_;
  speculation::ForwardCosts costs_;
  std::vector<Entrant> entrants_;   // of the running step
  const Member* first_ = nullptr;   // of the next step; never dereferenced
  const Member* missed_ = nullptr;  // the first that had no room in this one
};

}  // namespace ft::engine
