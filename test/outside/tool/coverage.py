#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The 95 % interval of a profile from outside holds what is in use, as often as it says, over 204 real processes.

None is prepared beyond the preload. What is in use is exact in the process's counters ('sallocctl stats'). Stopped: both
are read of the same state. Running: programs allocate and free meanwhile, at full load; the counters are read before,
after, and again and again in between, and the interval must reach the range of these. How many intervals may miss: an
exact binomial test at 0.001, so the test fails by chance in one of 1000 runs. Of the records that are read, 0.1 % may be dropped.

usage: coverage.py LIBRARY SALLOCCTL stopped|running [PROCESSES]
"""
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

RISK = 0.001

PYTHON = '''
import random, sys
r = random.Random({seed})
keep = [None] * r.randrange(2000, 20000)
most = r.choice([100, 1000, 8000])
while True:
    for _ in range(20000):
        n = r.randrange(1, most)
        keep[r.randrange(len(keep))] = bytes(n) if n % 2 else [None] * (n // 8)
    sys.stdout.write('round\\n'); sys.stdout.flush()
'''
PERL = '''
srand({seed}); $| = 1;
my @keep; my $most = (100, 1000, 8000)[int(rand(3))]; my $count = 2000 + int(rand(18000));
while (1) {{
    for (1 .. 20000) {{ $keep[int(rand($count))] = 'x' x int(rand($most)); }}
    print "round\\n";
}}
'''
NODE = '''
let state = {seed} * 7919 + 1;
const below = (n) => {{ state = (Math.imul(state, 1103515245) + 12345) >>> 0; return Math.floor(state / 4294967296 * n); }};
const most = [100, 1000, 8000][below(3)], keep = new Array(2000 + below(8000));
for (;;) {{
    for (let i = 0; i < 5000; i++) keep[below(keep.length)] = Buffer.allocUnsafeSlow(1 + below(most));
    require('fs').writeSync(1, 'round\\n');
}}
'''
SQL = 'create table t(k integer primary key, v blob);\n'
SQL_ROUND = '''insert or replace into t select abs(random()) % {rows}, randomblob(abs(random()) % {most})
from (with recursive c(x) as (select 1 union all select x + 1 from c where x < 3000) select x from c);
select 'round';
'''


def at_most(k, n, p):
    """P(at most k of n)"""
    return sum(math.comb(n, i) * p ** i * (1 - p) ** (n - i) for i in range(k + 1))


def program(number):
    """(command, what goes to its stdin)"""
    seed, kind = number // 4, number % 4
    if kind == 0:
        return ['/usr/bin/python3', '-c', PYTHON.format(seed=seed)], b''
    if kind == 1:
        return ['perl', '-e', PERL.format(seed=seed)], b''
    if kind == 2:
        return ['node', '-e', NODE.format(seed=seed)], b''
    text = SQL_ROUND.format(rows=2000 + 997 * seed % 8000, most=[100, 1000, 8000][seed % 3])
    return ['sqlite3', ':memory:'], (SQL + 2000 * text).encode()


def start(number):
    """Runs until the program has filled what it keeps: some rounds."""
    command, text = program(number)
    env = dict(os.environ, LD_PRELOAD=LIBRARY, PYTHONMALLOC='malloc')
    if number // 4 % 2:
        env['SALLOC_CONF'] = 'sample_interval:256k'
    with tempfile.TemporaryFile() as file:
        file.write(text)
        file.seek(0)
        process = subprocess.Popen(command, env=env, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for _ in range(3 + number % 3):
        if b'round' not in process.stdout.readline():
            sys.exit('%s: %s' % (command[0], process.stderr.read()))
    return process


def run(*arguments):
    return subprocess.run([TOOL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True, universal_newlines=True)


def in_use(pid):
    return json.loads(run('stats', '--json', str(pid)).stdout)['gauges']['allocated_bytes']


class Range:
    """What is in use from before a reading until after it: a garbage collection may come and go in between."""

    def __init__(self, pid):
        self.pid, self.seen, self.over = pid, [in_use(pid)], threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.over.is_set():
            self.seen.append(in_use(self.pid))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.seen.append(in_use(self.pid))


def drain(process):
    """So that it does not wait for a reader."""
    return subprocess.Popen(['cat'], stdin=process.stdout, stdout=subprocess.DEVNULL)


def read_one(number, running):
    """(interval holds, samples, records dropped, what to print)"""
    process = start(number)
    reader = drain(process)
    try:
        if not running:
            os.kill(process.pid, signal.SIGSTOP)
        time.sleep(0.05)
        with Range(process.pid) as true:
            result = run('report', '--by', 'function', '-n', '1', str(process.pid))
    finally:
        process.kill()
        process.wait()
        reader.wait()
    low, high = map(int, re.search(r'^exactly: \d+ bytes \((\d+) to (\d+)\)', result.stdout, re.M).groups())
    samples = int(re.search(r'from (\d+) samples?$', result.stdout.splitlines()[0]).group(1))
    dropped = re.search(r'(\d+) [a-z ]*left out', result.stderr)
    least, most = min(true.seen), max(true.seen)
    assert running or least == most
    holds = low <= most and high >= least
    return holds, samples, int(dropped.group(1)) if dropped else 0, '%s: %d to %d, in use %d to %d%s' % (
        process.args[0], low, high, least, most, result.stderr and ': ' + result.stderr.strip())


def main(running, processes):
    held = samples = dropped = 0
    for number in range(processes):
        holds, read, left_out, text = read_one(number, running)
        held, samples, dropped = held + holds, samples + read, dropped + left_out
        if not holds:
            print(number, text, flush=True)
    print('%d of %d intervals hold, %d samples, %d dropped' % (held, processes, samples, dropped))
    assert at_most(held, processes, 0.95) > RISK, 'too few intervals hold'
    assert dropped <= samples / 1000


if __name__ == '__main__':
    LIBRARY, TOOL = sys.argv[1:3]
    main(sys.argv[3] == 'running', int(sys.argv[4]) if len(sys.argv) > 4 else 204)
