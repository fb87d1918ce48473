#!/usr/bin/env python3
"""What choosing costs: bench/no_regret.py [MODEL] [--program build/foretoken] [-r 7] [--tokens 1000] [-- OPTION...].

Plays one request with the planner's choice and with every fixed one (no drafts, mtp at 1, 2, 3, 5), alternately within each
repetition, in a new order each time. Prints medians, and of the per-repetition ratios of the planner's speed to that of the
fixed choice with the best median: median, quartiles, and the same for two runs of the planner (what the machine's noise alone does).
--traces DIR keeps a trace of every choice there (of a further run, not a timed one). Options after -- go to `generate`.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys

STORY = '[gMASK]<sop><|user|>Tell me a story about a wolf.<|assistant|><think></think>'
FIXED = {'none': ['--speculate', 'none'], **{f'mtp {d}': ['--speculate', 'mtp', '--draft-tokens', str(d)] for d in (1, 2, 3, 5)}}


def main():
    split = sys.argv.index('--') if '--' in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser()
    parser.add_argument('model', nargs='?', default='models/glm-mini')
    parser.add_argument('--program', default='build/foretoken')
    parser.add_argument('-r', '--repetitions', type=int, default=7)
    parser.add_argument('--tokens', default='1000')
    parser.add_argument('--speculate', default='auto', help='what the planner may choose from')
    parser.add_argument('--traces', type=pathlib.Path)
    args = parser.parse_args(sys.argv[1:split])
    request = sys.argv[split + 1:] or ['--prompt', STORY, '--temperature', '0']
    planner = ['--speculate', args.speculate]
    cases = {**FIXED, 'auto': planner, 'auto again': planner}

    def run(*options):
        command = [args.program, 'generate', args.model, '--json', '--ignore-eos', '-n', args.tokens, *request, *options]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    speeds, last = {case: [] for case in cases}, {}
    for _ in range(args.repetitions):
        for case in random.sample(sorted(cases), len(cases)):
            last[case] = run(*cases[case])
            speeds[case].append(last[case]['timings']['predicted_per_second'])
    texts = {json.dumps(out['token_ids']) for out in last.values()}
    print(f'{len(texts)} text{"s" if len(texts) > 1 else ""} of {len(last["none"]["token_ids"])} tokens')
    for case, values in speeds.items():
        print(f'{case:<11}{statistics.median(values):9.2f} tok/s ({min(values):.2f}–{max(values):.2f}), '
              f'{last[case]["speculation"]["tokens_per_forward"]:.2f} tokens per forward')
    best = max(FIXED, key=lambda case: statistics.median(speeds[case]))

    def ratios(case, to):
        values = [a / b for a, b in zip(speeds[case], speeds[to])]
        low, _, high = statistics.quantiles(values, n=4)
        return f'{statistics.median(values):.3f} ({low:.3f}–{high:.3f})'
    print(f'auto / {best}: {ratios("auto", best)}, again {ratios("auto again", best)}; auto / auto again: {ratios("auto", "auto again")}; auto / none: {ratios("auto", "none")}')
    if args.traces:
        args.traces.mkdir(parents=True, exist_ok=True)
        for case, options in {**FIXED, 'auto': planner}.items(): run('--trace', str(args.traces / (case.replace(' ', '-') + '.jsonl')), *options)


if __name__ == '__main__':
    main()
