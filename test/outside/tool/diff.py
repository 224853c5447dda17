#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sallocctl diff: of two profiles, and of a process within seconds.

usage: diff.py LIBRARY SALLOCCTL WORKER STATIC-WORKER CHURN CASE
Bounds of cases that chance can fail are exact: they fail with a probability of 0.001 at most if the command is right.
"""
import math
import os
import pty
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from files import at_exit  # noqa: E402  # pylint: disable=wrong-import-position
from profile import Profile, Worker, run_case  # noqa: E402  # pylint: disable=wrong-import-order

RISK = 0.001
FOUND = '  within chance:'


def at_most(k, n, p):
    """P(at most k of n)"""
    return sum(math.comb(n, i) * p ** i * (1 - p) ** (n - i) for i in range(k + 1))


def tables(text):
    return {t.splitlines()[0]: t.splitlines()[2:] for t in text.split('\n\n')[1:]}


def numbers(line, columns):
    """The numbers that a row begins with, and its name."""
    number = r'([+-]?[\d.]+(?: [KMGT]?i?B)?|-)'
    return re.match(r'\s*' + r'\s+'.join([number] * columns) + r'\s+(.*)', line).groups()


def significant(text):
    """Rows of all tables that are called changes: [(function, change)]."""
    rows = []
    for table in tables(text).values():
        for line in table[:table.index(FOUND) if FOUND in table else len(table)]:
            if re.match(r'\s*[\d.]+( [KMGT]?i?B)? ', line) and not line.startswith('    '):
                rows.append(line)
    return rows


def profile(test, worker, name):
    path = os.path.join(test.folder, name)
    test.run('profile', '-o', path, str(worker.pid))
    return path


def ask(worker, what):
    worker.process.stdin.write(what + b'\n')
    worker.process.stdin.flush()
    assert worker.process.stdout.readline() == b'ready\n'


def churn(test, seed, interval):
    return Worker(test, [test.churn, str(seed)], interval=interval)


def case_sums(test):
    """Before and after are what `report` says of each file, to the byte in all and by row."""
    worker = churn(test, 1, 16384)
    before = profile(test, worker, 'a.pb.gz')
    ask(worker, b'grow')
    after = profile(test, worker, 'b.pb.gz')
    for metric in ('inuse_space', 'inuse_objects', 'alloc_space', 'alloc_objects', 'resident_space'):
        text = test.run('diff', '-m', metric, '-n', '0', before, after).stdout
        found = re.search(r'^exactly: ([+-]\d+) (?:bytes|blocks)(?: \(.*\))?, from (\d+) to (\d+)$', text, re.M).groups()
        totals = [Profile(p).totals()[metric] for p in (before, after)]
        assert list(map(int, found)) == [totals[1] - totals[0], *totals], (found, totals)
        ours = tables(text)
        assert len(ours) >= 5, text
        for column, path in enumerate((before, after)):
            for title, lines in tables(test.run('report', '-m', metric, '-n', '0', path).stdout).items():
                if title.startswith('stack'):
                    continue
                theirs = {n[4]: n[0] for n in (numbers(line.replace('%', ''), 4) for line in lines)}
                mine = {n[7]: n[column] for n in (numbers(line, 7) for line in ours[title] if line != FOUND)}
                missing = {k: v for k, v in mine.items() if k not in theirs}
                assert all(v in ('0', '0 B') for v in missing.values()), (metric, title, missing)
                assert {k: mine[k] for k in theirs} == theirs, (metric, title, mine, theirs)
    # Backwards it is the same with the other sign; a profile and itself do not differ.
    back = test.run('diff', after, before).stdout
    text = test.run('diff', before, after).stdout
    low, high = re.search(r'^exactly: \S+ bytes \((\S+) to (\S+)\)', text, re.M).groups()
    assert abs(int(low) + int(re.search(r'^exactly: .* to (\S+)\)', back, re.M).group(1))) <= 2, (low, high, back)
    same = test.run('diff', before, before).stdout
    assert not significant(same) and re.search(r'^samples: \d+ in both, 0 gone, 0 new$', same, re.M), same
    # Of other processes no sample is the same.
    other = profile(test, churn(test, 1, 16384), 'c.pb.gz')
    assert re.search(r'^samples: 0 in both', test.run('diff', before, other).stdout, re.M)
    # A file without the list of samples: as the profile of a recording.
    text = test.run('diff', '-m', 'alloc_space', before, after).stdout
    assert 'what the process has allocated' in text and FOUND not in text, text
    text = test.run('diff', '-m', 'alloc_space', before, other).stdout
    assert 'what the process has allocated' not in text and FOUND in text, text


def on_terminal(test, *arguments, **more):
    """What the command writes to a terminal."""
    ours, theirs = pty.openpty()
    env = dict(os.environ, TERM='xterm')
    env.pop('NO_COLOR', None)
    env.update(more)
    with subprocess.Popen([test.tool, 'diff', *arguments], stdout=theirs, env=env) as process:
        os.close(theirs)
        text = b''
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:
                part = b''
            if not part:
                break
            text += part
        assert process.wait() == 0
    os.close(ours)
    return text.decode()


def case_command(test):
    """Colours, two readings of a process, and what is refused by which exit code."""
    worker = churn(test, 1, 4096)
    before = profile(test, worker, 'a.pb.gz')
    for _ in range(20):
        ask(worker, b'grow')
    after = profile(test, worker, 'b.pb.gz')
    text = on_terminal(test, '-b', 'function', before, after)
    assert re.search(r'\033\[31m.*grown_function', text) and re.search(r'\033\[2m.*function_\d', text), text
    assert re.search(r'\033\[32m.*grown_function', on_terminal(test, '-b', 'function', after, before))
    for env in ({'NO_COLOR': '1'}, {'TERM': 'dumb'}):
        assert '\033' not in on_terminal(test, before, after, **env)
    assert '\033' not in test.run('diff', before, after).stdout
    for seconds in (1.5, 6, 24):  # on a busy machine it takes longer until the first reading, and to grow
        start = time.monotonic()
        with subprocess.Popen([test.tool, 'diff', '--seconds', str(seconds), '-b', 'function', str(worker.pid)],
                              stdout=subprocess.PIPE, universal_newlines=True) as process:
            time.sleep(0.45 * seconds)
            for _ in range(20):
                ask(worker, b'grow')
            text = process.communicate()[0]
            assert process.returncode == 0 and time.monotonic() - start >= seconds
        if any('grown_function' in row for row in significant(text)):
            break
    assert any('grown_function' in row for row in significant(text)), text
    assert len([line for line in tables(text)['function that called malloc'] if 'function_' in line]) == 9, text
    process = str(worker.pid)
    for arguments in ([], [before], [before, after, after], ['--seconds', '1', before], ['--seconds', '1', process, process],
                      ['--seconds', '0', process], ['--seconds', 'nan', process], ['--seconds', '1x', process], ['-x', before, after],
                      ['-b', 'nothing', before, after], ['-n', 'x', before, after], ['-m', 'nothing', before, after]):
        assert test.run('diff', *arguments, code=2).stderr, arguments
    peak = os.path.join(test.folder, 'collapsed.pb')
    test.run('profile', '-o', peak, '-t', 'peak', process)
    assert 'resident_space' in test.run('diff', '-m', 'resident_space', before, peak, code=2).stderr
    assert test.run('diff', before, '/nonexistent', code=3).stderr and test.run('diff', test.churn, after, code=7).stderr
    assert 'usage' in test.run('diff', '--help').stdout


def compare(test, runs, what, interval):
    """For each of `runs` comparisons: the rows that are called changes. Each has a program of its own."""
    result = []
    for run in range(runs):
        worker = churn(test, run + 1, interval)
        before = profile(test, worker, 'a.pb.gz')
        ask(worker, what)
        result.append(significant(test.run('diff', '-n', '0', before, profile(test, worker, 'b.pb.gz')).stdout))
        worker.end()
    return result


def case_steady(test, runs=200):
    """Where all blocks are replaced and none is more, no row is called a change in 95 % of comparisons."""
    alarms = sum(bool(rows) for rows in compare(test, runs, b'turn', 8192))
    assert not alarms or 1 - at_most(alarms - 1, runs, 0.05) >= RISK, alarms
    print(f'{alarms} of {runs}')


def case_sizes(test, runs=40):
    """Of a program that does the same twice, at intervals 64 times as long, no size is called a change in 95 % of comparisons."""
    alarms = 0
    for _ in range(runs):
        paths = [at_exit(test, '%d.pb.gz' % interval, interval) for interval in (1024, 65536)]
        text = test.run('diff', '-n', '0', *paths).stdout
        assert len(tables(text)['size of the blocks']) > 40, text
        alarms += bool(significant(text))
    assert not alarms or 1 - at_most(alarms - 1, runs, 0.05) >= RISK, alarms
    print(f'{alarms} of {runs}')


def case_planted(test, runs=60):
    """Growth by 5 % is found in 90 % of tries at the interval that doc/sampling.md recommends."""
    grown = 100000 * 64 * 0.05
    replaced = 100000 * 64 * 2 * 0.632 + grown  # of the old blocks 1/e outlive a turn
    found = [any('grown_function' in row for row in rows)
             for rows in compare(test, runs, b'grow', int(grown ** 2 / (30 * replaced)))]
    assert at_most(sum(found), runs, 0.9) >= RISK, found
    print(f'{sum(found)} of {runs}')


def main(library, tool, worker, static, churn_program, case):
    run_case(globals(), case, library, tool, worker, static, churn=os.path.abspath(churn_program))


if __name__ == '__main__':
    main(*sys.argv[1:])
