#!/usr/bin/env python3
"""Holds the code to the layer table of docs/architecture.md.

Three things must agree: the table, the DEPS of each module's CMakeLists.txt, and the project includes of its sources. Also
checked: third-party headers, intrinsics and environment reads stay in the modules that own them. Prints every
violation as file:line and exits 1 if there is one. Tests, fuzzers and benchmarks may include anything.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / 'src'

# What only some modules may touch: pattern of a source line -> modules that own it.
OWNED = [
    (re.compile(r'#\s*include\s*[<"]simdjson'), {'json'}),
    (re.compile(r'#\s*include\s*<(pcre2|utf8proc)'), {'text'}),
    (re.compile(r'#\s*include\s*<xxhash'), {'checkpoint'}),
    (re.compile(r'#\s*include\s*<liburing'), {'io'}),
    (re.compile(r'#\s*include\s*<CLI/'), {'apps'}),
    (re.compile(r'#\s*include\s*<histedit'), {'apps'}),
    (re.compile(r'#\s*include\s*<boost/'), {'server'}),
    (re.compile(r'#\s*include\s*<(immintrin|arm_neon|x86intrin|cuda)'), {'kernels'}),
    (re.compile(r'\bgetenv\s*\('), {'apps'}),
    (re.compile(r'\b(random_device|srand)\b'), set()),
    (re.compile(r'(?<!\w)::open\s*\(|\bfopen\s*\(|\bi?o?fstream\b'), {'io'}),
    (re.compile(r'-ffast-math'), set()),
]
# Reasons beside the rows of OWNED.
EXCEPTIONS = {
    ('base/cores.cc', 'fstream'): 'reads the processor topology of /proc and /sys below io',
}


def table():
    rows = {}
    text = (ROOT / 'docs' / 'architecture.md').read_text(encoding='utf-8')
    for line in text.splitlines():
        cells = [c.strip() for c in line.strip().strip('|').split('|')]
        if len(cells) == 3 and cells[0].isdigit():
            for module in re.split(r',\s*', cells[1]):
                deps = [] if cells[2] == '–' else re.split(r',\s*', cells[2])
                rows[module] = set(deps)
    if not rows:
        sys.exit('check_layers: docs/architecture.md has no layer table')
    if rows.get('apps') == {'all'}:
        rows['apps'] = set(rows) - {'apps'}
    return rows


def cmake_deps(module):
    text = (SRC / module / 'CMakeLists.txt').read_text(encoding='utf-8')
    call = re.search(r'ft_module\(\s*' + module + r'\b(.*?)\)', text, re.S)
    if call is None:
        return None
    words = call.group(1).split()
    if 'DEPS' not in words:
        return set()
    out = set()
    for word in words[words.index('DEPS') + 1:]:
        if word.isupper():
            break
        out.add(word)
    return out


def main():
    rows, problems = table(), []
    for folder in sorted(p for p in SRC.iterdir() if p.is_dir()):
        module = folder.name
        if module == 'testing':
            continue
        if module not in rows:
            problems.append(f'src/{module}: not in the layer table of docs/architecture.md')
            continue
        declared = cmake_deps(module)
        if declared is not None and declared - rows[module]:
            problems.append(f'src/{module}/CMakeLists.txt: DEPS {sorted(declared - rows[module])} are not in its row of the layer table')
        for path in sorted(folder.rglob('*')):
            if path.suffix not in ('.h', '.cc') or re.search(r'_(test|fuzz|bench)(_\w+)?\.(cc|h)$', path.name):
                continue
            relative = path.relative_to(SRC).as_posix()
            for number, line in enumerate(path.read_text(encoding='utf-8').splitlines(), 1):
                include = re.match(r'\s*#\s*include\s*"([a-z_]+)/', line)
                if include:
                    target = include.group(1)
                    if target == 'testing' or (target in rows and target != module and target not in rows[module]):
                        problems.append(f'src/{relative}:{number}: {module} may not include {target}/')
                for pattern, owners in OWNED:
                    found = pattern.search(line)
                    if found and module not in owners and not any(
                            relative == file and word in line for file, word in EXCEPTIONS):
                        problems.append(f'src/{relative}:{number}: "{found.group(0)}" belongs to {sorted(owners) or "no module"}')
    for problem in problems:
        print(problem)
    print(f'check_layers: {len(rows)} modules, {len(problems)} violations')
    sys.exit(1 if problems else 0)


if __name__ == '__main__':
    main()
