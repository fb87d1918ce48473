#!/usr/bin/env python3
"""What the server costs: bench/serve.py [MODEL] [--program build/foretoken] [-r 9] [--tokens 400] [-- OPTION...].

Plays one greedy request against `serve`, as a stream, and with `generate`, in turns, in a new order each time. Of each stream: the time
from sending the request to its first text less the library's own time to first token of that request, as its timings tell; and
tokens per second from the library's first token to the last byte of the stream. Prints medians with the range, and of the per-repetition ratios of the server's speed to that of
`generate` median and quartiles, and the same for two runs of `generate`. Options after -- go to both, as `--threads 1`.
"""
import argparse
import json
import random
import re
import socket
import statistics
import subprocess
import sys
import time

STORY = '[gMASK]<sop><|user|>Tell me a story about a wolf.<|assistant|><think></think>'


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(('127.0.0.1', port))

    def stream(self, body):
        """Milliseconds to the first text and to the last, and the library's timings."""
        text = json.dumps(body).encode()
        begin = time.perf_counter()
        self.socket.sendall(b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n' % len(text) + text)
        first, got = None, b''
        while not got.endswith(b'0\r\n\r\n'):
            got += self.socket.recv(1 << 20)
            if first is None and b'"text":"' in got: first = time.perf_counter()
        end = time.perf_counter()
        if b'HTTP/1.1 200' not in got: sys.exit(got.decode()[:2000])
        timings = json.loads(re.search(rb'"timings":(\{[^}]*\})', got).group(1))
        return (first - begin) * 1e3, (end - begin) * 1e3, timings


def main():
    split = sys.argv.index('--') if '--' in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser()
    parser.add_argument('model', nargs='?', default='models/glm-mini')
    parser.add_argument('--program', default='build/foretoken')
    parser.add_argument('-r', '--repetitions', type=int, default=9)
    parser.add_argument('--tokens', type=int, default=400)
    parser.add_argument('--speculate', default='none')
    parser.add_argument('--token-ids', help='the prompt, comma-separated, instead of the story; for models that know no chat')
    args = parser.parse_args(sys.argv[1:split])
    options = sys.argv[split + 1:]
    server = subprocess.Popen([args.program, 'serve', args.model, '--port', '0', '--quiet', *options], stdout=subprocess.PIPE, text=True)
    client = Client(int(server.stdout.readline().rsplit(':', 1)[1]))
    text = [int(token) for token in args.token_ids.split(',')] if args.token_ids else STORY
    body = {'prompt': text, 'max_tokens': args.tokens, 'temperature': 0, 'ignore_eos': True, 'stream': True, 'speculate': args.speculate}
    prompt = ['--token-ids', args.token_ids] if args.token_ids else ['--prompt', STORY]
    first_over, speeds, own = [], {case: [] for case in ('serve', 'generate', 'generate again')}, []

    def serve():
        first, last, timings = client.stream(body)
        first_over.append(first - timings['time_to_first_token_ms'])
        own.append(timings['predicted_per_second'])
        return (args.tokens - 1) / (last - timings['time_to_first_token_ms']) * 1e3

    def generate():
        command = [args.program, 'generate', args.model, '--json', '--ignore-eos', '-n', str(args.tokens), '--temperature', '0',
                   '--speculate', args.speculate, *prompt, *options]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)['timings']['predicted_per_second']

    try:
        client.stream(body)  # what the first request builds stays
        first_over.clear(), own.clear()
        for _ in range(args.repetitions):
            for case in random.sample(sorted(speeds), len(speeds)):
                speeds[case].append(serve() if case == 'serve' else generate())
    finally:
        server.terminate()
        server.wait()

    def spread(values): return f'{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})'

    def ratios(a, b):
        values = [x / y for x, y in zip(a, b)]
        low, _, high = statistics.quantiles(values, n=4)
        return f'{statistics.median(values):.3f} ({low:.3f}–{high:.3f})'
    print(f'first text, client less library: {spread(first_over)} ms')
    for case, values in speeds.items(): print(f'{case:<15}{spread(values)} tok/s')
    print(f'serve, as the library counts: {spread(own)} tok/s')
    print(f'serve / generate: {ratios(speeds["serve"], speeds["generate"])}; again / generate: {ratios(speeds["generate again"], speeds["generate"])}')


if __name__ == '__main__':
    main()
