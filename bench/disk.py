#!/usr/bin/env python3
"""Read queues against fio: bench/disk.py FILE [-r 5] [--seconds 1] [--build build] [--sweep].

FILE is created with 4 GB of random bytes if it is missing (`rm` it afterwards). The cases alternate within each round, for
the rate of a drive that others use too changes from second to second: medians with the spread come out, and the ratio of the
engine's default to fio's best of the same round. fio reads into huge pages as the engine does, if its C library makes
them (glibc.malloc.hugetlb); `small` cases read into pages of 4 KiB. Memory that stays in the processor's caches is read into
faster, so "as much memory" is fio with as many bytes to read into as the engine has.
"""
import argparse
import json
import os
import statistics
import subprocess

EXPERT = 18_915_328
SAME_MEMORY = ' as much memory'
HUGE = dict(os.environ, GLIBC_TUNABLES='glibc.malloc.hugetlb=1')


def fio(file, engine, size, depth, seconds, env):
    out = subprocess.run(['fio', '--name=read', f'--filename={file}', '--rw=randread', f'--bs={size}', '--direct=1', f'--ioengine={engine}',
                          f'--iodepth={depth}', '--time_based', f'--runtime={seconds}', '--randrepeat=0', '--norandommap', '--output-format=json'],
                         capture_output=True, text=True, check=True, env=env)
    job = json.loads(out.stdout)['jobs'][0]
    gb = job['read']['io_bytes'] / 1e9
    cpu = (job['usr_cpu'] + job['sys_cpu']) / 100 * job['read']['runtime'] / 1000
    return job['read']['bw_bytes'] / 1e9, cpu / gb


def ours(build, file, seconds, *flags):
    out = subprocess.run([f'{build}/bench/disk_bench', file, '--seconds', str(seconds), *flags], capture_output=True, text=True, check=True)
    line = json.loads(out.stdout)
    return line['gb_per_s'], line['cpu_s_per_gb']


def create(file):
    if os.path.exists(file):
        return
    with open(file, 'wb') as out:
        for _ in range(4096):
            out.write(os.urandom(1 << 20))
        out.flush()
        os.fsync(out.fileno())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('file')
    parser.add_argument('-r', '--rounds', type=int, default=5)
    parser.add_argument('--seconds', type=float, default=1)
    parser.add_argument('--build', default='build')
    parser.add_argument('--sweep', action='store_true', help='queue kinds, piece sizes and depths instead of the comparison')
    args = parser.parse_args()
    create(args.file)

    cases = {}
    def add_fio(engine, size, depth, env=HUGE, note=''):
        cases[f'fio {engine} {size} x{depth}{note}'] = lambda: fio(args.file, engine, size, depth, args.seconds, env)
    def add_ours(name, *flags):
        cases[name] = lambda: ours(args.build, args.file, args.seconds, *flags)

    if args.sweep:
        for queue in ('uring', 'threads'):
            for piece in ('256k', '512k', '1m', '2m'):
                for depth in (4, 8, 12, 16):
                    add_ours(f'{queue} {piece} x{depth}', '--queue', queue, '--piece', piece, '--depth', str(depth))
    else:
        for engine, size, depth in (('io_uring', '256k', 16), ('io_uring', '512k', 12), ('io_uring', '1m', 12), ('io_uring', '2m', 8),
                                    ('io_uring', EXPERT, 1), ('io_uring', EXPERT, 4), ('libaio', '1m', 12)):
            add_fio(engine, size, depth)
        for size in (1 << 18, 1 << 19, 1 << 20):
            add_fio('io_uring', size, 8 * EXPERT // size, HUGE, SAME_MEMORY)
        add_fio('io_uring', '1m', 12, dict(os.environ), ' small')
        add_ours('engine')
        add_ours('engine threads', '--queue', 'threads')
        add_ours('engine small', '--small-pages')
        add_ours('engine buffered', '--buffered')

    rounds = [{name: case() for name, case in cases.items()} for _ in range(args.rounds)]
    print(f'{"case":40} GB/s median (spread)   CPU s/GB')
    for name in cases:
        rates = [r[name][0] for r in rounds]
        print(f'{name:40} {statistics.median(rates):.2f} ({min(rates):.2f}–{max(rates):.2f})   {statistics.median(r[name][1] for r in rounds):.4f}')
    if not args.sweep:
        for kind, ending in (('best of fio', ''), ('best of fio with as much memory', SAME_MEMORY)):
            ratios = [r['engine'][0] / max(rate for name, (rate, _) in r.items() if name.startswith('fio') and name.endswith(ending)) for r in rounds]
            print(f'engine ÷ {kind}, per round: {statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})')


if __name__ == '__main__':
    main()
