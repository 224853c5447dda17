#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs a process to be looked at by sallocctl: its throughput, and its longest pause.

usage: watched.py --salloc LIBRARY --tool SALLOCCTL [--program salloc-watched] [--turns N] [--reading WORDS]

The process has one CPU for itself, and sallocctl another. Three kinds of seconds take turns: one begins with a reading of
the process, one with a reading of another process, which is stopped, and one with a sleep of the same length. The second
kind shows what the machine does when its other CPU has work, as CPUs of a virtual machine may share a core.

The work that the process did during the reading is compared with what it did in the rest of that second, at the same
speed of the machine. What is missing is the part of the throughput that a reading each second costs: a reading of 20 ms
cannot cost more than 2 %, and noise of 5 % of its speed is 0.1 % of a second. Work is counted per time, and per CPU time
of the process: then what other programs take from its CPU does not count. Printed are means over the seconds of a kind,
with 95 % intervals (normal), and the median of the longest pause of each second.
"""
import argparse
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


def mean(values):
    """The mean, and the half width of its 95 % interval."""
    return statistics.mean(values), 1.96 * statistics.stdev(values) / len(values) ** 0.5


def second(pid, memory, action):
    """What part of a second's work the action at its beginning took, by time and by CPU time; the longest pause in ms; and
    how long the action took."""
    def now():
        with open('/proc/%d/schedstat' % pid) as file:
            return time.monotonic(), int(file.read().split()[0]) / 1e9, memory[0]

    memory[1] = 0
    start = now()
    action()
    after = now()
    time.sleep(max(0.5, start[0] + 1 - time.monotonic()))
    end = now()
    first, rest = ([y - x for x, y in zip(*ends)] for ends in ((start, after), (after, end)))
    return [first[i] - first[2] * rest[i] / rest[2] for i in (0, 1)] + [memory[1] / 1e6, first[0]]


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

        def read(process):
            subprocess.run(words + [str(process.pid)], stdout=subprocess.DEVNULL, check=True)

        kinds = {'it': [], 'another process': [], 'nothing': []}
        try:
            time.sleep(3)
            processes[1].send_signal(signal.SIGSTOP)
            for _ in range(arguments.turns):
                kinds['it'].append(second(processes[0].pid, memory, lambda: read(processes[0])))
                kinds['another process'].append(second(processes[0].pid, memory, lambda: read(processes[1])))
                kinds['nothing'].append(second(processes[0].pid, memory, lambda: time.sleep(kinds['it'][-1][3])))
        finally:
            for process in processes:
                process.kill()
                process.wait()
        for what, found in kinds.items():
            by_time, by_cpu, pause, took = zip(*found)
            print('%-8s %s of %-16s takes %3.0f ms; costs by time %6.3f %% +- %.3f, by CPU time %6.3f %% +- %.3f; longest pause %.2f ms'
                  % (name, arguments.reading, what + ':', 1000 * statistics.median(took),
                     *(100 * x for lost in (by_time, by_cpu) for x in mean(lost)), statistics.median(pause)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--salloc', required=True)
    parser.add_argument('--tool', required=True)
    parser.add_argument('--program')
    parser.add_argument('--turns', type=int, default=100)
    parser.add_argument('--reading', default='profile')
    arguments = parser.parse_args()
    arguments.salloc = os.path.abspath(arguments.salloc)
    if arguments.program:
        measure('C', [os.path.abspath(arguments.program)], arguments)
    measure('python3', [sys.executable, '-c', PYTHON], arguments)


if __name__ == '__main__':
    main()
