#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program under salloc and every allocator found on the machine, and compares what it takes.

    perf/program.py [options] -- PROGRAM [ARGUMENT...]

The allocators take turns, in a random order in each round. Shown are medians over the rounds: processor time of the
program and of what it started (user and kernel), the time until it ended, peak memory (of the largest of its processes;
a child of this script has at least the 16 MiB of python), page faults; and the median, over the rounds, of its processor time under each allocator by that under salloc: above 1,
salloc is faster. What the program prints is dropped. doc/perf.md says how to read the result. Exit status: 0, or 1
if the program failed under one of the allocators.
"""

import argparse
import os
import random
import subprocess
import sys
import time

from allocators import Allocator, find_allocators
from tables import median, quartiles

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Run:
    """What one run took: seconds and KiB."""

    def __init__(self, wall, usage):
        self.wall = wall
        self.user = usage.ru_utime
        self.system = usage.ru_stime
        self.cpu = usage.ru_utime + usage.ru_stime
        self.peak = usage.ru_maxrss
        self.faults = usage.ru_minflt


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0],
                                usage="%(prog)s [options] -- PROGRAM [ARGUMENT...]")
    p.add_argument("--salloc", metavar="PATH", default=os.path.join(ROOT, "build", "libsalloc.so"),
                   help="the library (default: that of the folder build)")
    p.add_argument("--conf", metavar="NAME=OPTIONS", action="append", default=[],
                   help="salloc with these options (SALLOC_CONF) besides")
    p.add_argument("--also", metavar="NAME=PATH", action="append", default=[], help="another library besides")
    p.add_argument("--rounds", type=int, default=7, help="rounds (default 7)")
    p.add_argument("program", nargs="+", help=argparse.SUPPRESS)
    return p.parse_args()


def contestants(args):
    """[(allocator, environment)]"""
    found = []
    for allocator in find_allocators(os.path.abspath(args.salloc))[0]:
        found.append((allocator, {}))
    for text in args.conf:
        name, _, conf = text.partition("=")
        found.append((Allocator(name, found[0][0].path, ""), {"SALLOC_CONF": conf}))
    for text in args.also:
        name, _, path = text.partition("=")
        found.append((Allocator(name, os.path.abspath(path), ""), {}))
    return found


def run(program, allocator, variables):
    """A Run, or None if the program failed."""
    env = dict(os.environ, **variables)
    if allocator.path:
        env["LD_PRELOAD"] = allocator.path
    start = time.monotonic()
    try:
        with subprocess.Popen(program, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
    except OSError as error:
        sys.exit("%s: %s" % (program[0], error.strerror))
    if process.returncode != 0:
        print("under %s it ended with %d" % (allocator.name, process.returncode), file=sys.stderr)
        return None
    return Run(time.monotonic() - start, usage)


def main():
    args = options()
    who = contestants(args)
    runs = {allocator.name: [] for allocator, _ in who}
    failed = False

    if not os.path.exists(args.salloc):
        sys.exit("no %s: build it first, or name it with --salloc" % args.salloc)
    for _ in range(args.rounds):
        for allocator, variables in random.sample(who, len(who)):
            done = run(args.program, allocator, variables)
            failed |= done is None
            runs[allocator.name].append(done)
    print("%-12s %9s %9s %9s %9s %9s %11s   %s" % ("", "CPU s", "user s", "kernel s", "elapsed s", "peak MiB",
                                                   "page faults", "CPU / salloc (middle half)"))
    for allocator, _ in who:
        mine = [r for r in runs[allocator.name] if r]
        ratios = [r.cpu / s.cpu for r, s in zip(runs[allocator.name], runs["salloc"]) if r and s and s.cpu]
        if not mine or not ratios:
            print("%-12s failed" % allocator.name)
            continue
        print("%-12s %9.3f %9.3f %9.3f %9.3f %9.1f %11.0f   %.3f (%.3f-%.3f)" % (
            allocator.name, median([r.cpu for r in mine]), median([r.user for r in mine]),
            median([r.system for r in mine]), median([r.wall for r in mine]),
            median([r.peak for r in mine]) / 1024, median([r.faults for r in mine]), median(ratios),
            *quartiles(ratios)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
