#include "apps/model_path.h"

#include "base/error.h"
#include "io/file.h"

#include <algorithm>
#include <system_error>

namespace ft::apps {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kDefaultModel = "glm-mini";

std::string known_names(const std::vector<fs::path>& folders) {
  std::vector<std::string> names;
  for (const fs::path& folder : folders) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      if (fs::exists(entry.path() / "config.json", error)) {
        names.push_back(entry.path().filename().string());
      }
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::vector<fs::path> model_folders() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const fs::path folder = program.parent_path();
  return {folder.parent_path() / "models",
          folder / "models",
          folder.parent_path() / "share" / "foretoken" / "models"};
}

fs::path resolve_model(std::string_view name, const std::vector<fs::path>& folders) {
  if (!name.empty()) io::refuse_unreachable("model", fs::path(name));
  std::error_code error;
  if (!name.empty() && fs::exists(fs::path(name), error)) return fs::path(name);
  const std::string_view wanted = name.empty() ? kDefaultModel : name;
  // A name is one path component; ".." or a folder would lead out of the models folder.
  const bool is_name =
      wanted.find('/') == std::string_view::npos && wanted != "." && wanted != "..";
  if (is_name) {
    for (const fs::path& folder : folders) {
      if (fs::exists(folder / wanted, error)) return folder / wanted;
    }
  }
  const std::string names = known_names(folders);
  fail("model {}: no such file or folder{}",
       in_quotes(wanted),
       names.empty() ? std::string("; give the path of a model folder")
                     : "; models that ship with the program: " + names);
}

}  // namespace ft::apps
