#include "apps/model_path.h"

#include "base/error.h"
#include "io/file.h"

#include <filesystem>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

namespace ft::apps {
namespace {
namespace fs = std::filesystem;

class ModelPath : public testing::Test {
 protected:
  void SetUp() override {
    const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(testing::TempDir()) /
            (std::string("ft_model_path_") + info->name() + "_" + std::to_string(::getpid()));
    fs::remove_all(root_);
    for (const char* name : {"glm-mini", "other"}) {
      fs::create_directories(root_ / "models" / name);
      io::LineWriter(root_ / "models" / name / "config.json").write("{}");
    }
  }
  void TearDown() override { fs::remove_all(root_); }
  std::vector<fs::path> folders() const { return {root_ / "missing", root_ / "models"}; }

  fs::path root_;
};

TEST_F(ModelPath, TakesAPathThatExists) {
  EXPECT_EQ(resolve_model(root_.string(), folders()), root_);
}

TEST_F(ModelPath, FindsNamesInTheModelFolders) {
  EXPECT_EQ(resolve_model("other", folders()), root_ / "models" / "other");
  EXPECT_EQ(resolve_model("", folders()), root_ / "models" / "glm-mini");
}

TEST_F(ModelPath, RefusesOtherNamesAndListsWhatThereIs) {
  for (const char* name : {"nothing", "nothing/at/all"}) {
    try {
      resolve_model(name, folders());
      FAIL() << name;
    } catch (const InvalidInput& error) {
      EXPECT_NE(std::string(error.what()).find("glm-mini, other"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace ft::apps
