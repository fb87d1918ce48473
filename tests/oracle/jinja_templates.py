#!/usr/bin/python3
"""Writes random chat templates that mostly render without an error.

usage: jinja_templates.py SEED COUNT RESULT
RESULT becomes a JSON array of template texts. They use the variables of the test's context (kDefaultContext).
"""
import json
import random
import sys

random_source = random.Random(int(sys.argv[1]))
choose = random_source.choice
number = random_source.randint

SEPARATORS = ["", '"a"', '" "', "none, 1", '",", 1', '"o", 1']
PRELUDE = (
    "{% set ns = namespace(x=0) %}{% macro g(x, y=2) %}<{{ x }}{{ y }}{{ caller() if caller }}>{% endmacro %}"
    "{% macro h() %}{{ caller(4, none) }}{% endmacro %}"
)
LOCALS = "{% set iv = 3 %}{% set sv = 'sv' %}{% set lv = [7, 8] %}"


def pick(options):
    return choose(options)()


def text(depth):
    if depth <= 0:
        return choose(["name", "text", "padded", "unicode", "empty", "quotes", "html", "'a'", "'Foo bar'", "'x\\ny'",
                       "'é😀'", "''", "user.name", "messages[0].content", "sv"])
    t = lambda: text(depth - 1)
    return pick([
        lambda: f"{t()} + {t()}",
        lambda: f"{t()} ~ {anything(depth - 1)}",
        lambda: f"({t()}).{choose(['upper', 'lower', 'strip', 'title', 'capitalize', 'swapcase', 'rstrip'])}()",
        lambda: f"{t()}|{choose(['upper', 'lower', 'trim', 'title', 'capitalize', 'string', 'reverse'])}",
        lambda: f"({t()}).replace({text(0)}, {text(0)})",
        lambda: f"{t()}|replace({text(0)}, {text(0)}, {integer(0)})",
        lambda: f"{sequence(depth - 1)}|join({text(0)})",
        lambda: f"{anything(depth - 1)}|tojson",
        lambda: f"({t()})[{integer(0)}:{integer(0)}]",
        lambda: f"({t()})[{choose(['', '-'])}{number(0, 3)}:]",
        lambda: f"({t()})[::{choose(['-1', '2', '-2', '3'])}]",
        lambda: f"({t()} if {truth(depth - 1)} else {t()})",
        lambda: f"{t()}|indent({number(0, 4)}, {truth(0)}, {truth(0)})",
        lambda: f"({t()}).{choose(['center', 'ljust', 'rjust', 'zfill'])}({number(0, 12)})",
        lambda: f"({t()} * {number(-1, 3)})",
    ])


def integer(depth):
    if depth <= 0:
        return choose(["n", "zero", "3", "-2", "0", "10", "user.age", "iv", "1"])
    i = lambda: integer(depth - 1)
    return pick([
        lambda: f"({i()} {choose('+-*')} {i()})",
        lambda: f"{sequence(depth - 1)}|length",
        lambda: f"({text(depth - 1)}).{choose(['find', 'count', 'rfind'])}({text(0)})",
        lambda: f"{text(depth - 1)}|int",
        lambda: f"({i()} {choose(['%', '//'])} 7)",
        lambda: f"numbers|{choose(['sum', 'max', 'min', 'first', 'last'])}",
    ])


def truth(depth):
    if depth <= 0:
        return choose(["yes", "no", "true", "false", "not no", "iv == 3"])
    return pick([
        lambda: f"{integer(depth - 1)} {choose(['<', '>', '==', '!=', '<=', '>='])} {integer(depth - 1)}",
        lambda: f"{text(depth - 1)} {choose(['==', '!=', '<', 'in', 'not in'])} {text(depth - 1)}",
        lambda: f"{anything(depth - 1)} is {choose(['', 'not '])}"
                f"{choose(['string', 'number', 'none', 'defined', 'mapping', 'iterable', 'sequence', 'integer'])}",
        lambda: f"({truth(depth - 1)} {choose(['and', 'or'])} {truth(depth - 1)})",
        lambda: f"not {truth(depth - 1)}",
        lambda: f"{anything(depth - 1)} {choose(['in', 'not in'])} {sequence(depth - 1)}",
        lambda: f"({text(depth - 1)}).{choose(['startswith', 'endswith'])}({text(0)})",
        lambda: f"({text(depth - 1)}).{choose(['isalpha', 'isdigit', 'isupper', 'islower', 'istitle'])}()",
    ])


def sequence(depth):
    if depth <= 0:
        return choose(["numbers", "words", "users", "nil", "mixed", "nested", "lv", "messages", "[1, 2]"])
    s = lambda: sequence(depth - 1)
    return pick([
        lambda: "[" + ", ".join(anything(depth - 1) for _ in range(number(0, 3))) + "]",
        lambda: f"({text(depth - 1)}).{choose(['split', 'rsplit'])}({choose(SEPARATORS)})",
        lambda: f"({s()})[{choose(['', '-'])}{number(0, 3)}:]",
        lambda: f"{s()}|reverse|list",
        lambda: f"{s()}|map('{choose(['string', 'tojson'])}')|list",
        lambda: f"words|sort(case_sensitive={truth(0)}, reverse={truth(0)})",
        lambda: f"users|map(attribute='{choose(['name', 'age', 'city.name', 'admin'])}')|list",
        lambda: f"users|{choose(['selectattr', 'rejectattr'])}('{choose(['admin', 'age'])}')|list",
        lambda: f"numbers|{choose(['select', 'reject'])}('{choose(['odd', 'even'])}')|list",
        lambda: f"{s()}|{choose(['batch', 'slice'])}({number(1, 3)})|list",
        lambda: f"{mapping(depth - 1)}|dictsort",
        lambda: f"({mapping(depth - 1)}).{choose(['keys', 'values', 'items'])}()|list",
    ])


