// Compares the engine with Jinja itself (tests/oracle/jinja_oracle.py): the same text, or an error
// from both.
#include "base/error.h"
#include "json/json.h"
#include "text/jinja/differential_cases.h"
#include "text/jinja/template.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace ft::text::jinja {
namespace {

struct Input {
  std::string source;
  std::string context;  // a JSON object
};

std::string quoted(const std::string& text) {
  return json::Writer().value(text).text();
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void run_script(const std::string& name, const std::string& arguments) {
  const std::string command =
      "/usr/bin/python3 -W ignore '" FT_SOURCE_DIR "/tests/oracle/" + name + "' " + arguments;
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

/// What Jinja makes of each input, in one run of the oracle.
json::Value ask_oracle(const std::vector<Input>& inputs, const std::string& name) {
  const std::string stem = std::string(FT_BINARY_DIR) + "/jinja_" + name;
  std::ofstream file(stem + ".cases.json");
  file << "[";
  for (const Input& input : inputs) {
    if (&input != inputs.data()) file << ",\n";
    file << "{\"template\": " << quoted(input.source) << ", \"context\": " << input.context << "}";
  }
  file << "]";
  file.close();
  run_script("jinja_oracle.py", "'" + stem + ".cases.json' '" + stem + ".results.json'");
  return json::parse(read_file(stem + ".results.json"), "results of the oracle");
}

void compare(const std::vector<Input>& inputs, const std::string& name) {
  const json::Value results = ask_oracle(inputs, name);
  const json::Array& expected = results.as_array("results");
  ASSERT_EQ(expected.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i) + ": " + inputs[i].source);
    const json::Value* output = expected[i].find("output");
    const json::Value* error = expected[i].find("error");
    try {
      const json::Value context = json::parse(inputs[i].context, "context");
      const std::string text = Template::compile(inputs[i].source).render(context).bytes();
      if (output != nullptr) {
        EXPECT_EQ(text, output->as_string("output"));
      } else {
        ADD_FAILURE() << "expected an error (" << error->as_string("error") << "), got: " << text;
      }
    } catch (const InvalidInput& failure) {
      EXPECT_EQ(output, nullptr) << "expected: " << output->as_string("output")
                                 << "\ngot the error: " << failure.what();
    }
  }
}

void compare_table(const std::vector<DifferentialCase>& cases, const std::string& name) {
  std::vector<Input> inputs;
  inputs.reserve(cases.size());
  for (const DifferentialCase& c : cases) {
    inputs.push_back(
        {std::string(c.source), std::string(c.context.empty() ? kDefaultContext : c.context)});
  }
  compare(inputs, name);
}

TEST(JinjaDifferential, AgreesOnLexicalRules) {
  compare_table(lexical_cases(), "lexical");
}

TEST(JinjaDifferential, AgreesOnStatements) {
  compare_table(statement_cases(), "statements");
}

TEST(JinjaDifferential, AgreesOnExpressions) {
  compare_table(expression_cases(), "expressions");
}

TEST(JinjaDifferential, AgreesOnFilters) {
  compare_table(filter_cases(), "filters");
}

TEST(JinjaDifferential, AgreesOnMethods) {
  compare_table(method_cases(), "methods");
}

TEST(JinjaDifferential, AgreesOnRandomTemplates) {
  constexpr int seed = 20250101;
  constexpr int n_templates = 800;
  const std::string path = std::string(FT_BINARY_DIR) + "/jinja_random.templates.json";
  run_script("jinja_templates.py",
             std::to_string(seed) + " " + std::to_string(n_templates) + " '" + path + "'");
  const json::Value templates = json::parse(read_file(path), path);
  std::vector<Input> inputs;
  for (const json::Value& source : templates.as_array(path)) {
    inputs.push_back({source.as_string(path), std::string(kDefaultContext)});
  }
  ASSERT_EQ(inputs.size(), static_cast<std::size_t>(n_templates));
  compare(inputs, "random");
}

/// Every request of the list with a whole template; `add_generation_prompt` is what an absent one
/// means.
void compare_requests(const std::string& template_path,
                      const std::string& requests_path,
                      const std::string& name) {
  const std::string source = read_file(template_path);
  const json::Value requests = json::parse(read_file(requests_path), requests_path);
  std::vector<Input> inputs;
  for (const json::Value& entry : requests.as_array(requests_path)) {
    const json::Value* golden = entry.find("request");
    json::Object context = (golden != nullptr ? *golden : entry).as_object("request");
    context.emplace_back("bos_token", json::Value(std::string("<s>")));
    context.emplace_back("eos_token", json::Value(std::string("</s>")));
    const json::Value value(std::move(context));
    if (value.find("add_generation_prompt") == nullptr) {
      json::Object with_prompt = value.as_object("request");
      with_prompt.emplace_back("add_generation_prompt", json::Value(true));
      inputs.push_back({source, json::Writer().value(json::Value(std::move(with_prompt))).text()});
    } else {
      inputs.push_back({source, json::Writer().value(value).text()});
    }
  }
  compare(inputs, name);
}

constexpr const char* kTestData = FT_SOURCE_DIR "/src/text/jinja/testdata/";

class PublishedStyle : public testing::TestWithParam<const char*> {};

TEST_P(PublishedStyle, AgreesOnAllRequests) {
  const std::string path = std::string(kTestData) + GetParam() + ".jinja";
  compare_requests(path, std::string(kTestData) + "requests.json", GetParam());
}

TEST_P(PublishedStyle, AgreesOnTheGoldenRequests) {
  const std::string path = std::string(kTestData) + GetParam() + ".jinja";
  compare_requests(
      path, FT_SOURCE_DIR "/models/goldens/chat.json", std::string(GetParam()) + "_golden");
}

INSTANTIATE_TEST_SUITE_P(
    JinjaDifferential,
    PublishedStyle,
    testing::Values("header_blocks", "im_blocks", "inst_brackets", "bar_tokens"));

TEST(JinjaDifferential, AgreesOnTheTemplateOfGlm) {
  const std::string path = FT_SOURCE_DIR "/models/glm-mini/chat_template.jinja";
  compare_requests(path, FT_SOURCE_DIR "/models/goldens/chat.json", "glm_golden");
  compare_requests(path, std::string(kTestData) + "requests.json", "glm");
}

}  // namespace
}  // namespace ft::text::jinja
