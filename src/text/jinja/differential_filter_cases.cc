#include "text/jinja/differential_cases.h"

namespace ft::text::jinja {

std::vector<DifferentialCase> filter_cases() {
  return {
      {"{{ user|tojson }}|{{ mixed|tojson }}|{{ nil|tojson }}{{ void|tojson }}|{{ nested|tojson "
       "}}"},
      {"{{ user|tojson(indent=2) }}|{{ nested|tojson(indent=4) }}|{{ nil|tojson(indent=2) }}|{{ "
       "numbers|tojson(indent=0) }}|{{ numbers|tojson(indent='--') }}"},
      {"{{ user|tojson(separators=(',', ':')) }}|{{ user|tojson(sort_keys=true) }}|{{ "
       "user|tojson(indent=1, separators=(';', '=')) }}"},
      {"{{ unicode|tojson }}|{{ unicode|tojson(ensure_ascii=true) }}|{{ quotes|tojson }}|{{ "
       "quotes|tojson(ensure_ascii=true) }}|{{ html|tojson }}"},
      {"{{ 1.0|tojson }} {{ 1e20|tojson }} {{ 1e400|tojson }} {{ true|tojson }} {{ none|tojson }} "
       "{{ (1, 2)|tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }}"},
      {"{{ missing|tojson }}"},
      {"{{ {'a': missing}|tojson }}"},
      {"{{ {(1, 2): 3}|tojson }}"},
      {"{{ range(3)|tojson }}"},
      {"{{ user.items()|tojson }}"},
      {"{{ numbers|map('abs')|tojson }}"},
      {"{{ name|length }} {{ numbers|length }} {{ user|length }} {{ unicode|length }} {{ nil|count "
       "}} {{ user.items()|length }}"},
      {"{{ 5|length }}"},
      {"{{ numbers|map('abs')|length }}"},
      {"[{{ padded|trim }}] [{{ 'xxaxx'|trim('x') }}] [{{ 5|trim }}] [{{ none|trim }}] [{{ "
       "'\\u00a0a\\u2003'|trim }}]"},
      {"{{ 5|string }} {{ none|string }} {{ [1]|string }} {{ 'a'|string }} {{ 1.5|string|length "
       "}}"},
      {"{% for k, v in user|items %}{{ k }}={{ v }};{% endfor %}{% for k, v in missing|items %}x{% "
       "endfor %}"},
      {"{{ numbers|items|list }}"},
      {"{{ numbers|join }} {{ numbers|join(', ') }} {{ words|join(1) }} {{ users|join('/', "
       "attribute='name') }} {{ 'abc'|join('-') }} {{ user|join(',') }} {{ mixed|join('|') }}"},
      {"{{ 5|join }}"},
      {"{{ missing|default('d') }} {{ missing|d }}| {{ nothing|default('d') }} {{ ''|default('d') "
       "}}| {{ ''|default('d', true) }} {{ 0|default(5, boolean=true) }} {{ nothing|default('d', "
       "true) }}"},
      {"{{ missing.x|default('d') }}"},
      {"{{ user.x|default('d') }} {{ user.x.y|default('d') }}"},
      {"{{ 'abc'|list }} {{ user|list }} {{ (1, 2)|list }} {{ range(2)|list }} {{ "
       "numbers|map('abs')|list }}"},
      {"{{ words|map('upper')|join(',') }} {{ users|map(attribute='name')|list }} {{ "
       "users|map(attribute='city.name')|list }} {{ users|map(attribute='admin', default='?')|list "
       "}}"},
      {"{{ users|map(attribute='admin')|list }}"},
      {"{{ nested|map('first')|list }} {{ nested|map(attribute=0)|list }} {{ "
       "nested|map(attribute='1')|list }} {{ words|map('replace', 'p', 'q')|list }} {{ "
       "words|map('length')|sum }}"},
      {"{{ words|map|list }}"},
      {"{{ words|map('nofilter')|list }}"},
      {"{{ users|map(attribute='x.y')|list }}"},
      {"{{ missing|map('upper')|list }} {{ nil|map('nofilter')|list }}"},
      {"{{ unicode|lower }} | {{ unicode|upper }} | {{ unicode|capitalize }} | {{ unicode|title "
       "}}"},
      {"{{ 'hello wORLD-foo (bar) it\\'s'|title }} {{ 'hELLO'|capitalize }} {{ ''|capitalize }} {{ "
       "5|upper }} {{ none|upper }}"},
      {"{{ 'ΑΣ ΑΣΑ Σ ΣΑ'|lower }} {{ 'İ'|lower|length }} {{ 'ǆ'|title }} {{ 'ǆ'|capitalize }}"},
      {"{{ 'aXbXc'|replace('X', '-') }} {{ 'aXbXc'|replace('X', '-', 1) }} {{ 'abc'|replace('', "
       "'.') }} {{ 121|replace(1, 'x') }} {{ 'añb'|replace('', '|') }} {{ 'aaa'|replace('aa', 'b') "
       "}}"},
      {"{{ 'abc'|replace('', '.', 2) }} {{ ''|replace('', 'x') }} {{ 'abc'|replace('b', '') }} {{ "
       "'abc'|replace('z', 'y') }}"},
      {"{{ numbers|first }} {{ numbers|last }} {{ 'abc'|first }}{{ 'añ'|last }} {{ nil|first }}| "
       "{{ nil|last }}| {{ nil|first is defined }} {{ user|first }} {{ user|last }} {{ "
       "numbers|map('abs')|first }} {{ missing|first }}| {{ missing|last }}|"},
      {"{{ 5|first }}"},
      {"{{ numbers|map('abs')|last }}"},
      {"{{ numbers|select('odd')|list }} {{ numbers|reject('odd')|list }} {{ mixed|select|list }} "
       "{{ mixed|reject|list }} {{ numbers|select('gt', 1)|list }} {{ numbers|select('>', 1)|list "
       "}} {{ mixed|select('string')|list }}"},
      {"{{ words|select('in', ['fig'])|list }} {{ numbers|select('divisibleby', 2)|list }} {{ "
       "mixed|reject('none')|list }} {{ numbers|select('nosuch')|list }}"},
      {"{{ users|selectattr('admin')|map(attribute='name')|list }} {{ "
       "users|rejectattr('admin')|map(attribute='name')|list }} {{ users|selectattr('admin', "
       "'defined')|list|length }} {{ users|selectattr('age', 'eq', "
       "31)|map(attribute='name')|join(',') }}"},
      {"{{ users|selectattr('city.name', 'equalto', 'Oslo')|list|length }} {{ "
       "users|rejectattr('age', 'lt', 30)|list|length }} {{ missing|selectattr('x')|list }} {{ "
       "messages|selectattr('role', '==', 'user')|list|length }}"},
      {"{{ users|selectattr|list }}"},
      {"{{ [1, 2]|selectattr('x')|list }} {{ [none]|selectattr('x', 'undefined')|list }}"},
      {"{{ words|unique|list }} {{ words|unique(true)|list }} {{ [1, 1.0, true, '1', none, "
       "none]|unique|list }} {{ users|unique(attribute='age')|map(attribute='name')|list }}"},
      {"{{ nested|unique|list }}"},
      {"{{ numbers|sort }} {{ numbers|sort(reverse=true) }} {{ words|sort }} {{ "
       "words|sort(case_sensitive=true) }} {{ "
       "users|sort(attribute='age')|map(attribute='name')|list }} {{ "
       "users|sort(attribute='age,name')|map(attribute='name')|list }}"},
      {"{{ users|sort(attribute='age', reverse=true)|map(attribute='name')|list }} {{ "
       "users|sort(attribute='city.name')|map(attribute='name')|list }} {{ 'bca'|sort }} {{ "
       "user|sort }} {{ nested|sort }}"},
      {"{{ mixed|sort }}"},
      {"{{ users|sort }}"},
      {"{{ numbers|reverse|list }} {{ 'añ😀'|reverse }} {{ user|reverse|list }} {{ "
       "numbers|map('abs')|reverse }} {{ (1, 2)|reverse|list }}"},
      {"{{ 5|reverse }}"},
      {"{{ '42'|int }} {{ '42.9'|int }} {{ ' 7 '|int }} {{ 'x'|int }} {{ 'x'|int(5) }} {{ "
       "'0x1A'|int(base=16) }} {{ '1A'|int(0, 16) }} {{ '101'|int(base=2) }} {{ 3.99|int }} {{ "
       "-3.99|int }} {{ true|int }} {{ none|int }} {{ [1]|int }} {{ '1_000'|int }} {{ '1e3'|int }} "
       "{{ ''|int }} {{ '-5'|int }} {{ '+5'|int }} {{ '--5'|int }}"},
      {"{{ '0x1A'|int }} {{ '0b11'|int(base=0) }} {{ '017'|int }} {{ '12'|int(default='d') }} {{ "
       "'nan'|int }} {{ '1__0'|int }}"},
      {"{{ 'inf'|int }}"},
      {"{{ 5|int(base=99) }}"},
      {"{{ '1.5'|float }} {{ 'x'|float }} {{ 'x'|float(2.5) }} {{ 3|float }} {{ none|float }} {{ "
       "'inf'|float }} {{ '-Infinity'|float }} {{ 'nan'|float }} {{ '1e5'|float }} {{ ' 2 '|float "
       "}} {{ '.5'|float }} {{ '5.'|float }} {{ '1_0.5'|float }} {{ true|float }} {{ '+1'|float }} "
       "{{ '1e400'|float }} {{ '1e-400'|float }}"},
      {"{{ -5|abs }} {{ 5.5|abs }} {{ (-5.5)|abs }} {{ true|abs }}"},
      {"{{ 'a'|abs }}"},
      {"{{ 2.5|round }} {{ 3.5|round }} {{ 2.567|round(2) }} {{ 2.675|round(2) }} {{ "
       "1234.5|round(-2) }} {{ 1250|round(-2) }} {{ 1350|round(-2) }} {{ -1250|round(-2) }} {{ "
       "5|round }} {{ 5|round(1) }} {{ -2.5|round }} {{ 0.5|round }} {{ 1e300|round(2) }} {{ "
       "42.55|round(1) }}"},
      {"{{ 2.1|round(0, 'ceil') }} {{ 2.9|round(method='floor') }} {{ 2.11|round(1, 'ceil') }} {{ "
       "2.19|round(1, 'floor') }} {{ 5|round(0, 'floor') }} {{ 55.5|round(-3) }} {{ "
       "555.5|round(-3) }} {{ 500.0|round(-3) }} {{ 500.1|round(-3) }} {{ 15|round(-1) }} {{ "
       "25|round(-1) }}"},
      {"{{ 5|round(0, 'up') }}"},
      {"{{ 'a'|round }}"},
      {"{{ 'a\\nb\\n\\nc'|indent }}|{{ 'a\\nb'|indent(2, true) }}|{{ 'a\\n\\nb'|indent(2, "
       "blank=true) }}|{{ 'a\\nb\\n'|indent('> ') }}|{{ ''|indent(2, true) }}|{{ "
       "'a\\n'|indent(first=true) }}"},
      {"{{ 5|indent }}"},
      {"{{ user|dictsort }} {{ {'b': 1, 'A': 3, 'c': 2}|dictsort }} {{ {'b': 1, 'A': 3, 'c': "
       "2}|dictsort(true) }} {{ {'b': 1, 'A': 3}|dictsort(by='value') }} {{ {'b': 1, 'A': "
       "3}|dictsort(false, 'key', true) }}"},
      {"{{ numbers|dictsort }}"},
      {"{{ {'a': 1}|dictsort(by='x') }}"},
      {"{{ numbers|min }} {{ numbers|max }} {{ words|min }} {{ words|max }} {{ "
       "users|max(attribute='age') }} {{ nil|min }}| {{ nil|max is defined }} {{ numbers|sum }} {{ "
       "users|sum('age') }} {{ users|sum(attribute='age', start=100) }} {{ nil|sum }} {{ [1.5, "
       "2]|sum }}"},
      {"{{ words|sum }}"},
      {"{{ mixed|max }}"},
      {"{% for g in users|groupby('age') %}{{ g.grouper }}:{{ "
       "g.list|map(attribute='name')|join(',') }};{% endfor %}{% for k, v in "
       "users|groupby('city.name') %}{{ k }}={{ v|length }} {% endfor %}{{ users|groupby('admin', "
       "default='-')|length }}"},
      {"{{ users|groupby('city.name', case_sensitive=true)|map('first')|list }} {{ "
       "users|groupby(attribute='age') }}"},
      {"{{ numbers|batch(2)|list }} {{ numbers|batch(2, 'x')|list }} {{ numbers|slice(2)|list }} "
       "{{ numbers|slice(3, '-')|list }} {{ nil|batch(3)|list }}"},
      {"[{{ 'ab'|center(7) }}] [{{ 'ab'|center(6) }}] [{{ 'abc'|center(6) }}] {{ html|escape }} {{ "
       "html|e }} {{ html|safe }} {{ html|forceescape }}"},
      {"{{ 'one two three four'|truncate(9) }} {{ 'one two three four'|truncate(9, true) }} {{ "
       "'one two three four'|truncate(11, false, '!', 0) }} {{ 'short'|truncate(3) }} {{ "
       "text|wordcount }} {{ unicode|wordcount }}"},
      {"{{ '%s-%s'|format(1, 'b') }} {{ '%(a)s'|format(a=5) }} {{ '%d%%'|format(50) }} {{ "
       "'%r'|format('x') }} {{ '%e %g %G'|format(12345.678, 0.00001, 1e20) }} {{ '%+d % d %05d "
       "%-5d| %x %X %o %#x'|format(5, 5, 42, 42, 255, 255, 8, 255) }} {{ '%c%c'|format('x', 65) }} "
       "{{ '%.3s|%10.2f|%-10s|'|format('abcdef', pi, 'é') }} {{ '%5s|%*d'|format('ü', 4, 7) }}"},
      {"{{ '%d'|format(3.9) }} {{ '%s'|format([1, 'a']) }} {{ '%i'|format(true) }} {{ "
       "'%F'|format(1e400) }} {{ '%05.1f'|format(-2.25) }}"},
      {"{{ '%d'|format('5') }}"},
      {"{{ '%s'|format }}"},
      {"{{ 'a'|attr('upper') is callable }} {{ user|attr('name') is defined }} {{ user|attr('get') "
       "is callable }}"},
      {"{{ name|upper|lower|title }} {{ name|upper() }} {{ (name)|replace('o', '0')|replace('l', "
       "'1') }} {{ [name]|first|upper }}"},
      {"{{ name|upper(1) }}"},
      {"{{ name|replace('a') }}"},
      {"{{ name|default(nosuch=1) }}"},
      {"{{ name|nofilter }}"},
      {"{{ name is nosuchtest }}"},
      {"{{ 3 is odd }} {{ 4 is even }} {{ 3 is even }} {{ 3.0 is odd }} {{ -3 is odd }}"},
      {"{{ 'a' is odd }}"},
      {"{{ 'a' is string }} {{ 1 is string }} {{ user is mapping }} {{ numbers is mapping }} {{ "
       "numbers is iterable }} {{ 'a' is iterable }} {{ 5 is iterable }} {{ user is iterable }} {{ "
       "missing is iterable }} {{ nothing is iterable }}"},
      {"{{ numbers is sequence }} {{ 'a' is sequence }} {{ user is sequence }} {{ 5 is sequence }} "
       "{{ missing is sequence }} {{ user.items() is sequence }} {{ range(3) is sequence }} {{ "
       "(1,) is sequence }}"},
      {"{{ 1 is number }} {{ 1.5 is number }} {{ true is number }} {{ '1' is number }} {{ 1 is "
       "integer }} {{ 1.0 is integer }} {{ true is integer }} {{ 1.0 is float }} {{ 1 is float }}"},
      {"{{ 'abc' is lower }} {{ 'aBc' is lower }} {{ 'ABC' is upper }} {{ '1' is upper }} {{ 'ß' "
       "is lower }} {{ 5 is lower }} {{ range is callable }} {{ name is callable }} {{ missing is "
       "callable }} {{ 'upper' is filter }} {{ 'x' is filter }} {{ 'odd' is test }} {{ 'a' is "
       "escaped }}"},
      {"{{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 1 is le 1 }} {{ 2 is ge 3 }} {{ 2 is greaterthan 1 }} "
       "{{ 1 is lessthan 0 }} {{ 5 is divisibleby 5 }} {{ 'a' is equalto 'a' }} {{ 1 is sameas "
       "true }}"},
      {"{{ 5 is divisibleby 0 }}"},
      {"{{ 5 is in 5 }}"},
      {"{{ nothing is not none }} {{ missing is not defined }} {{ user.name is not undefined }} {{ "
       "not missing is defined }}"},
  };
}

}  // namespace ft::text::jinja
