#!/usr/bin/env python3
"""Speed of the program on the model that ships: bench/program.py [--program build/foretoken] [-r 7] [--tokens 400].

Cases run alternately within each repetition, so that a busy moment hits all of them alike; a table of medians with the
spread comes out, ratios are medians of the per-repetition ratios to plain decoding. `probe` lines say how much of two cores
was free before and after: a figure measured while they differ is not worth quoting.
"""
import argparse
import json
import statistics
import subprocess
import threading
import time

STORY = '[gMASK]<sop><|user|>Tell me a story about a wolf.<|assistant|><think></think>'


def run(program, *options):
    start = time.perf_counter()
    out = subprocess.run([program, 'generate', '--json', '--temperature', '0', '--ignore-eos', *options], capture_output=True, text=True, check=True)
    return json.loads(out.stdout), (time.perf_counter() - start) * 1000


def spin(results, i):
    # One core's share of real time that a busy thread gets.
    code = 'import time\nw=time.perf_counter();c=time.process_time()\nwhile time.perf_counter()-w<0.5: pass\nprint((time.process_time()-c)/(time.perf_counter()-w))'
    results[i] = float(subprocess.run(['python3', '-c', code], capture_output=True, text=True, check=True).stdout)


def probe():
    shares = [0.0, 0.0]
    threads = [threading.Thread(target=spin, args=(shares, i)) for i in range(2)]
    for t in threads: t.start()
    for t in threads: t.join()
    print(f'probe: two busy threads get {shares[0]:.2f} and {shares[1]:.2f} of a core')


def spread(values):
    return f'{statistics.median(values):.0f} ({min(values):.0f}–{max(values):.0f})'


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--program', default='build/foretoken')
    parser.add_argument('-r', '--repetitions', type=int, default=7)
    parser.add_argument('--tokens', default='400')
    parser.add_argument('--isa', default='auto')
    args = parser.parse_args()
    cases = {'plain': ['--speculate', 'none'], **{f'mtp, depth {d}': ['--speculate', 'mtp', '--draft-tokens', str(d)] for d in (1, 2, 3, 4, 5, 6, 8)},
             'auto': ['--speculate', 'auto']}
    speeds, forwards, prefill, first, whole = {c: [] for c in cases}, {}, [], [], []
    ids = ','.join(str(100 + 37 * i % 5000) for i in range(1000))
    probe()
    for _ in range(args.repetitions):
        for case, options in cases.items():
            out, _ = run(args.program, '--prompt', STORY, '-n', args.tokens, '--isa', args.isa, *options)
            speeds[case].append(out['timings']['predicted_per_second'])
            forwards[case] = out['speculation']['tokens_per_forward']
        out, _ = run(args.program, '--token-ids', ids, '-n', '1', '--isa', args.isa)
        prefill.append(out['timings']['prompt_per_second'])
        out, ms = run(args.program, '--prompt', STORY, '-n', '1', '--isa', args.isa)
        first.append(out['timings']['load_ms'] + out['timings']['time_to_first_token_ms'])
        whole.append(ms)
    probe()
    print(f'| case | tokens/s: median of {args.repetitions} (min–max) | × plain | tokens per forward |\n|---|---|---|---|')
    for case, values in speeds.items():
        ratio = statistics.median(v / p for v, p in zip(values, speeds['plain']))
        print(f'| {case} | {spread(values)} | {ratio:.2f} | {forwards[case]:.2f} |')
    print(f'| prefill, 1,000 tokens | {spread(prefill)} | | |')
    print(f'load to first token: {spread(first)} ms; whole process for one token: {spread(whole)} ms')


if __name__ == '__main__':
    main()