def mapping(depth):
    if depth <= 0:
        return choose(["user", "void", "messages[0]", "{'a': 1}", "{'b': 2, 'A': [1]}"])
    return "{" + ", ".join(f"{text(0)}: {anything(depth - 1)}" for _ in range(number(0, 3))) + "}"


def anything(depth):
    return pick([
        lambda: text(depth),
        lambda: text(depth),
        lambda: integer(depth),
        lambda: truth(depth),
        lambda: sequence(depth),
        lambda: mapping(depth),
        lambda: choose(["none", "missing", "1.5", "pi", "uv"]),
        lambda: f"({mapping(depth)}).get({text(0)})",
        lambda: f"({sequence(depth)})[{integer(0)}]",
        lambda: f"(missing or {text(depth)})",
        lambda: f"missing|default({integer(depth)})",
    ])


def white():
    return choose(["", "", " ", "\n", "  \n  ", "\n\n", "x", "\t"])


def tag(inside):
    sign = lambda: choose(["", "", "", "-", "+"])
    return "{%" + sign() + " " + inside + " " + sign() + "%}"


def loop(depth):
    target, iterable, filters = choose([
        ("iv", "numbers", ["iv > 1", "iv is odd"]), ("sv", "words", ["sv != 'fig'"]), ("uv", "users", ["uv.admin"]),
        ("iv", "range(4)", ["iv is even"]), ("sv, uv", "user.items()", ["uv is string"]), ("uv", sequence(2), ["yes"]),
    ])
    head = f"for {target} in {iterable}" + (f" if {choose(filters)}" if number(0, 2) == 0 else "")
    peek = choose(["", "{{ loop.index }}", "{{ loop.last }}", "{{ loop.length }}/{{ loop.revindex }}",
                   "{{ loop.previtem is defined }}", "{{ loop.nextitem is defined }}", "{{ loop.cycle('p', 'q') }}"])
    otherwise = tag("else") + body(depth - 1, False) if number(0, 4) == 0 else ""
    return tag(head) + peek + body(depth - 1, True) + otherwise + tag("endfor")


def assignment():
    return tag(pick([
        lambda: "set iv = " + integer(2), lambda: "set sv = " + text(2), lambda: "set lv = " + sequence(2),
        lambda: "set n = " + integer(1), lambda: f"set iv, sv = {integer(1)}, {text(1)}",
        lambda: "set ns.x = " + anything(1), lambda: "set name = " + text(1),
    ]))


def macro(depth):
    name = f"f{number(0, 3)}"
    parameters = choose(["iv=1, sv=name", "iv=n", "iv=0, lv=numbers, uv=iv"])
    caller = choose(["", "{{ caller() if caller is defined }}"])
    return (tag(f"macro {name}({parameters})") + body(depth - 1, False) + caller + tag("endmacro")
            + "{{ " + name + "(" + choose(["", "3", "iv=iv"]) + ") }}")


def block(depth, in_loop):
    return pick([
        lambda: tag(f"if {truth(2)}") + body(depth - 1, in_loop) + tag(f"elif {truth(1)}") + body(depth - 1, in_loop)
                + tag("else") + body(depth - 1, in_loop) + tag("endif"),
        lambda: tag(f"if {anything(2)}") + body(depth - 1, in_loop) + tag("endif"),
        lambda: loop(depth),
        lambda: loop(depth),
        lambda: macro(depth),
        lambda: tag("set sv" + choose(["", " | upper"])) + body(depth - 1, in_loop) + tag("endset"),
        lambda: tag("filter upper") + body(depth - 1, in_loop) + tag("endfilter"),
        lambda: tag(f"with iv = {integer(1)}, uv = {anything(1)}") + body(depth - 1, in_loop) + tag("endwith"),
        lambda: tag("generation") + body(depth - 1, False) + tag("endgeneration"),
        lambda: tag("call g(2)") + body(depth - 1, False) + tag("endcall"),
        lambda: tag("call(iv, uv) h()") + body(depth - 1, False) + tag("endcall"),
    ])


def body(depth, in_loop):
    out = ""
    for _ in range(number(1, 4)):
        kind = number(0, 9)
        if kind < 3 and depth > 0:
            part = block(depth, in_loop)
        elif kind < 5:
            part = assignment()
        elif kind == 5 and in_loop:
            part = tag(f"if {truth(1)}") + tag(choose(["break", "continue"])) + tag("endif")
        elif kind == 6:
            part = "{{ ns.x }}{{ iv }}{{ sv }}{{ uv }}{{ g(" + anything(1) + ") }}"
        elif kind == 7:
            part = choose(["{# c #}", "{#- c -#}", "{#+ c +#}", "{% raw %} {{ x }} \n {% endraw %}"])
        else:
            part = "{{" + choose(["", "-"]) + " " + anything(3) + " " + choose(["", "-"]) + "}}"
        out += white() + part + white()
    return out


templates = [choose([PRELUDE, PRELUDE + LOCALS]) + body(3, False) for _ in range(int(sys.argv[2]))]
with open(sys.argv[3], "w", encoding="utf-8") as file:
    json.dump(templates, file)
