#!/usr/bin/env python3
"""Speed beside llama.cpp: compare.py OUR_MODEL THEIR_MODEL.gguf [--llama-bench 'chroot DIR llama-bench'] [-p 512] [-n 64] [-r 5].

Both run alternately, a few runs each, so that a busy moment hits both; ratios are medians of the ratios of each
repetition. Models must have the same shape and the same bits per weight. THEIR_MODEL is a path as llama-bench sees it.
"""
import argparse
import json
import shlex
import statistics
import subprocess


def ours(program, model, args):
    command = [program, 'bench', model, '-p', str(args.p), '-n', str(args.n), '-r', str(args.inner), '-o', 'json', '--threads', str(args.threads), '--speculate', args.speculate,
               '--kv-type', 'bf16', '--quiet']
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    if report['machine']['busy']: print('  the machine was busy')
    return {('pp' if r['n_prompt'] else 'tg'): r['tokens_per_second']['median'] for r in report['results']}


def theirs(model, args):
    command = shlex.split(args.llama_bench) + ['-m', model, '-p', str(args.p), '-n', str(args.n), '-r', str(args.inner), '-o', 'json', '-t', str(args.threads)] + shlex.split(args.llama_options)
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {('pp' if r['n_prompt'] else 'tg'): r['avg_ts'] for r in report}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('model')
    parser.add_argument('gguf')
    parser.add_argument('--program', default='build/foretoken')
    parser.add_argument('--llama-bench', default='llama-bench')
    parser.add_argument('--llama-options', default='', help="e.g. '--repack 0'")
    parser.add_argument('--speculate', default='none')
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('-p', type=int, default=512)
    parser.add_argument('-n', type=int, default=64)
    parser.add_argument('-r', type=int, default=5)
    parser.add_argument('--inner', type=int, default=3, help='runs of each start of a program')
    args = parser.parse_args()
    runs = []
    for i in range(args.r):
        pair = ours(args.program, args.model, args), theirs(args.gguf, args)
        runs.append(pair)
        print(f'  {i + 1}: ours {pair[0]}, theirs {pair[1]}', flush=True)
    print('| test | foretoken | llama.cpp | ratio |\n|---|---|---|---|')
    for test, name in (('pp', f'prompt {args.p}'), ('tg', f'generation {args.n}')):
        a, b = [r[0][test] for r in runs], [r[1][test] for r in runs]
        ratio = statistics.median(x / y for x, y in zip(a, b))
        print(f'| {name} | {statistics.median(a):.2f} | {statistics.median(b):.2f} | {ratio:.2f} |')


main()
