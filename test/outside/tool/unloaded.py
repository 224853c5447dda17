#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Blocks of a plugin that was unloaded have its name, never that of the one that is at its place now.

usage: unloaded.py LIBRARY SALLOCCTL WORKER STATIC-WORKER UNLOADED ALPHA BETA CASE
Of each case: the process's own profile, one from outside, the report, the leaks, a comparison, and a core.
"""
import os
import re
import shutil
import sys

from profile import Worker, functions, in_use, run_case

BLOCKS = 200


def check(found, expect, what):
    gone = {name for name in found if name.startswith('[unloaded ')}
    named = {re.sub(r'\[unloaded (.*)\+0x[0-9a-f]+\]', r'\1', name) for name in gone}
    assert named == expect['gone'], (what, found)
    for name in ('alpha_allocates', 'beta_allocates'):
        assert (name in found) == (name in expect['here']), (what, name, found)


def run(test, mode, gone, here):
    expect = {'gone': set(gone), 'here': set(here)}
    worker = Worker(test, [test.unloaded, test.alpha, test.beta, mode], interval=4096,
                    conf=',' + os.environ.get('UNLOADED_CONF', ''))
    pid = str(worker.pid)
    own, outside = worker.own_profile(), test.outside(worker.pid)
    for profile in own, outside:
        check(functions(profile), expect, mode)
    assert in_use(own) == in_use(outside)
    first, second = os.path.join(test.folder, 'a.pb.gz'), os.path.join(test.folder, 'b.pb.gz')
    for path in first, second:
        test.run('profile', '-o', path, pid)
    diff = test.run('diff', first, second).stdout
    assert 'alpha_allocates' not in diff or 'alpha_allocates' in here, diff
    report = test.run('report', '--by', 'stack', pid).stdout
    check({line.split('  ')[0] for line in map(str.strip, report.splitlines())}, expect, 'report')
    test.run('leaks', pid)
    if shutil.which('gcore'):
        check(functions(test.outside(test.core(worker.pid))), expect, 'core')
    worker.end()


def case_gone(test):
    run(test, 'gone', ['libunloaded_alpha.so'], [])


def case_replaced(test):
    run(test, 'replaced', ['libunloaded_alpha.so'], ['beta_allocates'])


def case_again(test):
    run(test, 'again', ['libunloaded_alpha.so'], ['alpha_allocates'])


def case_library(test):
    run(test, 'library', ['libunloaded_alpha.so', 'libunloaded_beta.so'], [])


if __name__ == '__main__':
    run_case(globals(), sys.argv[-1], *sys.argv[1:5], unloaded=os.path.abspath(sys.argv[5]),
             alpha=os.path.abspath(sys.argv[6]), beta=os.path.abspath(sys.argv[7]))
