#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the model says of the workloads of over_live.py, beside what the library does.

Each workload runs under salloc, with mixed spans and without. What is resident outside of the heap's window of
addresses (the program's code and tables, the library's records) is measured in the run and added to the pages that
the model predicts. The columns: resident over live bytes as measured and as predicted, then the same of the heap's
pages alone. All are means of the second half of the phases, without the last one, in which the program ends.

usage: predict.py [--only WORKLOAD,...] [--folder TRACES] --build FOLDER --salloc LIBRARY
"""
import argparse
import os
import subprocess
import sys
import threading
import time

import over_live
import redis_sizes
import traces

WINDOW = (0xc00 << 32, (0xc00 << 32) + (1 << 36))  # alloc/base/page.h
POLL_S = 0.05
MIB = 1 << 20


def outside_window(pid):
    """Bytes that a process has resident outside of the heap's window; None: it has ended."""
    total, inside = 0, False
    try:
        with open('/proc/%d/smaps' % pid, encoding='ascii', errors='replace') as file:
            for line in file:
                first = line.split(' ', 1)[0]
                if '-' in first and not first.endswith(':'):
                    inside = WINDOW[0] <= int(first.split('-')[0], 16) < WINDOW[1]
                elif first == 'Rss:' and not inside:
                    total += int(line.split()[1]) << 10
    except (OSError, ValueError):
        return None
    return total or None


def poll(pid, samples, ended):
    while not ended.wait(POLL_S):
        bytes_outside = outside_window(pid)
        if bytes_outside:
            samples.append(bytes_outside)


def measure_program(command, env, library):
    """(pairs of resident and live bytes at the ends of phases, mean bytes outside of the window)"""
    samples, ended = [], threading.Event()
    process = subprocess.Popen(command, env=dict(os.environ, LD_PRELOAD=library, **env), stdout=subprocess.PIPE,
                               universal_newlines=True)
    thread = threading.Thread(target=poll, args=(process.pid, samples, ended))
    thread.start()
    text = process.communicate()[0]
    ended.set()
    thread.join()
    if process.returncode:
        sys.exit('%s ended with %d' % (command[0], process.returncode))
    half = samples[len(samples) // 2:]
    return over_live.phases_of(text), sum(half) / len(half)


def measure_redis(library, conf, port):
    pairs, samples = [], []
    if conf:
        os.environ['SALLOC_CONF'] = conf
    server = redis_sizes.Server(library, port)
    os.environ.pop('SALLOC_CONF', None)
    for _ in server.phases(over_live.REDIS_PHASES):
        pairs.append(server.memory())
        samples.append(outside_window(server.process.pid))
    server.end()
    half = samples[len(samples) // 2:]
    return pairs, sum(half) / len(half)


def compare(pairs, outside, parts):
    """Means of the second half of the phases: resident over live as measured and as predicted, the same of pages."""
    n = len(pairs)
    rows = []
    for (rss, live), part in list(zip(pairs, parts))[n // 2:n - 1]:
        predicted = (part['MiB'] - part['records']) * MIB
        rows.append((rss / live, (predicted + outside) / live, (rss - outside) / live, predicted / live))
    return [sum(column) / len(rows) for column in zip(*rows)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--only', default='')
    parser.add_argument('--folder', default='/tmp/salloc-traces')
    parser.add_argument('--build', required=True)
    parser.add_argument('--salloc', required=True)
    parser.add_argument('--port', type=int, default=7500)
    args = parser.parse_args()
    library, programs = os.path.abspath(args.salloc), over_live.workloads(args.build)
    model = os.path.join(args.build, 'perf/fragmentation/salloc-frag-model')
    print('%-16s %-6s %9s %9s %9s %9s %12s %8s' % ('workload', 'mixed', 'measured', 'predicted', 'pages', 'predicted',
                                                  'outside MiB', 'model s'))
    for i, name in enumerate(n for n in [*programs, 'redis'] if not args.only or n in args.only.split(',')):
        path = traces.record(args.build, args.folder, name, args.port + 4 * i)
        for j, mixed in enumerate((1, 0)):
            conf = '' if mixed else 'mixed_spans:off'
            if name == 'redis':
                pairs, outside = measure_redis(library, conf, args.port + 4 * i + 1 + j)
            else:
                command, env = programs[name]
                pairs, outside = measure_program(command, dict(env, SALLOC_CONF=conf), library)
            begin = time.monotonic()
            parts, _ = traces.model(model, path, ['mixed=%d' % mixed, 'parts=%d' % len(pairs)])
            seconds = time.monotonic() - begin
            print('%-16s %-6s %9.2f %9.2f %9.2f %9.2f %12.1f %8.1f' % (
                name, 'on' if mixed else 'off', *compare(pairs, outside, parts), outside / MIB, seconds), flush=True)


if __name__ == '__main__':
    main()
