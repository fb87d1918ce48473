// The engine's language by example. differential_test.cc covers far more, but needs Jinja.
#include "text/jinja/template.h"

#include "base/error.h"
#include "json/json.h"

#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace ft::text::jinja {
namespace {

std::string render(std::string_view source) {
  const json::Value variables = json::parse(R"json({
      "name": "World", "n": 7, "pi": 3.25, "yes": true, "nothing": null, "xs": [3, 1, 2],
      "users": [{"name": "Bob", "age": 31, "admin": true}, {"name": "alice", "age": 25}],
      "text": "a\nb", "é": "Grüße 😀"})json",
                                            "variables");
  return Template::compile(source).render(variables).bytes();
}

struct Example {
  const char* source;
  const char* expected;
};

void check(const std::vector<Example>& examples) {
  for (const Example& example : examples) {
    EXPECT_EQ(render(example.source), example.expected) << example.source;
  }
}

TEST(JinjaTemplate, StripsWhiteSpaceAroundTags) {
  check({
      {"a\n{% if yes %}\nb\n{% endif %}\nc\n", "a\nb\nc"},
      {"a\n  {% if yes %}\n  b\n  {% endif %}\nc", "a\n  b\nc"},
      {"a  {%- if yes -%}  b  {%- endif -%}  c", "abc"},
      {"a\n  {%+ if yes +%}\nb{% endif %}", "a\n  \nb"},
      {"x {# note #}\ny", "x y"},
      {"{{ n }}\n{{ n }}", "7\n7"},
      {"{% raw %}{{ n }}{% endraw %}", "{{ n }}"},
  });
}

