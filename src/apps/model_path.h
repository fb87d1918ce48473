// From what the user calls a model to its folder.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ft::apps {

/// Where models that ship with the program may lie: beside the executable, beside its folder (a
/// build tree), and in the share folder of an installation.
std::vector<std::filesystem::path> model_folders();

/// A path that exists, else a name under one of `folders`; an empty name is the small model that
/// ships. Throws InvalidInput that lists the names there are.
std::filesystem::path resolve_model(std::string_view name,
                                    const std::vector<std::filesystem::path>& folders);

}  // namespace ft::apps
