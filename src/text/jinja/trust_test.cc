// Every operation on texts keeps the mark of each byte.
#include "json/json.h"
#include "text/jinja/template.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace ft::text::jinja {
namespace {

/// Trusted bytes as they are, untrusted ones in ⟦ ⟧.
std::string marked(std::string_view source) {
  const json::Value variables = json::parse(R"json({
      "u": "user", "s": " a b ", "c": "a,b", "x": "<|x|>", "n": 42, "r": 1.5, "t": true, "none_": null, "é": "ñé",
      "list": ["p", "q"], "dict": {"k": "v"}, "upper": "ABC", "text": "one\ntwo"})json",
                                            "variables");
  std::string out;
  for (const TextSegment& segment : Template::compile(source).render(variables).segments()) {
    out += segment.is_trusted ? segment.text : "⟦" + segment.text + "⟧";
  }
  return out;
}

struct TrustCase {
  const char* source;
  const char* expected;
};

void check(const std::vector<TrustCase>& cases) {
  for (const TrustCase& c : cases) EXPECT_EQ(marked(c.source), c.expected) << c.source;
}

TEST(JinjaTrust, FollowsConcatenation) {
  check({
      {"<|a|>{{ u }}<|b|>", "<|a|>⟦user⟧<|b|>"},
      {"{{ '<' + u + '>' }}", "<⟦user⟧>"},
      {"{{ '<' ~ u ~ x ~ '>' }}", "<⟦user<|x|>⟧>"},
      {"{{ u * 2 }}{{ '-' * 3 }}", "⟦useruser⟧---"},
      {"{{ ('<' + u) * 2 }}", "<⟦user⟧<⟦user⟧"},
      {"{{ list|join('|') }}{{ ['a', u]|join('-') }}", "⟦p⟧|⟦q⟧a-⟦user⟧"},
      {"{{ u.join(['1', '2']) }}", "1⟦user⟧2"},
      {"{{ u if true else 'x' }}{{ none_ or 'fallback' }}{{ missing|default(u) }}",
       "⟦user⟧fallback⟦user⟧"},
  });
}

TEST(JinjaTrust, FollowsPiecesOfTexts) {
  check({
      {"{{ s.strip() }}|{{ s|trim }}|{{ ('<' + s).lstrip('<') }}", "⟦a b⟧|⟦a b⟧|⟦ a b ⟧"},
      {"{{ c.split(',')[0] }}{{ ('1,' + c).split(',')|join(';') }}", "⟦a⟧1;⟦a⟧;⟦b⟧"},
      {"{{ ('<' + u + '>')[1:3] }}{{ ('<' + u)[0] }}{{ ('<' + u)[::-1] }}", "⟦us⟧<⟦resu⟧<"},
      {"{{ ('ab' + é)[1:3] }}{{ é[1] }}", "b⟦ñé⟧"},
      {"{% for char in '<' + u %}{{ char }}.{% endfor %}", "<.⟦u⟧.⟦s⟧.⟦e⟧.⟦r⟧."},
      {"{{ c.partition(',')[2] }}{{ text.splitlines()[1] }}{{ c.removeprefix('a') }}", "⟦btwo,b⟧"},
      {"{{ ('abc' + u)|truncate(5, true, '…', 0) }}", "abc⟦u⟧…"},
      {"{{ (u ~ 'x')|list|join('') }}{{ u|first }}{{ ('a' ~ u)|last }}", "⟦user⟧x⟦ur⟧"},
  });
}

TEST(JinjaTrust, FollowsReplacement) {
  check({
      {"{{ c|replace(',', '<|sep|>') }}", "⟦a⟧<|sep|>⟦b⟧"},
      {"{{ '<m>'|replace('m', u) }}", "<⟦user⟧>"},
      {"{{ u.replace('s', x) }}", "⟦u<|x|>er⟧"},
      {"{{ 'ab'.replace('', u[0]) }}", "⟦u⟧a⟦u⟧b⟦u⟧"},
      {"{{ '<%s>' % u }}{{ '%s-%d' % (u, 5) }}{{ '{}!'.format(u) }}{{ '[%6s]'|format(u) }}",
       "<⟦user⟧>⟦user⟧-5⟦user⟧![  ⟦user⟧]"},
  });
}

TEST(JinjaTrust, FollowsLetterCaseAndPadding) {
  check({
      {"{{ ('<a' + u)|upper }}{{ upper.lower() }}{{ ('a' + u)|title }}", "<A⟦USERabc⟧A⟦user⟧"},
      {"{{ u.center(8) }}|{{ u.ljust(6, '-') }}|{{ '7'.zfill(3) }}", "  ⟦user⟧  |⟦user⟧--|007"},
      {"{{ text|indent(2) }}", "⟦one⟧\n  ⟦two⟧"},
      {"{{ ('<' + x)|escape }}", "&lt;⟦&lt;|x|&gt;⟧"},
  });
}

TEST(JinjaTrust, FollowsNumbersAndContainers) {
  check({
      {"{{ n }}{{ 42 }}{{ r }}{{ t }}{{ true }}{{ none_ }}", "⟦42⟧42⟦1.5True⟧True⟦None⟧"},
      {"{{ n + 1 }}{{ 1 + 1 }}{{ u|length }}{{ n > 5 }}{{ '7'|int }}{{ '7' ~ n }}",
       "⟦43⟧24True77⟦42⟧"},
      {"{{ n|string }}{{ n|abs }}{{ r|round }}{{ -n }}", "⟦42422.0-42⟧"},
      {"{{ list }}{{ ['a', u] }}{{ dict }}", "⟦['p', 'q']⟧['a', ⟦'user'⟧]⟦{'k': 'v'}⟧"},
      {"{{ dict|tojson }}{{ {'a': u, 'b': n}|tojson }}",
       "⟦{\"k\": \"v\"}⟧{\"a\": ⟦\"user\"⟧, \"b\": ⟦42⟧}"},
      {"{{ ('<' + u)|tojson }}{{ text|tojson }}", "⟦\"⟧<⟦user\"\"one\\ntwo\"⟧"},
      {"{% for k, v in dict.items() %}{{ k }}={{ v }}{% endfor %}", "⟦k⟧=⟦v⟧"},
      {"{{ loop_ }}{% for i in list %}<{{ loop.index }}>{% endfor %}", "<1><2>"},
      {"{{ list|map('upper')|join }}{{ list|sort|first }}{{ list|reverse|first }}", "⟦PQpq⟧"},
  });
}

TEST(JinjaTrust, FollowsBlocksAndMacros) {
  check({
      {"{% set b %}<{{ u }}>{% endset %}{{ b }}{{ b.strip('<>') }}", "<⟦user⟧>⟦user⟧"},
      {"{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m(u) }}{{ m('t') }}", "[⟦user⟧][t]"},
      {"{% filter upper %}a{{ u }}{% endfilter %}", "A⟦USER⟧"},
      {"{% macro m() %}({{ caller() }}){% endmacro %}{% call m() %}{{ u }}.{% endcall %}",
       "(⟦user⟧.)"},
      {"{% set ns = namespace(v='') %}{% for i in list %}{% set ns.v = ns.v ~ i ~ ';' %}{% endfor "
       "%}{{ ns.v }}",
       "⟦p⟧;⟦q⟧;"},
      {"{% generation %}a{{ u }}{% endgeneration %}", "a⟦user⟧"},
  });
}

}  // namespace
}  // namespace ft::text::jinja
