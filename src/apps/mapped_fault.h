// A model's file that is cut short, or whose drive fails, while it is mapped.
#pragma once

namespace ft::apps {

/// From now on a mapped page that cannot be read (SIGBUS) ends the process with one line on
/// standard error and exit status 1: what was being computed from it has no value.
void end_on_mapped_fault();

}  // namespace ft::apps