TEST(JinjaTemplate, RunsStatements) {
  check({
      {"{% if n > 10 %}a{% elif n > 5 %}b{% else %}c{% endif %}", "b"},
      {"{% for x in xs if x > 1 %}{{ loop.index }}:{{ x }}{% if not loop.last %},{% endif %}"
       "{% endfor %}",
       "1:3,2:2"},
      {"{% for x in [] %}a{% else %}none{% endfor %}", "none"},
      {"{% for x in xs %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "32"},
      {"{% for x in xs %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}", "3"},
      {"{% set a, b = 1, 2 %}{{ b }}{{ a }}", "21"},
      {"{% set t = 0 %}{% for x in xs %}{% set t = t + x %}{% endfor %}{{ t }}", "0"},
      {"{% set ns = namespace(t=0) %}{% for x in xs %}{% set ns.t = ns.t + x %}{% endfor %}{{ ns.t "
       "}}",
       "6"},
      {"{% set a | upper %}b{{ name }}{% endset %}{{ a }}", "BWORLD"},
      {"{% macro m(a, b='-') %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, b=2) }}",
       "[1-][12]"},
      {"{% macro m() %}<{{ caller(n) }}>{% endmacro %}{% call(x) m() %}{{ x }}{% endcall %}",
       "<7>"},
      {"{% with a = 1 %}{{ a }}{% endwith %}{{ a is defined }}", "1False"},
      {"{% generation %}{{ n }}{% endgeneration %}", "7"},
      {"{% for x in [1, [2]] recursive %}{{ loop(x) if x is iterable else x }}{% endfor %}", "12"},
  });
}

TEST(JinjaTemplate, EvaluatesExpressions) {
  check({
      {"{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 }} {{ 1 ~ 2 }}",
       "3 -4 2 3.5 8 12"},
      {"{{ 1 < 2 < 3 }} {{ 'a' in 'abc' }} {{ 2 not in xs }} {{ none or 'x' }}",
       "True True False x"},
      {"{{ xs[0] }}{{ xs[-1] }}{{ xs[1:] }}{{ xs[::-1] }}{{ name[1:3] }}", "32[1, 2][2, 1, 3]or"},
      {"{{ é[-1] }}{{ é|length }}{{ é.upper() }}", "😀7GRÜSSE 😀"},
      {"{{ users[0].name }}{{ users[0]['age'] }}{{ users[1].admin is defined }}", "Bob31False"},
      {"{{ missing }}{{ missing is undefined }}{{ 'b' if missing }}", "True"},
      {"{{ [1, 'a', none, 2.0, (1,), {'k': true}] }}", "[1, 'a', None, 2.0, (1,), {'k': True}]"},
      {"{{ 1e16 }} {{ 0.1 + 0.2 }} {{ 1e-5 }} {{ 100.0 }}",
       "1e+16 0.30000000000000004 1e-05 100.0"},
      {"{{ \"it's\" }} {{ ['it\\'s', '\"'] }}", "it's [\"it's\", '\"']"},
  });
}

TEST(JinjaTemplate, AppliesFiltersTestsAndMethods) {
  check({
      {"{{ users|tojson }}",
       R"([{"name": "Bob", "age": 31, "admin": true}, {"name": "alice", "age": 25}])"},
      {"{{ {'a': [1, {}]}|tojson(indent=2) }}", "{\n  \"a\": [\n    1,\n    {}\n  ]\n}"},
      {"{{ '<é>'|tojson }}{{ 'é😀'|tojson(ensure_ascii=true) }}",
       "\"<é>\"\"\\u00e9\\ud83d\\ude00\""},
      {"{{ xs|sort|join('-') }} {{ xs|max }} {{ xs|sum }} {{ xs|first }} {{ xs|length }}",
       "1-2-3 3 6 3 3"},
      {"{{ users|map(attribute='name')|join(',') }} {{ users|selectattr('admin')|list|length }}",
       "Bob,alice 1"},
      {"{{ ' a '|trim }}{{ 'a'|upper }}{{ missing|default('d') }}{{ '3'|int + 1 }}", "aAd4"},
      {"{{ 'a-b'.split('-')[1] }}{{ 'ab'.startswith('a') }}{{ ' x'.lstrip() }}", "bTruex"},
      {"{% for k, v in users[1].items() %}{{ k }}={{ v }};{% endfor %}", "name=alice;age=25;"},
      {"{{ users[0].get('x', 1) }}{{ users[0].get('y') }}{{ text|indent(2) }}", "1Nonea\n  b"},
      {"{{ n is odd }}{{ name is string }}{{ users[0] is mapping }}{{ nothing is none }}",
       "TrueTrueTrueTrue"},
      {"{{ 2.5|round }} {{ 3.14159|round(2) }} {{ '%.1f'|format(pi) }} {{ '%d' % 3 }}",
       "2.0 3.14 3.2 3"},
      {"{{ range(3)|list }} {{ dict(a=1) }}", "[0, 1, 2] {'a': 1}"},
  });
}

TEST(JinjaTemplate, RefusesWhatPythonRefuses) {
  for (const char* source : {"{{ missing.x }}",
                             "{{ 'a' + 1 }}",
                             "{{ 1 / 0 }}",
                             "{{ 1 < 'a' }}",
                             "{{ name() }}",
                             "{{ missing() }}",
                             "{{ 5|length }}",
                             "{{ missing|tojson }}",
                             "{% for x in 5 %}{% endfor %}",
                             "{% set a, b = [1] %}",
                             "{{ {[1]: 2} }}",
                             "{{ xs.append(1) }}",
                             "{% set users.x = 1 %}",
                             "{{ raise_exception('no') }}",
                             "{{ xs|map('upper') }}",
                             "{{ 'a'.split('') }}"}) {
    EXPECT_THROW(render(source), InvalidInput) << source;
  }
}

TEST(JinjaTemplate, RefusesWhatItCannotCompile) {
  for (const char* source : {"{{ 1 +",
                             "{% if %}",
                             "{% if yes %}",
                             "{% for x xs %}{% endfor %}",
                             "{% endif %}",
                             "{{ 'open }}",
                             "{# open",
                             "{{ x|nofilter }}",
                             "{{ x is notest }}",
                             "{% block a %}{% endblock %}",
                             "{% break %}",
                             "{% macro m(a, a) %}{% endmacro %}",
                             "{{ f(a=1, a=2) }}",
                             "{% for x in xs %}{% set loop = 1 %}{% endfor %}",
                             "{{ '\\ud800' }}",
                             "{% set 1 = 2 %}"}) {
    EXPECT_THROW(Template::compile(source), InvalidInput) << source;
  }
}

TEST(JinjaTemplate, RendersInParallel) {
  const Template shared = Template::compile(
      "{% macro m(x) %}[{{ x }}]{% endmacro %}{% for x in ['a', 'b'] %}{{ m(x ~ k) }}{% endfor %}");
  std::vector<std::string> texts(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      threads.emplace_back([&shared, &texts, i] {
        const json::Value variables(json::Object{{"k", json::Value(static_cast<std::int64_t>(i))}});
        for (int n = 0; n < 100; ++n) texts[i] = shared.render(variables).bytes();
      });
    }
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(texts[i], "[a" + std::to_string(i) + "][b" + std::to_string(i) + "]");
  }
}

}  // namespace
}  // namespace ft::text::jinja
