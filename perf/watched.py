#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs a process to be looked at by sallocctl: its throughput, and its longest pause.

usage: watched.py --salloc LIBRARY --tool SALLOCCTL [--program salloc-watched] [--pairs N] [--seconds N]
                  [--reading WORDS]

The process has one CPU for itself, and sallocctl another. Windows with a reading each second and without one take
turns. Printed are the median over pairs of windows of the ratio of throughputs, with the interval of its 95 % (order
statistics, so whatever the distribution is), and the median of the longest pause of each window.
"""
import argparse
import math
import mmap
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

PYTHON = '''
import mmap, os, sys, time
memory = memoryview(mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 4096)).cast('Q')
keep, before = {}, time.monotonic_ns()
i = 0
while True:
    for _ in range(20):
        i += 1
        keep[i * 7919 % 100003] = [str(i) * (i % 9), (i,), {i: str(i)}]
    after = time.monotonic_ns()
    memory[0] += 1
    memory[1] = max(memory[1], after - before)
    before = after
'''


def interval(values):
    """Median and the order statistics that hold it with 95 %."""
    values = sorted(values)
    n = len(values)
    below = 0
    while below + 1 < n / 2 and 2 * sum(math.comb(n, i) for i in range(below + 1)) / 2**n <= 0.05:
        below += 1
    below = max(below - 1, 0)
    return statistics.median(values), values[below], values[n - 1 - below]


def window(memory, seconds, command):
    """Rounds a second, and the longest, of one window; with a reading each second if there is a command."""
    memory[1] = 0
    before, start = memory[0], time.monotonic()
    for i in range(seconds):
        if command:
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        time.sleep(max(0, start + i + 1 - time.monotonic()))
    return (memory[0] - before) / (time.monotonic() - start), memory[1]


def measure(name, target, arguments):
    cpus = sorted(os.sched_getaffinity(0))
    with tempfile.NamedTemporaryFile() as shared:
        shared.write(bytes(4096))
        shared.flush()
        memory = memoryview(mmap.mmap(shared.fileno(), 4096)).cast('Q')
        environment = dict(os.environ, LD_PRELOAD=arguments.salloc, PYTHONMALLOC='malloc')
        process = subprocess.Popen(target + [shared.name], env=environment)
        os.sched_setaffinity(process.pid, cpus[:1])
        os.sched_setaffinity(0, cpus[1:] or cpus)
        reading = [os.path.abspath(arguments.tool)] + arguments.reading.split() + [str(process.pid)]
        try:
            time.sleep(3)
            ratios, pauses = [], ([], [])
            for pair in range(arguments.pairs):
                rates = [0, 0]
                for watched in (pair % 2, 1 - pair % 2):
                    rates[watched], pause = window(memory, arguments.seconds, reading if watched else None)
                    pauses[watched].append(pause / 1e6)
                ratios.append(rates[1] / rates[0])
        finally:
            process.kill()
            process.wait()
        print('%-8s %-20s throughput %.4f (%.4f to %.4f); longest pause: %.2f ms, %.2f without'
              % (name, arguments.reading, *interval(ratios), statistics.median(pauses[1]),
                 statistics.median(pauses[0])), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--salloc', required=True)
    parser.add_argument('--tool', required=True)
    parser.add_argument('--program')
    parser.add_argument('--pairs', type=int, default=40)
    parser.add_argument('--seconds', type=int, default=2)
    parser.add_argument('--reading', default='profile')
    arguments = parser.parse_args()
    arguments.salloc = os.path.abspath(arguments.salloc)
    if arguments.program:
        measure('C', [os.path.abspath(arguments.program)], arguments)
    measure('python3', [sys.executable, '-c', PYTHON], arguments)


if __name__ == '__main__':
    main()
