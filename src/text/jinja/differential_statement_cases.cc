#include "text/jinja/differential_cases.h"

namespace ft::text::jinja {

std::vector<DifferentialCase> statement_cases() {
  return {
      {"{% if zero %}a{% elif empty %}b{% elif n %}c{% else %}d{% endif %}"},
      {"{% if nothing %}a{% elif nil %}b{% else %}d{% endif %}"},
      {"{% if yes and not no or zero %}a{% endif %}{% if 1, 0 %}t{% endif %}"},
      {"{% for x in numbers %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ "
       "loop.revindex0 }}{{ loop.first }}"
       "{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}"},
      {"{% for x in numbers %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}"},
      {"{% for x in numbers %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% "
       "endfor %}"},
      {"{% for x in numbers %}{{ loop.cycle('a', 'b', 'c') }}{{ loop.changed(x > 2) }}{% endfor "
       "%}"},
      {"{% for x in [1,1,2,2,1] %}{% if loop.changed(x) %}{{ x }}{% endif %}{% endfor %}"},
      {"{% for x in numbers if x > 1 %}{{ x }}/{{ loop.index }}/{{ loop.length }}/{{ loop.last }} "
       "{% endfor %}"},
      {"{% for x in numbers if x > 1 %}{{ loop.previtem }},{{ loop.nextitem }} {% endfor %}"},
      {"{% for x in numbers if loop %}{{ x }}{% endfor %}"},
      {"{% for x in nil %}a{% else %}none{% endfor %}"},
      {"{% for x in numbers if x > 100 %}a{% else %}none{% endfor %}"},
      {"{% for x in missing %}a{% else %}none{% endfor %}"},
      {"{% for x in nothing %}a{% endfor %}"},
      {"{% for x in n %}a{% endfor %}"},
      {"{% for c in 'añ😀' %}[{{ c }}]{% endfor %}"},
      {"{% for k in user %}{{ k }} {% endfor %}"},
      {"{% for k, v in user.items() %}{{ k }}={{ v }} {% endfor %}"},
      {"{% for a, b in nested %}{{ a }}:{{ b }} {% endfor %}"},
      {"{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}"},
      {"{% for a, b in [[1]] %}{{ a }}{% endfor %}"},
      {"{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}"},
      {"{% for a, b in nested if a is number %}{{ loop.previtem }}{{ a }}{% endfor %}"},
      {"{% for x in numbers %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}"},
      {"{% for x in numbers %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}"},
      {"{% for x in numbers %}{% continue %}{% else %}E{% endfor %}"},
      {"{% for x in numbers %}{% break %}{% else %}E{% endfor %}"},
      {"{% for x in numbers %}{{ x }}{% if loop.index == 2 %}{% break %}{% endif %}{% else %}E{% "
       "endfor %}"},
      {"{% for x in [1,2] %}{% for y in [1,2,3] %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y "
       "}} {% endfor %}{% endfor %}"},
      {"{% for x in [1,2] %}{% for y in [] %}{% else %}{% break %}{% endfor %}{{ x }}{% endfor %}"},
      {"{% break %}"},
      {"{% for x in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}"},
      {"{% for x in [1] %}{% else %}{% continue %}{% endfor %}"},
      {"{% for x in [1,2,3] %}{% set y %}a{% if x == 2 %}{% break %}{% endif %}{% endset %}{{ y "
       "}}{% endfor %}|"},
      {"{% for x in [1,2,3] %}{% filter upper %}a{% if x == 2 %}{% continue %}{% endif %}b{% "
       "endfilter %}{% endfor %}|"},
      {"{% for x in [1,2] %}{{ loop.index }}{% for y in [5,6] %}{{ loop.index }}{% endfor %}{{ "
       "loop.index }} {% endfor %}"},
      {"{% for x in [1,2] %}{% set outer = loop %}{% for y in 'ab' %}{{ outer.index }}{{ "
       "loop.index }} {% endfor %}{% endfor %}"},
      {"{% set loop = 3 %}{{ loop }}"},
      {"{% for x in [1] %}{% set loop = 3 %}{% endfor %}"},
      {"{% for loop in [1] %}{{ loop }}{% endfor %}"},
      {"{% for x in [1] %}{{ loop }}{% endfor %}{{ loop }}"},
      {"{% for x in tree recursive %}{{ loop.depth }}{{ x.v }}({{ loop(x.kids) }}){% endfor %}"},
      {"{% for x in tree recursive %}{{ x.v }}{% if x.kids %}[{{ loop(x.kids) }}]{% endif %}{% "
       "else %}leaf{% endfor %}"},
      {"{% for x in tree if x.v != 3 recursive %}{{ x.v }}{{ loop(x.kids) }}{% endfor %}"},
      {"{% for x in [1] %}{{ loop([2]) }}{% endfor %}"},
      {"{% for x in numbers|map('abs') %}{{ loop.length }}{{ x }}{{ loop.revindex }} {% endfor %}"},
      {"{% for x in numbers|select('odd') %}{{ x }}{{ loop.last }} {% endfor %}"},
      {"{% set it = numbers|map('abs') %}{% for x in it %}{{ x }}{% endfor %}|{% for x in it %}{{ "
       "x }}{% endfor %}"},
      {"{% set ns = namespace(on=true) %}{% for x in numbers if ns.on %}{{ x }}{% set ns.on = "
       "false %}{% endfor %}"},
      {"{% set ns = namespace(on=true) %}{% for x in numbers if ns.on %}{{ x }}{{ loop.last }}{% "
       "set ns.on = false %}{% endfor %}"},
      {"{% set a = 1 %}{% set b = a + 1 %}{{ a }}{{ b }}"},
      {"{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set a, b = b, a %}{{ a }}{{ b }}"},
      {"{% set (a, b), c = [[1, 2], 3] %}{{ a }}{{ b }}{{ c }}"},
      {"{% set a, b = [1] %}"},
      {"{% set 'a' = 1 %}"},
      {"{% set true = 1 %}"},
      {"{% set a.b = 1 %}"},
      {"{% set user.name = 1 %}"},
      {"{% set a = 1, %}{{ a }}{% set b = (2,) %}{{ b }}{% set c = () %}{{ c }}"},
      {"{% set a %}x{{ n }}y{% endset %}{{ a|length }}{{ a }}"},
      {"{% set a | upper | replace('X', 'z') %}x{{ n }}{% endset %}{{ a }}"},
      {"{% set a %}{% set b = 5 %}{{ b }}{% endset %}{{ a }}{{ b is defined }}"},
      {"{% set ns = namespace() %}{% set ns.a %}block{% endset %}{{ ns.a }}"},
      {"{% set ns = namespace(a=1, b=[2]) %}{% set ns.a = ns.a + 1 %}{% set ns.c = 3 %}{{ ns.a "
       "}}{{ ns.b }}{{ ns.c }}{{ ns.d is defined }}"},
      {"{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns['b'] }}{{ ns }}"},
      {"{% set ns = namespace(n=0) %}{% for x in numbers %}{% set ns.n = ns.n + x %}{% endfor %}{{ "
       "ns.n }}"},
      {"{% set t = 0 %}{% for x in numbers %}{% set t = t + x %}{{ t }} {% endfor %}{{ t }}"},
      {"{% set a = 1 %}{% for x in [1,2] %}{{ a }}{% set a = a + 1 %}{{ a }} {% endfor %}{{ a }}"},
      {"{% for x in [1,2] %}{{ y }}{% set y = x %}{{ y }}{% endfor %}{{ y is defined }}"},
      {"{% for x in [1,2] %}{{ n }}{% if x == 1 %}{% set n = 50 %}{% endif %}{{ n }} {% endfor "
       "%}{{ n }}"},
      {"{% if no %}{% set n = 1 %}{% endif %}{{ n }}"},
      {"{% if no %}{% set zz = 1 %}{% else %}{% set zz = 2 %}{% endif %}{{ zz }}"},
      {"{% if no %}{% set n = 1 %}{% elif no %}{% set n = 2 %}{% endif %}{{ n }}"},
      {"{% for x in [1] %}{{ n }}{% endfor %}{% set n = 2 %}{{ n }}"},
      {"{{ n }}{% for x in [1] %}{{ n }}{% endfor %}{% set n = 2 %}{{ n }}"},
      {"{% macro m() %}{{ n }}{% endmacro %}{{ m() }}{% set n = 2 %}{{ m() }}"},
      {"{% macro m() %}{{ q }}{% endmacro %}{{ m() }}{% set q = 2 %}{{ m() }}"},
      {"{% for x in [1,2] %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}"},
      {"{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, c=3) }} {{ "
       "m(b=5, a=4) }} {{ m() }}"},
      {"{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}{{ m(none) }}"},
      {"{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}"},
      {"{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}"},
      {"{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}"},
      {"{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}"},
      {"{% macro m(a, a) %}{% endmacro %}"},
      {"{% macro m(a=1, b) %}{% endmacro %}"},
      {"{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(4) }}"},
      {"{% macro m() %}{% set q = 1 %}{{ q }}{% endmacro %}{{ m() }}{{ q is defined }}"},
      {"{% macro m() -%}  a  {%- endmacro %}[{{ m() }}]{{ m }}{{ m.name }}{{ m.arguments }}"},
      {"{% macro m() %}x{% endmacro %}{{ m()|upper }}{{ m() ~ 'y' }}{{ m() is string }}{{ m is "
       "callable }}"},
      {"{% macro outer() %}{% macro inner() %}i{{ n }}{% endmacro %}{{ inner() }}{% endmacro %}{{ "
       "outer() }}"},
      {"{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}body{{ n }}{% endcall %}"},
      {"{% macro m(xs) %}{% for x in xs %}{{ caller(x, loop.index) }};{% endfor %}{% endmacro %}"
       "{% call(x, i) m(numbers) %}{{ x * 2 }}@{{ i }}{% endcall %}"},
      {"{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}"},
      {"{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}"},
      {"{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}"},
      {"{% macro m(caller) %}{{ caller() }}{% endmacro %}"},
      {"{% call n %}{% endcall %}"},
      {"{% filter upper %}a{{ name }}{% endfilter %}"},
      {"{% filter replace('a', 'b')|upper %}banana{% endfilter %}"},
      {"{% filter upper %}{% set w = 1 %}x{% endfilter %}{{ w is defined }}"},
      {"{% with a = 1, b = n %}{{ a }}{{ b }}{% set a = 5 %}{{ a }}{% endwith %}{{ a is defined "
       "}}"},
      {"{% set a = 9 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}"},
      {"{% with %}{% set z = 2 %}{{ z }}{% endwith %}{{ z is defined }}"},
      {"{% print 1, name %}"},
      {"{% generation %}a{{ n }}{% set g = 1 %}{% endgeneration %}{{ g is defined }}"},
      {"{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{{ "
       "loop.index }}{% endgeneration %}{% endif %}{% endfor %}"},
      {"{{ raise_exception('stop') }}"},
      {"{% if messages[0].role != 'user' %}{{ raise_exception('first must be user') }}{% endif %}"},
      {"{% set x = joiner('|') %}{% for i in [1,2,3] %}{{ x() }}{{ i }}{% endfor %}"},
      {"{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ "
       "c.reset() }}{{ c.next() }}"},
      {"{% set f = range %}{{ f(3)|list }}"},
      {"{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}"},
      {"{% set xs = [] %}{% for i in [1] %}{% set xs = xs + [i] %}{{ xs }}{% endfor %}{{ xs }}"},
      {"{% for i in range(3) %}{% if loop.first %}{% set a = 1 %}{% endif %}{{ a }}{% endfor %}"},
      {"{% for m in messages if m.role == 'user' %}{% set last = loop.last %}{{ last }}{% endfor "
       "%}"},
      {"{% for i in [1,2,3] %}{% for j in [1,2,3] if j <= i %}{{ i }}{{ j }} {% endfor %}{% endfor "
       "%}"},
      {"{% if yes %}{% for i in [1] %}{{ i|nofilter }}{% endfor %}{% endif %}"},
      {"{% if no %}{{ 1|nofilter }}{% endif %}ok"},
      {"{% if yes %}{{ 1|nofilter }}{% endif %}"},
      {"{{ 1 if no is nosuchtest else 2 }}"},
      {"{{ 2 if yes else 1|nofilter }}"},
      {"{% set x = 1 %}{% if yes %}{% set x = 2 %}{% if yes %}{% set x = 3 %}{% endif %}{% endif "
       "%}{{ x }}"},
      {"{% set last = namespace(user=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set "
       "last.user = loop.index0 %}"
       "{% endif %}{% endfor %}{{ last.user }}"},
      {"{% macro t(c) %}{% if c is string %}{{ c }}{% else %}{% for p in c %}{% if p.type == "
       "'text' %}{{ p.text }}{% endif %}"
       "{% endfor %}{% endif %}{% endmacro %}{% for m in messages %}{{ '<|' + m.role + '|>' + "
       "t(m.content) }}{% endfor %}"},
      {"{% for m in messages %}{% if '</think>' in m.content %}{{ "
       "m.content.split('</think>')[-1].lstrip('\\n') }}{% endif %}{% endfor %}"},
      {"{% set content = 'x' %}{% for m in messages %}{% set content = m.content %}{% endfor %}{{ "
       "content }}"},
      {"{% for x in [3,1] %}{% for x in [7] %}{{ x }}{% endfor %}{{ x }}{% endfor %}{{ x is "
       "defined }}"},
      {"{% for x in [1,2] %}{% set ns = namespace(v=x) %}{% for y in [1] %}{% set ns.v = ns.v * 10 "
       "%}{% endfor %}{{ ns.v }}{% endfor %}"},
  };
}

}  // namespace ft::text::jinja
