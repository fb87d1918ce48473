// Hostile templates and requests cost bounded time and memory, and end in InvalidInput.
#include "base/error.h"
#include "json/json.h"
#include "text/jinja/template.h"

#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::text::jinja {
namespace {

using testing::HasSubstr;

std::string repeated(std::string_view text, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += text;
  return out;
}

std::string render(std::string_view source, const Limits& limits = {}) {
  return Template::compile(source).render(json::parse(R"({"a": "x"})", "test"), {}, limits).bytes();
}

std::string error_of(std::string_view source, const Limits& limits = {}) {
  try {
    const std::string text = render(source, limits);
    ADD_FAILURE() << "expected an error, got " << text.substr(0, 100);
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "";
}

TEST(JinjaLimits, BoundsSteps) {
  Limits limits;
  limits.max_steps = 100'000;
  EXPECT_THAT(
      error_of("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
               limits),
      HasSubstr("more than 100000 steps"));
  EXPECT_THAT(error_of("{{ [0] * 1000000000000 }}"), HasSubstr("steps"));
  EXPECT_THAT(error_of("{{ [0, 1] * 9223372036854775807 }}"), HasSubstr("steps"));
}

TEST(JinjaLimits, BoundsTexts) {
  Limits limits;
  limits.max_text_bytes = 1'000'000;
  const std::string message = "1000000 is the limit";
  const char* doubling =
      "{% set ns = namespace(t='0123456789') %}{% for i in range(60) %}{% set ns.t = ns.t ~ ns.t %}"
      "{% endfor %}";
  for (const char* source : {doubling,
                             "{{ 'ab' * 9223372036854775807 }}",
                             "{{ 'a'.center(999999999999) }}",
                             "{{ 'a'|indent(999999999999, true) }}",
                             "{{ [1]|tojson(indent=999999999999) }}",
                             "{% set t = 'a' * 600000 %}{{ t }}{{ t }}",
                             "{% set t = 'a' * 6000 %}{{ t|replace('', t) }}",
                             "{% set t = 'a' * 600 %}{{ range(2000)|join(t) }}",
                             "{% for i in range(100000) %}0123456789abcdef{% endfor %}",
                             "{{ range(100000)|list ~ range(100000)|list }}",
                             "{% set x = ['a' * 1000] * 2000 %}{{ x }}",
                             "{% set x = ['a' * 1000] * 2000 %}{{ x|tojson }}"}) {
    EXPECT_THAT(error_of(source, limits), HasSubstr(message)) << source;
  }
  EXPECT_THAT(error_of("{{ 'a' * 70000000 }}"), HasSubstr("67108864 is the limit"));
  EXPECT_THAT(error_of("{{ '%9999999s' % 'a' }}"), HasSubstr("wider than 1000"));
}

TEST(JinjaLimits, BoundsWork) {
  Limits limits;
  limits.max_work_bytes = 50'000'000;
  EXPECT_THAT(
      error_of(
          "{% set t = 'a' * 1000000 %}{% for i in range(1000) %}{% set u = t ~ 'b' %}{% endfor %}",
          limits),
      HasSubstr("more than 50000000 bytes"));
  EXPECT_THAT(error_of("{% set t = 'a' * 1000000 %}{% for i in range(1000) %}{% if 'b' in t %}{% "
                       "endif %}{% endfor %}",
                       limits),
              HasSubstr("more than 50000000 bytes"));
}

TEST(JinjaLimits, SearchesInLinearTime) {
  // A naive search would take 10^12 comparisons for each of these.
  const std::string text = "{% set t = 'a' * 2000000 %}{% set n = 'a' * 1000000 ~ 'b' %}";
  EXPECT_EQ(render(text + "{{ n in t }}{{ t.find(n) }}{{ t.rfind('b' ~ n) }}{{ t.split(n)|length }}"
                          "{{ t.rsplit(n)|length }}{{ t.replace(n, '')|length }}{{ t.count(n) }}"),
            "False-1-11120000000");
}

TEST(JinjaLimits, BoundsRecursion) {
  EXPECT_THAT(error_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
              HasSubstr("does a macro call itself?"));
  EXPECT_THAT(error_of("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
              HasSubstr("nests deeper"));
  EXPECT_THAT(error_of("{% macro m(f) %}{{ f(f) }}{% endmacro %}{{ m(m) }}"),
              HasSubstr("nests deeper"));
  EXPECT_EQ(render("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% else %}end{% endif %}{% endmacro "
                   "%}{{ m(60) }}"),
            "end");
}

TEST(JinjaLimits, BoundsNestingOfSource) {
  const std::size_t n = 20'000;
  EXPECT_THAT(error_of("{{ " + repeated("(", n) + "1" + repeated(")", n) + " }}"),
              HasSubstr("nest deeper"));
  EXPECT_THAT(error_of("{{ " + repeated("[", n) + repeated("]", n) + " }}"),
              HasSubstr("nest deeper"));
  EXPECT_THAT(error_of("{{ " + repeated("-", n) + "1 }}"), HasSubstr("nest deeper"));
  EXPECT_THAT(error_of("{{ " + repeated("not ", n) + "1 }}"), HasSubstr("nest deeper"));
  EXPECT_THAT(error_of("{{ a" + repeated(".a", n) + " }}"), HasSubstr("levels"));
  EXPECT_THAT(error_of("{{ a" + repeated("|abs", n) + " }}"), HasSubstr("levels"));
  EXPECT_THAT(error_of("{{ 1" + repeated("+1", n) + " }}"), HasSubstr("levels"));
  EXPECT_THAT(error_of("{{ 1" + repeated(" if 1 else 1", n / 2) + " }}"), HasSubstr("nest deeper"));
  EXPECT_THAT(error_of(repeated("{% if 1 %}", n)), HasSubstr("nest deeper"));
  EXPECT_THAT(error_of(repeated("{% for x in y %}", n / 2)), HasSubstr("nest deeper"));
  EXPECT_THAT(error_of(std::string((1U << 20U) + 1, 'x')), HasSubstr("1048577 bytes"));
  EXPECT_EQ(render("{{ 1" + repeated("~1", 1000) + " }}").size(), 1001U);
  EXPECT_EQ(render(repeated("{% if 0 %}", 1) + repeated("{% elif 0 %}", 1000) + "{% endif %}ok"),
            "ok");
}

TEST(JinjaLimits, BoundsNestingOfValues) {
  Limits limits;
  limits.max_steps = 1'000'000;
  EXPECT_THAT(error_of("{% set ns = namespace(v=[]) %}{% for i in range(100000) %}{% set ns.v = "
                       "[ns.v] %}{% endfor %}"),
              HasSubstr("values nest deeper"));
  // Shared parts make a small value print as a huge one.
  EXPECT_THAT(error_of("{% set ns = namespace(v=[1]) %}{% for i in range(100) %}{% set ns.v = "
                       "[ns.v, ns.v] %}{% endfor %}{{ ns.v }}",
                       limits),
              HasSubstr("steps"));
  EXPECT_THAT(error_of("{% set ns = namespace(v=[1], w=[1]) %}{% for i in range(100) %}{% set ns.v "
                       "= [ns.v, ns.v] %}"
                       "{% set ns.w = [ns.w, ns.w] %}{% endfor %}{{ ns.v == ns.w }}",
                       limits),
              HasSubstr("steps"));
}

TEST(JinjaLimits, SurvivesCyclesAndLongChains) {
  EXPECT_THAT(error_of("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}"),
              HasSubstr("nests deeper"));
  EXPECT_EQ(render("{% set ns = namespace() %}{% set ns.me = [ns, {'a': ns}] %}{{ ns.me[0].me[1].a "
                   "== ns }}"),
            "True");
  EXPECT_EQ(render("{% set head = namespace() %}{% set tail = namespace(t=head) %}{% for i in "
                   "range(20000) %}"
                   "{% set new = namespace() %}{% set t = tail.t %}{% set t.next = new %}{% set "
                   "tail.t = new %}{% endfor %}ok"),
            "ok");
  EXPECT_EQ(render("{% set ns = namespace() %}{% for i in [1, 2] %}{% set ns.loop = loop %}{{ "
                   "loop.changed([loop]) }}"
                   "{% endfor %}{{ ns.loop.index }}{{ ns.loop.last }}"),
            "TrueFalse2True");
  EXPECT_EQ(
      render(
          "{% set ns = namespace() %}{% macro outer(x) %}{% macro inner() %}{{ x }}{% endmacro %}"
          "{% set ns.f = inner %}{% endmacro %}{{ outer(5) }}{{ outer(6) }}{{ ns.f() }}"),
      "6");
}

TEST(JinjaLimits, RefusesIntegersBeyond64Bits) {
  const std::string message = "does not fit 64 bits";
  for (const char* source : {"{{ 9223372036854775807 + 1 }}",
                             "{{ -9223372036854775807 - 2 }}",
                             "{{ 9223372036854775807 * 2 }}",
                             "{{ 2 ** 63 }}",
                             "{{ 2 ** 9223372036854775807 }}",
                             "{{ 9223372036854775808 }}",
                             "{{ -(-9223372036854775807 - 1) }}",
                             "{{ (-9223372036854775807 - 1) // -1 }}",
                             "{{ (-9223372036854775807 - 1)|abs }}",
                             "{{ '9223372036854775808'|int }}",
                             "{{ 1e19|int }}",
                             "{{ 9223372036854775807|round(-1) }}"}) {
    EXPECT_THAT(error_of(source), HasSubstr(message)) << source;
  }
  EXPECT_EQ(render("{{ (-9223372036854775807 - 1) % -1 }}{{ [1, 2][-9223372036854775807 - 1:] }}"
                   "{{ [1, 2][::-9223372036854775807 - 1] }}{{ [1, 2][::9223372036854775807] }}"
                   "{{ 'ab'[9223372036854775807:] }}{{ [1][9223372036854775807] }}"),
            "0[1, 2][2][1]");
  EXPECT_THAT(error_of("{{ range(-9223372036854775807 - 1, 9223372036854775807) }}"),
              HasSubstr("range()"));
  EXPECT_EQ(
      render(
          "{{ range(9223372036854775800, 9223372036854775807, 5)|list }}"
          "{{ range(-9223372036854775807 - 1, 9223372036854775807, 9223372036854775807)|length }}"),
      "[9223372036854775800, 9223372036854775805]3");
}

}  // namespace
}  // namespace ft::text::jinja
