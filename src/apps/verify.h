// Re-reading a container, for `convert --verify` and `inspect --verify`.
#pragma once

#include "apps/options.h"

#include <string>

namespace ft::apps {

/// Checks every byte of a container. Throws InvalidInput naming the first damage and counting the
/// rest.
void verify(const std::string& folder, const OutputOptions& output);

}  // namespace ft::apps
