#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sallocctl profile of processes and cores that lie: an error, or a profile, in bounded time and memory.

usage: hostile.py LIBRARY SALLOCCTL WORKER STATIC-WORKER CASE
"""
import os
import random
import shutil
import subprocess
import sys

from profile import Worker, run_case


def case_hostile(test, rounds=80):
    """A process whose memory is changed at random before it is read (hostile.c)."""
    worker = Worker(test, [test.worker, 'still'])
    subprocess.run([os.path.join(os.path.dirname(test.worker), 'tool_hostile'), str(worker.pid), str(rounds)], check=True,
                   timeout=rounds)
    worker.end()


def case_hostile_long(test):
    case_hostile(test, 400)


def case_headers(test):
    """Cores whose headers and notes are changed at random, or that end early: an error, or a profile, in time."""
    if not shutil.which('gcore'):
        sys.exit(77)
    worker = Worker(test, [test.worker, 'still'])
    core = test.core(worker.pid)
    worker.end()
    with open(core, 'rb') as f:
        good = f.read(65536)
    chance = random.Random(7)
    codes = {}
    for i in range(100):
        data = bytearray(good)
        for _ in range(chance.choice((1, 3, 30))):
            data[chance.randrange(0, 4096 if i % 2 else len(data))] = chance.choice((0, 255, chance.randrange(256)))
        with open(core, 'r+b') as f:
            f.write(data)
            if i == 99:
                f.truncate(chance.randrange(len(data)))
        code = subprocess.run([test.tool, 'profile', '-o', os.path.join(test.folder, 'none.pb'), core],
                              stderr=subprocess.DEVNULL, check=False, timeout=30).returncode
        codes[code] = codes.get(code, 0) + 1
    print('exit codes:', codes)
    assert set(codes) <= {0, 3, 5, 6, 7} and len(codes) > 1, codes


if __name__ == '__main__':
    run_case(globals(), sys.argv[-1], *sys.argv[1:-1])
