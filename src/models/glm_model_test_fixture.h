// Loads tiny models from folders of their own. Linked by tests only.
#pragma once

#include "base/error.h"
#include "models/glm_test_model.h"
#include "testing/tiny_glm.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

namespace ft::models {

inline std::vector<Token> some_tokens(std::size_t n) {
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < n; ++i) {
    tokens.push_back(static_cast<Token>((i * i * 7 + i * 3 + 1) % testing::kTinyVocab));
  }
  return tokens;
}

/// A folder of its own per test, removed at the end.
class TestFolder {
 public:
  TestFolder() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(info->test_suite_name()) + "_" + info->name();
    std::replace(name.begin(), name.end(), '/', '_');
    path_ = std::filesystem::path(::testing::TempDir()) /
            ("ft_models_" + name + "_" + std::to_string(::getpid()));
    std::filesystem::remove_all(path_);
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  TestFolder(TestFolder&&) = delete;
  TestFolder& operator=(TestFolder&&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class GlmModelTest : public ::testing::Test {
 protected:
  /// Writes and loads; one model per call.
  LoadedModel& load(const testing::TinyGlm& glm,
                    kernels::Isa isa = kernels::Isa::kRef,
                    std::size_t n_threads = 1,
                    const LoadOptions& options = {}) {
    const std::filesystem::path folder = folder_.path() / std::to_string(models_.size());
    glm.write(folder);
    models_.push_back(std::make_unique<LoadedModel>(folder, isa, n_threads, options));
    return *models_.back();
  }
  std::string refusal(const testing::TinyGlm& glm) {
    try {
      load(glm);
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return "";
  }

 private:
  TestFolder folder_;
  std::vector<std::unique_ptr<LoadedModel>> models_;
};

}  // namespace ft::models
