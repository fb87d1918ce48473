// How the streaming of experts went, for people and for scripts.
#pragma once

#include "foretoken/foretoken.h"

#include <string>

namespace ft::apps {

/// "experts: ..." and which knob to turn; empty if experts are resident. `wall_ms`: how long the
/// request took.
std::string experts_text(const foretoken::ExpertStatistics& experts, double wall_ms);

/// Bytes per second that came from the drive.
double read_bytes_per_s(const foretoken::ExpertStatistics& experts, double wall_ms);
/// The part of the time that computing waited for reads.
double stall_share(const foretoken::ExpertStatistics& experts, double wall_ms);

}  // namespace ft::apps
