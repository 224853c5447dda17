#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes whose first thread has ended while others go on are listed and read by every command.

usage: first_thread.py LIBRARY SALLOCCTL WORKER STATIC-WORKER FIRST-THREAD CASE
"""
import json
import os
import re
import subprocess
import sys
import time

from profile import Worker, functions, run_case
from serve import Server
from top import row_of


def state(pid):
    with open('/proc/%d/stat' % pid) as f:
        return f.read().rsplit(')', 1)[1].split()[0]


def start(test, mode):
    worker = Worker(test, [test.first_thread, mode])
    if mode == 'later':
        return worker
    end = time.monotonic() + 20
    while state(worker.pid) != 'Z':
        assert time.monotonic() < end, 'the first thread of %s lives' % mode
        time.sleep(0.01)
    return worker


def read_all(test, worker):
    """Each command that takes a process."""
    pid = str(worker.pid)
    for more in [], ['--stop']:
        assert 'hold' in functions(test.outside(pid, *more)), more
    assert 'hold' in test.run('report', pid).stdout
    leaks = test.run('leaks', pid).stdout
    assert re.match(r'lost: 0 bytes', leaks), leaks
    resident = json.loads(test.run('stats', '--json', pid).stdout)['gauges']['process_resident_bytes']
    assert resident > 30 << 20, resident
    page = os.path.join(test.folder, 'page.html')
    for more in [], ['--every', '0.2', '--for', '0.5']:
        test.run('flame', *more, '-o', page, pid)
        with open(page) as f:
            assert 'hold' in f.read(), more
        os.remove(page)
    for text in test.run('ps').stdout, test.run('top', '--batch', '-n', '1').stdout:
        row = row_of(text, worker.pid)
        assert row and row[1] == 'tool_first_thre' and float(row[2]) > 30, text
    assert 'hold' in test.run('top', '--batch', '-n', '1', pid).stdout


def case_ended(test):
    for mode in 'pthread_exit', 'exit', 'relay':
        worker = start(test, mode)
        read_all(test, worker)
        worker.end()


def case_serve(test):
    worker = start(test, 'pthread_exit')
    server = Server(test)
    assert b'<td>%d</td>' % worker.pid in server.get('/')[1]
    assert b'pid="%d"' % worker.pid in server.get('/metrics')[1]
    assert b'hold' in server.get('/flame?pid=%d' % worker.pid)[1]
    server.end()
    worker.end()


def case_later(test):
    """The first thread ends while a command reads the process again and again."""
    worker = start(test, 'later')
    page = os.path.join(test.folder, 'page.html')
    flame = subprocess.Popen([test.tool, 'flame', '--every', '0.2', '--for', '3', '-o', page, str(worker.pid)])
    time.sleep(0.7)
    worker.process.stdin.write(b'x')
    worker.process.stdin.flush()
    assert flame.wait(timeout=60) == 0
    assert state(worker.pid) == 'Z'
    with open(page) as f:
        moments = f.read()
    assert 'hold' in moments
    worker.end()


if __name__ == '__main__':
    run_case(globals(), sys.argv[-1], *sys.argv[1:5], first_thread=os.path.abspath(sys.argv[5]))
