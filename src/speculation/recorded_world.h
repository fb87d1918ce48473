// What other choices would have taken: a world made of several traces of one request, in which any
// choice can be played. Used by `replay-plan` and by the planner's tests.
#pragma once

#include "speculation/replay.h"

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ft::speculation {

/// A way to choose, and what it took.
struct PlayedChoice {
  std::string name;  // "auto", "none", "mtp 3"
  double us_per_1000_tokens = 0;
  double tokens_per_round = 0;
};

/// The text is the same whoever drafts, and so are a source's drafts at a position; times depend on
/// the number of rows and the position. Where no trace tells of so many drafts at a position, they
/// are taken to do as those at the nearest one where a trace does. A time is that of the nearest
/// round in position, per number of rows, interpolated between numbers that were measured. What is
/// resident is not modelled: the waits are part of the times. Played to 1,000 tokens; a shorter
/// text is played again from its start.
class RecordedWorld {
 public:
  /// Throws InvalidInput if the traces hold no rounds, or start at different positions: they are
  /// of different requests then.
  explicit RecordedWorld(std::span<const RecordedTrace> traces);

  /// `auto` first, then no drafts, then every source at 1 ... the largest depth it was recorded at.
  /// Times are those of rounds `shift` positions further on, from the end on to the start: the same
  /// text with other luck.
  std::vector<PlayedChoice> play(std::size_t shift = 0) const;

 private:
  using Samples = std::map<std::size_t, std::map<std::size_t, double>>;  // [n][position]: us
  struct Run {
    std::size_t accepted = 0;
    bool is_end_known = false;  // the draft after them was wrong, or there was none
  };
  struct Source {
    std::string name;
    std::map<std::size_t, Run> runs;  // by position
    std::map<std::size_t, Offer> offers;
    Samples draft_us;
    std::size_t max_depth = 0;
  };
  struct Step {
    RoundOutcome outcome;
    std::size_t n_tokens = 1;
  };

  void add(const RecordedTrace& trace);
  void add_drafts(const RecordedRound& round, Source& source);
  Source& source(const std::string& name);
  static double time_of(const Samples& samples, std::size_t n, std::size_t position);
  static std::size_t run_length(const Source& source, std::size_t position, std::size_t most);
  std::optional<Offer> offer(const Source& source, std::size_t position) const;
  struct Place {
    std::size_t position = 0;
    std::size_t timed_as = 0;  // position
  };
  Place place(std::size_t position, std::size_t shift) const;
  Step step(std::span<const RoundPlan::Part> parts, Place at) const;
  PlayedChoice play_fixed(std::string name,
                          const std::optional<RoundPlan::Part>& part,
                          std::size_t shift) const;
  PlayedChoice play_planner(std::size_t shift) const;

  std::vector<Source> sources_;
  Samples rest_us_;
  std::size_t begin_ = 0;  // positions of rounds
  std::size_t end_ = 0;
};

/// Time of the first choice over that of the best of the others, less 1.
double regret(std::span<const PlayedChoice> choices);

}  // namespace ft::speculation
