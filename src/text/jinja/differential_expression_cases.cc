#include "text/jinja/differential_cases.h"

namespace ft::text::jinja {

std::vector<DifferentialCase> expression_cases() {
  return {
      {"{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} "
       "{{ 2 ** 10 }} {{ 2 ** -1 }}"},
      {"{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 1.5 + 1 }} {{ 7.5 // 2 }} {{ -7.5 // 2 }} {{ 7.5 % 2 }} "
       "{{ -7.5 % 2 }} {{ 7 / 7 }}"},
      {"{{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1e15 }} {{ 1e22 }} {{ 1.0 }} {{ 1e-4 }} {{ 1e-5 }} {{ "
       "123456789.123 }} {{ 1e400 }} {{ -1e400 }}"},
      {"{{ 1 / 3 }} {{ 2.0 ** 0.5 }} {{ 10 ** 15 / 3 }} {{ -0.0 }} {{ 5e-324 }} {{ "
       "1.7976931348623157e308 }}"},
      {"{{ 1 / 0 }}"},
      {"{{ 1 // 0 }}"},
      {"{{ 1 % 0 }}"},
      {"{{ 1.0 % 0 }}"},
      {"{{ 0 ** -1 }}"},
      {"{{ yes + yes }} {{ yes * 3 }} {{ -yes }} {{ +yes }} {{ not 0 }} {{ not not 'a' }}"},
      {"{{ 'a' + 'b' }} {{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ 'a' * -1 }} {{ [1] + [2] }} {{ [1, 2] * 2 "
       "}} {{ (1,) + (2,) }}"},
      {"{{ 'a' + 1 }}"},
      {"{{ 1 + 'a' }}"},
      {"{{ [1] + (2,) }}"},
      {"{{ none + 1 }}"},
      {"{{ 'a' - 'b' }}"},
      {"{{ -'a' }}"},
      {"{{ 'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1, 'b'] ~ missing }}"},
      {"{{ 1 ~ 2 + 3 }} {{ 1 + 2 ~ 3 }} {{ 'a' ~ 'b' * 2 }}"},
      {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 == true }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] "
       "}} {{ (1,) <= (1,) }}"},
      {"{{ 1 == '1' }} {{ 1 != '1' }} {{ none == none }} {{ none == false }} {{ [] == () }} {{ {} "
       "== {} }} {{ [1, [2]] == [1, [2.0]] }}"},
      {"{{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }} {{ {'a': 1} != {'a': 2} }}"},
      {"{{ 1 < 'a' }}"},
      {"{{ none < 1 }}"},
      {"{{ [1] < [none] }}"},
      {"{{ {} < {} }}"},
      {"{{ 2 in numbers }} {{ 5 in numbers }} {{ 5 not in numbers }} {{ 'ell' in 'hello' }} {{ '' "
       "in 'a' }} {{ 'name' in user }} {{ 3 in user }}"},
      {"{{ 1 in 'abc' }}"},
      {"{{ 'a' in 5 }}"},
      {"{{ 'a' in nothing }}"},
      {"{{ 'a' in missing }} {{ missing in [1] }} {{ missing in [missing] }}"},
      {"{{ [1] in user }}"},
      {"{{ 'a' in ('a', 'b') }} {{ not 'a' in 'abc' }} {{ 'x' in 'xy' in ['xy'] }} {{ 1 in "
       "range(3) }} {{ 'Ada' in user.values() }}"},
      {"{{ 0 or 'x' }} {{ 'a' or 'b' }} {{ 0 and 1/0 }} {{ 1 or 1/0 }} {{ '' and 'b' }}| {{ none "
       "or [] or 'z' }} {{ 1 and 2 }}"},
      {"{{ 'a' if yes else 'b' }} {{ 'a' if no else 'b' }} {{ 'a' if no }}| {{ ('a' if no) is "
       "defined }} {{ 1 if no else 2 if no else 3 }}"},
      {"{{ ('a' if no).x }}"},
      {"{{ 1, 2 }} {{ (1) }} {{ (1,) }} {{ () }} {{ [] }} {{ [1,] }} {{ {} }} {{ {'a': 1,} }} {{ "
       "{1: 'x', none: 2, 'k': [1]} }}"},
      {"{{ [1 2] }}"},
      {"{{ {'a' 1} }}"},
      {"{{ {[1]: 2} }}"},
      {"{{ {'a': 1, 'a': 2, 1: 'x', 1.0: 'y', true: 'z'} }}"},
      {"{{ user.name }} {{ user['name'] }} {{ user.address.city }} {{ user['address']['city'] }} "
       "{{ user.tags[0] }} {{ user.tags[-1] }} {{ user.missing }}|"},
      {"{{ user['items'] }} {{ user.update is defined }} {{ user.nothing is defined }}"},
      {"{{ user.missing.deeper }}"},
      {"{{ missing.attribute }}"},
      {"{{ missing['item'] }}"},
      {"{{ missing }}|{{ missing is defined }}|{{ missing == missing }}|{{ missing == none }}|{{ "
       "not missing }}|{{ missing|length }}|{{ missing|list }}"},
      {"{{ missing + 1 }}"},
      {"{{ 1 + missing }}"},
      {"{{ 'a' + missing }}"},
      {"{{ missing < 1 }}"},
      {"{{ -missing }}"},
      {"{{ missing() }}"},
      {"{{ missing|int }}"},
      {"{{ missing[1:] }}"},
      {"{{ missing.get('x') }}"},
      {"{{ [missing] }} {{ {'a': missing} }} {{ missing ~ 'a' }}"},
      {"{{ name() }}"},
      {"{{ n() }}"},
      {"{{ nothing.x }}|{{ nothing.x is defined }}|{{ n.x is defined }}|{{ name.x is defined }}|{{ "
       "numbers.x is defined }}"},
      {"{{ nothing.x.y }}"},
      {"{{ numbers[0] }} {{ numbers[-1] }} {{ numbers[99] }}| {{ numbers['a'] }}| {{ numbers[true] "
       "}} {{ numbers[1.0] }}|"},
      {"{{ name[0] }}{{ name[-1] }}{{ name[99] }}|{{ unicode[2] }}{{ unicode[-2] }}"},
      {"{{ numbers[1:3] }} {{ numbers[:2] }} {{ numbers[-2:] }} {{ numbers[::2] }} {{ "
       "numbers[::-1] }} {{ numbers[3:0:-1] }} {{ numbers[:] }} {{ numbers[5:1] }}"},
      {"{{ name[1:3] }} {{ name[:-1] }} {{ name[::-1] }} {{ name[::2] }} {{ unicode[3:9] }} {{ "
       "unicode[::-1] }} {{ unicode[-5:-1] }}"},
      {"{{ (1, 2, 3)[1:] }} {{ [][1:] }} {{ ''[1:] }} {{ numbers[none:2] }} {{ numbers[-100:100] "
       "}} {{ numbers[100:-100:-1] }} {{ numbers[-2:-100:-2] }}"},
      {"{{ numbers[::0] }}"},
      {"{{ numbers['a':] }}"},
      {"{{ user[1:] }}"},
      {"{{ n[1:] }}"},
      {"{{ range(5)[2] }} {{ range(5)|list }} {{ range(1, 10, 3)|list }} {{ range(5, 0, -2)|list "
       "}} {{ range(3) }} {{ range(0) }} {{ range(1,2,3) }}"},
      {"{{ range(1000000) }}"},
      {"{{ range(1, 2, 0) }}"},
      {"{{ range('a') }}"},
      {"{{ none }} {{ None }} {{ true }} {{ True }} {{ false }} {{ False }} {{ [none, true, 1.0, "
       "'a'] }}"},
      {"{{ quotes }}|{{ [quotes] }}|{{ ['a\"b', \"a'b\"] }}|{{ [html, unicode] }}"},
      {"{{ ['\\n\\t\\r\\x01\\x7f', '\\u200b\\u00ad\\ue000\\U000e0001', '\\xa0'] }}"},
      {"{{ user }}"},
      {"{{ user.items() }} {{ user.keys() }} {{ user.values() }}"},
      {"{{ -1|abs }} {{ (-1)|abs }} {{ 1 + -1|abs }} {{ not yes|string }} {{ 'a' ~ 'b'|upper }} {{ "
       "2 * 'x'|length }}"},
      {"{{ 1 is number and 'a' is string }} {{ not 1 is string }} {{ 1 is not string }} {{ 2 is "
       "divisibleby 2 }} {{ 2 is divisibleby(2) }}"},
      {"{{ 1 is eq 1 }} {{ 'a' is in 'abc' }} {{ 'a' is in ['a'] }} {{ n is gt 3 }} {{ n is "
       "defined and n > 3 }} {{ 3 is odd or 1/0 }}"},
      {"{{ 1 is number is string }}"},
      {"{{ user.name.upper().lower() }} {{ 'a,b'.split(',')[1] }} {{ ('a' ~ 'b').upper() }} {{ [1, "
       "2][0] }} {{ 'x'.upper()[0] }}"},
      {"{{ dict(a=1, b=2) }} {{ dict([['x', 1], ('y', 2)]) }} {{ dict({'q': 1}, z=2) }}"},
      {"{{ f(*[1, 2]) }}"},
      {"{% macro f(a, b, c=0) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(*[1, 2]) }}{{ f(1, *[2], "
       "**{'c': 3}) }}{{ f(**{'a': 1, 'b': 2}) }}"},
      {"{% macro f(a) %}{% endmacro %}{{ f(a=1, a=2) }}"},
      {"{% macro f(a) %}{% endmacro %}{{ f(a=1, 2) }}"},
      {"{% macro f(a) %}{% endmacro %}{{ f(a=1, **{'a': 2}) }}"},
      {"{{ 'a' 'b' ~ 'c' }} {{ ('a'\n'b') }}"},
      {"{{ 1.0 == 1 }} {{ 1 is sameas 1 }} {{ true is sameas true }} {{ none is sameas none }} {{ "
       "true == 1 }} {{ '1' == 1 }}"},
      {"{{ 10000000000 * 10 }} {{ 4611686018427387904 }} {{ -9223372036854775807 }}"},
      {"{{ (1, 'a') == (1, 'a') }} {{ [1] == [1] }} {{ user == user }} {{ {'a': [1]} == {'a': [1]} "
       "}}"},
      {"{{ messages[0].role }} {{ messages[-1]['content'][0].text }} {{ messages|length }} {{ "
       "messages[1:]|length }} {{ messages[99] is defined }}"},
      {"{{ (messages|selectattr('role', 'equalto', 'user')|list)[-1].content[0]['text'] }}"},
      {"{{ messages[0].content.split()[0] ~ '!' }} {{ 'x' if messages[0]['role'] == 'system' else "
       "'y' }}"},
      {"{{ yes is true }} {{ 1 is true }} {{ no is false }} {{ yes is boolean }} {{ 1 is boolean "
       "}}"},
      {"{{ n > 5 and n < 10 }} {{ 5 < n < 10 }} {{ n == 7 != 8 }}"},
      {"{{ nothing is none }} {{ missing is none }} {{ nothing is defined }} {{ missing is "
       "undefined }}"},
      {"{{ '%s is %d' % ('x', 5) }} {{ '%05.2f|%-5s|%5s|%x' % (pi, 'ab', 'cd', 255) }} {{ '%s' % "
       "none }} {{ '%%' % () }} {{ '%(a)s' % {'a': 1} }}"},
      {"{{ '%s %s' % 'a' }}"},
      {"{{ '%d' % 'a' }}"},
      {"{{ 'x' % 1 }}"},
      {"{{ 9223372036854775807 }}"},
  };
}

}  // namespace ft::text::jinja
