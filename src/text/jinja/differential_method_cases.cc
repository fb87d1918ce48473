#include "text/jinja/differential_cases.h"

namespace ft::text::jinja {

std::vector<DifferentialCase> method_cases() {
  return {
      {"{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a b "
       "c'.split(none, 1) }} {{ 'a b  c '.split(maxsplit=1) }} {{ 'abc'.split('abc') }} {{ "
       "''.split() }} {{ ''.split(',') }} {{ 'aXXb'.split('XX') }} {{ 'a b'.split(sep=' ') }}"},
      {"{{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b  c '.rsplit(none, 1) }} {{ 'a b c'.rsplit() }} {{ "
       "'aaa'.rsplit('aa') }} {{ 'aaa'.split('aa') }} {{ 'a,b'.rsplit(',') }} {{ 'añb ñ "
       "c'.rsplit('ñ', 1) }}"},
      {"{{ 'a'.split('') }}"},
      {"{{ 'a'.split(1) }}"},
      {"[{{ padded.strip() }}] [{{ padded.lstrip() }}] [{{ padded.rstrip() }}] [{{ "
       "'xyaxy'.strip('xy') }}] [{{ 'xxa'.lstrip('x') }}] [{{ 'aéé'.rstrip('é') }}] [{{ "
       "'\\n\\na\\n'.strip('\\n') }}] [{{ 'abc'.strip('') }}] [{{ 'a'.strip(none) }}]"},
      {"{{ 'hello'.startswith('he') }} {{ 'hello'.endswith('lo') }} {{ 'hello'.startswith(('x', "
       "'h')) }} {{ 'hello'.endswith(()) }} {{ 'hello'.startswith('l', 2) }} {{ "
       "'hello'.endswith('l', 0, 4) }} {{ 'hello'.startswith('') }} {{ 'a'.startswith('', 5) }} {{ "
       "'añb'.startswith('b', 2) }} {{ 'abc'.startswith('c', -1) }}"},
      {"{{ 'a'.startswith(1) }}"},
      {"{{ 'a'.startswith(['a']) }}"},
      {"{{ 'hello'.find('l') }} {{ 'hello'.rfind('l') }} {{ 'hello'.find('x') }} {{ "
       "'hello'.find('l', 3) }} {{ 'hello'.find('l', 0, 2) }} {{ 'añbñ'.find('ñ', 2) }} {{ "
       "'añbñ'.rfind('ñ') }} {{ 'hello'.index('l') }} {{ 'hello'.rindex('l') }} {{ 'abc'.find('') "
       "}} {{ 'abc'.rfind('') }} {{ 'abc'.find('', 9) }} {{ 'aaa'.count('a') }} {{ "
       "'aaa'.count('aa') }} {{ 'abc'.count('') }} {{ 'añ'.count('') }} {{ 'aaaa'.count('a', 1, 3) "
       "}}"},
      {"{{ 'hello'.index('x') }}"},
      {"{{ 'Hello World'.upper() }} {{ 'Hello World'.lower() }} {{ 'hello wORLD it\\'s'.title() }} "
       "{{ 'hELLO'.capitalize() }} {{ 'aBc ß'.swapcase() }} {{ unicode.upper() }} {{ "
       "unicode.lower() }} {{ unicode.title() }} {{ unicode.capitalize() }} {{ 'ǆa ﬁx'.title() }}"},
      {"{{ 'a-b-c'.replace('-', '+') }} {{ 'a-b-c'.replace('-', '+', 1) }} {{ 'aaa'.replace('a', "
       "'aa') }} {{ 'abc'.replace('', '-') }} {{ 'abc'.replace('b', '', -1) }} {{ "
       "'abc'.replace('b', 'x', 0) }}"},
      {"{{ 'a'.replace('a') }}"},
      {"{{ 'a'.replace(1, 2) }}"},
      {"{{ ','.join(words) }} {{ ''.join(['a', 'b']) }} {{ '-'.join('abc') }} {{ ', '.join(user) "
       "}} {{ '-'.join([]) }}"},
      {"{{ ','.join(numbers) }}"},
      {"{{ 'a\\nb\\r\\nc\\rd\\x0be\\x85f\\u2028g'.splitlines() }} {{ 'a\\nb\\n'.splitlines(true) "
       "}} {{ ''.splitlines() }} {{ '\\n'.splitlines() }} {{ 'a\\n\\n'.splitlines() }}"},
      {"{{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.partition('=') }} {{ "
       "'abc'.rpartition('=') }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ "
       "'abc'.removeprefix('x') }} {{ 'a'.removesuffix('') }}"},
      {"[{{ 'ab'.ljust(5) }}] [{{ 'ab'.rjust(5, '*') }}] [{{ 'ab'.center(5) }}] [{{ "
       "'abc'.center(6, '-') }}] {{ '42'.zfill(5) }} {{ '-42'.zfill(5) }} {{ '+'.zfill(3) }} {{ "
       "''.zfill(2) }} [{{ 'é'.ljust(3, 'ñ') }}] [{{ 'abc'.rjust(2) }}]"},
      {"{{ 'a'.ljust(5, 'xy') }}"},
      {"{{ 'abc'.isalpha() }} {{ 'ab1'.isalpha() }} {{ '123'.isdigit() }} {{ '²'.isdigit() }} {{ "
       "'²'.isdecimal() }} {{ '½'.isnumeric() }} {{ '½'.isdigit() }} {{ 'ab1'.isalnum() }} {{ ' "
       "\\t\\u3000'.isspace() }} {{ ''.isspace() }} {{ 'abc'.islower() }} {{ 'aBc'.islower() }} {{ "
       "'ABC1'.isupper() }} {{ '1'.isupper() }} {{ 'Ab Cd'.istitle() }} {{ 'Ab cd'.istitle() }} {{ "
       "'AB'.istitle() }} {{ 'abc'.isascii() }} {{ 'é'.isascii() }} {{ 'é'.isalpha() }}"},
      {"{{ '{} {}'.format(1, 'b') }} {{ '{0}{1}{0}'.format('a', 'b') }} {{ '{x}'.format(x=5) }} {{ "
       "'{{}}'.format() }} {{ '{0.name} {1[0]} {u[name]}'.format(user, numbers, u=user) }} {{ "
       "'{!r} {!s}'.format('a', 'b') }}"},
      {"{{ '{}'.format() }}"},
      {"{{ '{'.format(1) }}"},
      {"{{ '}'.format(1) }}"},
      {"{{ '{x}'.format(1) }}"},
      {"{{ 'a'.nosuch }}| {{ 'a'.nosuch is defined }}"},
      {"{{ 'a'.nosuch() }}"},
      {"{{ 'a'.upper(1) }}"},
      {"{{ user.get('name') }} {{ user.get('x') }} {{ user.get('x', 'd') }} {{ "
       "user.get('address').get('city') }} {{ user.get('address', {}).get('zip', '?') }} {{ "
       "void.get(1) }}"},
      {"{{ user.get() }}"},
      {"{{ user.get([]) }}"},
      {"{% for k in user.keys() %}{{ k }} {% endfor %}{% for v in user.values() %}{{ v }} {% "
       "endfor %}{{ user.keys()|list }} {{ user.values()|list|length }} {{ 'name' in user.keys() "
       "}} {{ user.items()|list|first }} {{ user.keys()|join(',') }}"},
      {"{{ user.items()[0] }}| {{ user.keys()|first }} {{ user.values()|last }} {{ "
       "user.items()|sort(attribute='0')|map('first')|list }}"},
      {"{{ user.pop('name') }}"},
      {"{{ user.update({'a': 1}) }}"},
      {"{{ numbers.append(4) }}"},
      {"{{ numbers.sort() }}"},
      {"{{ user.setdefault('a', 1) }}"},
      {"{{ numbers.append is defined }} {{ user.clear is defined }}"},
      {"{{ numbers.index(2) }} {{ numbers.count(1) }} {{ numbers.copy() }} {{ (1, 2, 1).count(1) "
       "}} {{ (1, 2).index(2) }} {{ user.copy() == user }} {{ numbers.index(10, 2) }}"},
      {"{{ numbers.index(99) }}"},
      {"{{ user.name.__class__ }}|{{ user.__class__ }}|{{ user.__init__ is defined }}"},
      {"{{ user.name.__class__.__mro__ }}"},
      {"{{ namespace(a=1).a }} {{ namespace().x }}| {{ namespace(items=3).items }}"},
      {"{{ namespace(1) }}"},
      {"{{ dict(1) }}"},
      {"{{ dict([1]) }}"},
      {"{{ cycler() }}"},
      {"{{ joiner()() }}{{ joiner('x', 'y') }}"},
      {"{{ range() }}"},
      {"{{ range(1, 2, 3, 4) }}"},
      {"{{ 'x'.join(['a', none]) }}"},
      {"{{ ('<|' ~ name ~ '|>').strip('<|>') }} {{ name.strip('Wd').upper()[1:] }} {{ 'a b "
       "c'.split()[-1] }} {{ 'k: v'.split(': ')|last }}"},
      {"{{ '<think>a</think>b'.split('</think>')[0].split('<think>')[-1] }} {{ "
       "'<think>a</think>b'.split('</think>')[-1].lstrip('\\n') }} {{ 'x'.split('</think>')|length "
       "}}"},
      {"{% set parts = 'a\\nb\\nc'.split('\\n') %}{% for p in parts %}{{ '  ' ~ p }}\n{% endfor "
       "%}"},
      {"{% set d = {'type': 'object', 'properties': {'a': {'type': ['string', 'null']}}} %}{% for "
       "k, v in d.properties.items() %}{{ k }}: {{ v.type is string }} {{ v.type|join(' | ') }} {{ "
       "v.get('enum') is none }}{% endfor %}"},
      {"{{ 'Tool: ' + user|tojson(indent=2) + '\\n' + (numbers|string) }}"},
      {"{{ messages|map(attribute='content')|select('string')|map('length')|list }}"},
      {"{{ messages|map(attribute='role')|unique|join('+') }} {{ (messages|last).role }} {{ "
       "(messages|first)['content']|upper }}"},
      {"{{ 'abc'|upper ~ 'def'|title }} {{ ('a' if yes else 'b')|upper }} {{ [1,2,3]|sum / 2 }} {{ "
       "'x' * (3 - 'ab'|length) }}"},
  };
}

}  // namespace ft::text::jinja
