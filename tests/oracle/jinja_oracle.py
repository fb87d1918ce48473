#!/usr/bin/python3
"""Renders templates with Jinja 3 as Hugging Face's apply_chat_template sets it up.

usage: jinja_oracle.py CASES RESULTS
CASES is a JSON array of {"template": text, "context": object}; RESULTS becomes one of {"output": text} or
{"error": text}, in the same order.
"""
import json
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(jinja2.ext.Extension):
    """{% generation %} marks what an assistant said; its text is printed as it is, in a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

    def _text(self, caller):
        return caller()


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


def render(env, case):
    try:
        output = env.from_string(case["template"]).render(**case["context"])
        output.encode("utf-8")  # a lone surrogate is no text
        return {"output": output}
    except Exception as error:  # whatever a template can raise counts as an error
        return {"error": f"{type(error).__name__}: {error}"}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        cases = json.load(file)
    env = environment()
    results = [render(env, case) for case in cases]
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main()
