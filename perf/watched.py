#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs a process to be looked at by sallocctl: its throughput, and its longest pause.

usage: watched.py --salloc LIBRARY --tool SALLOCCTL [--program salloc-watched] [--pairs N] [--seconds N]
                  [--reading WORDS]

The process has one CPU for itself, and sallocctl another. Three kinds of windows take turns: with a reading each second,
without any, and with readings of another process, which is stopped. The last shows what the machine does when its other
CPU has work, as CPUs of a virtual machine may share a core. Printed are the median over pairs of windows of the ratio of throughputs, with the interval of its 95 % (order
statistics, so whatever the distribution is), and the median of the longest pause of each window.
"""
import argparse
import math
import mmap
import os
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

PYTHON = '''
import gc, mmap, os, sys, time
gc.disable()
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
    environment = dict(os.environ, LD_PRELOAD=arguments.salloc, PYTHONMALLOC='malloc')
    with tempfile.NamedTemporaryFile() as shared, tempfile.NamedTemporaryFile() as unused:
        for file in (shared, unused):
            file.write(bytes(4096))
            file.flush()
        memory = memoryview(mmap.mmap(shared.fileno(), 4096)).cast('Q')
        processes = [subprocess.Popen(target + [file.name], env=environment) for file in (shared, unused)]
        os.sched_setaffinity(processes[0].pid, cpus[:1])
        os.sched_setaffinity(0, cpus[1:] or cpus)
        words = [os.path.abspath(arguments.tool)] + arguments.reading.split()
        commands = [None] + [words + [str(process.pid)] for process in reversed(processes)]
        try:
            time.sleep(3)
            processes[1].send_signal(signal.SIGSTOP)
            rates, pauses = ([], [], []), ([], [], [])
            for turn in range(arguments.pairs):
                for i in (turn % 3, (turn + 1) % 3, (turn + 2) % 3):
                    rate, pause = window(memory, arguments.seconds, commands[i])
                    rates[i].append(rate)
                    pauses[i].append(pause / 1e6)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        for other, what in ((0, 'nothing'), (1, 'another process')):
            ratios = [mine / theirs for mine, theirs in zip(rates[2], rates[other])]
            print('%-8s %s, against %s read: throughput %.4f (%.4f to %.4f); longest pause: %.2f ms, %.2f ms'
                  % (name, arguments.reading, what, *interval(ratios), statistics.median(pauses[2]),
                     statistics.median(pauses[other])), flush=True)


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
