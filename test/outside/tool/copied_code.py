#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Code that a process has copied to other memory at its own addresses keeps its names, live and in a core.

usage: copied_code.py LIBRARY SALLOCCTL WORKER STATIC-WORKER COPIED-CODE COPIED-CODE-ONE
COPIED-CODE-ONE has its headers and its code in one segment. The names are those that the process itself writes.
"""
import os
import shutil
import subprocess
import sys

from profile import COUNTS, Worker, functions, rows, run_case


def read_both(test, worker, core):
    """The process as itself and from outside, and its core."""
    own, outside = worker.own_profile(), test.outside(worker.pid)
    assert rows(outside, COUNTS) == rows(own, COUNTS), (rows(outside, COUNTS), rows(own, COUNTS))
    assert {'hold', 'main'} <= functions(outside), functions(outside)
    report = test.run('report', '--by', 'stack', str(worker.pid)).stdout
    assert 'hold' in report and 'main' in report, report
    test.run('stats', str(worker.pid))
    if core and shutil.which('gcore'):
        path = test.core(worker.pid)
        assert {'hold', 'main'} <= functions(test.outside(path))
        os.remove(path)


def case_copied(test):
    for program in test.copied, test.copied_one:
        for whose, what in (('program', 'code'), ('program', 'part'), ('libraries', 'code'), ('all', 'code'),
                            ('all', 'headers'), ('program', 'memfd'), ('all', 'memfd')):
            worker = Worker(test, [program, whose, what])
            read_both(test, worker, core=whose == 'all')
            worker.end()


def case_node(test):
    """node's own way to huge pages for its code."""
    script = "let a = []; for (let i = 0; i < 200; i++) a.push(Buffer.alloc(200000, 1));" \
             "console.log('ready'); setInterval(() => {}, 1000)"
    node = shutil.which('node') or shutil.which('nodejs')
    if not node or subprocess.run([node, '--use-largepages=on', '-e', '0'], check=False, stderr=subprocess.PIPE).stderr:
        sys.exit(77)
    worker = Worker(test, [node, '--use-largepages=on', '-e', script])
    assert any(name.startswith('_ZN4node') for name in functions(test.outside(worker.pid)))
    worker.end()


if __name__ == '__main__':
    run_case(globals(), sys.argv[-1], *sys.argv[1:5], copied=os.path.abspath(sys.argv[5]),
             copied_one=os.path.abspath(sys.argv[6]))
