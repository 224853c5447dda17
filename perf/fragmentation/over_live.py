#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Resident memory over what is live, of programs whose sizes change, under each allocator in turn.

Each workload prints RSS and live bytes at the end of its phases. The table has the mean of the second half of the
phases, the highest, and the CPU time; with --rounds the medians. What a program has resident before it begins is
subtracted from neither. --picture draws the ratio at the end of each phase, as SVG; with --rounds the medians.

usage: over_live.py [--rounds N] [--only WORKLOAD,...] [--picture FILE] --build FOLDER NAME=LIBRARY...
LIBRARY empty: libc's
"""
import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys

import picture
import redis_sizes

HERE = os.path.dirname(os.path.abspath(__file__))
REDIS_PHASES = 20


def workloads(build):
    """Name: (command, environment)."""
    programs = {
        'changing_sizes': ([os.path.join(build, 'perf/fragmentation/salloc-changing-sizes')], {'OVER_LIVE': '1'}),
        'lru_strings': ([os.path.join(build, 'perf/fragmentation/salloc-lru-strings')], {}),
        'python_cache': (['/usr/bin/python3', os.path.join(HERE, 'python_cache.py')], {'PYTHONMALLOC': 'malloc'}),
    }
    if shutil.which('node'):
        programs['node_cache'] = (['node', '--expose-gc', os.path.join(HERE, 'node_cache.js')], {})
    return programs


def phases_of(text):
    """(resident, live bytes) at the ends of phases, of what a workload prints."""
    lines = [line.split() for line in text.splitlines() if line.startswith('over_live ')]
    return [(int(rss), int(live)) for _, rss, live in lines]


def run_program(command, more, library):
    """(ratios at the ends of phases, seconds of CPU time)"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = subprocess.run(command, env=dict(os.environ, LD_PRELOAD=library, **more), stdout=subprocess.PIPE, check=True,
                          universal_newlines=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ([rss / live for rss, live in phases_of(text)],
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def run_redis(library, port):
    server = redis_sizes.Server(library, port)
    return [server.ratio() for _ in server.phases(REDIS_PHASES)], server.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--rounds', type=int, default=1)
    parser.add_argument('--only', default='')
    parser.add_argument('--picture', metavar='FILE')
    parser.add_argument('--build', required=True)
    parser.add_argument('allocator', nargs='+', metavar='NAME=LIBRARY')
    args = parser.parse_args()
    allocators = [a.split('=', 1) for a in args.allocator]
    programs = workloads(args.build)
    names = [n for n in [*programs, 'redis'] if not args.only or n in args.only.split(',')]
    if not names:
        sys.exit('--only: the workloads are %s, redis' % ', '.join(programs))
    print('%-16s %-12s %8s %8s %8s' % ('workload', 'allocator', 'mean', 'most', 'CPU s'))
    lines = {}
    for name in names:
        results, phases = {a: [] for a, _ in allocators}, {a: [] for a, _ in allocators}
        for round_number in range(args.rounds):
            for i, (allocator, library) in enumerate(allocators):
                if name == 'redis':
                    ratios, seconds = run_redis(library, 7400 + round_number * len(allocators) + i)
                else:
                    ratios, seconds = run_program(*programs[name], library)
                half = ratios[len(ratios) // 2:]
                results[allocator].append((sum(half) / len(half), max(half), seconds))
                phases[allocator].append(ratios)
        for allocator, rows in results.items():
            print('%-16s %-12s %8.2f %8.2f %8.1f' % (name, allocator, *map(statistics.median, zip(*rows))), flush=True)
        lines[name] = {a: [statistics.median(at) for at in zip(*rounds)] for a, rounds in phases.items()}
    if args.picture:
        with open(args.picture, 'w', encoding='utf-8') as file:
            file.write(picture.draw(lines))


if __name__ == '__main__':
    main()
