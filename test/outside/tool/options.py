#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sallocctl set and get: options of a running process, over its control socket.

usage: options.py LIBRARY SALLOCCTL WORKER STATIC-WORKER CASE
"""
import os
import shutil
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from profile import Worker, run_case  # noqa: E402  # pylint: disable=wrong-import-order


def start_time(pid):
    with open('/proc/%d/stat' % pid, encoding='ascii') as f:
        return int(f.read().rsplit(')', 1)[1].split()[19])


def case_set(test):
    """What is set is in effect; the first that cannot be set ends the command, and is named."""
    worker = Worker(test, [test.worker, 'still'], conf=',control:on')
    pid = str(worker.pid)
    assert test.run('get', pid, 'sample_interval', 'soft_limit').stdout == 'sample_interval:16k\nsoft_limit:0\n'
    result = test.run('set', pid, 'sample_interval:64k', 'soft_limit=1g')
    assert (result.stdout, result.stderr) == ('', '')
    assert test.run('get', pid, 'sample_interval', 'soft_limit').stdout == 'sample_interval:64k\nsoft_limit:1g\n'
    result = test.run('set', pid, 'sample_interval:128k', 'per_cpu:off', 'soft_limit:2g', code=1)
    assert 'per_cpu: process %s: the option cannot change' % pid in result.stderr
    assert test.run('get', pid, 'sample_interval', 'soft_limit').stdout == 'sample_interval:128k\nsoft_limit:1g\n'
    assert 'soft_limit' in test.run('set', pid, 'soft_limit:many', code=1).stderr
    assert 'nonsense' in test.run('get', pid, 'nonsense', code=1).stderr
    assert 'KEY:VALUE' in test.run('set', pid, 'soft_limit', code=2).stderr
    assert 'more than a line' in test.run('set', pid, 'soft_limit:1g\nset per_cpu off', code=2).stderr


def case_none(test):
    """A process without a socket, none at all, and one whose name another process has taken."""
    worker = Worker(test, [test.worker, 'still'])
    assert 'control:on gives it one' in test.run('get', str(worker.pid), 'soft_limit', code=1).stderr
    assert 'no process 4194305' in test.run('get', '4194305', 'soft_limit', code=3).stderr
    with socket.socket(socket.AF_UNIX) as taken:
        taken.bind('\0salloc.%d.%d' % (worker.pid, start_time(worker.pid)))
        taken.listen()
        assert 'another process has taken' in test.run('get', str(worker.pid), 'soft_limit', code=4).stderr


def case_numbers(test):
    """A number that can be no PID is not cut to one."""
    worker = Worker(test, [test.worker, 'still'], conf=',control:on')
    commands = [['get', None, 'soft_limit'], ['set', None, 'soft_limit:0'], ['report', None], ['leaks', None],
                ['top', '--batch', '-n', '1', None], ['diff', '--seconds', '0.01', None],
                ['flame', '--every', '0.01', '--for', '0.01', '-o', os.path.join(test.folder, 'page.html'), None]]
    for command in commands:
        for number in [2 ** 32 + worker.pid, 2 ** 64 + worker.pid, 2 ** 31, 0]:
            result = test.run(*[str(number) if word is None else word for word in command], code=3)
            assert '%d: there is no such process' % number in result.stderr, (command, result.stderr)
    test.run('get', '00%d' % worker.pid, 'soft_limit')


def case_namespaces(test):
    """A process in PID and network namespaces of its own."""
    if os.getuid() or not shutil.which('unshare'):
        print('needs root and unshare')
        return
    env = dict(os.environ, LD_PRELOAD=test.library, SALLOC_CONF='control:on')
    outer = subprocess.Popen(['unshare', '--pid', '--net', '--fork', '--mount-proc', '--propagation', 'unchanged', test.worker, 'still'], env=env,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert b'ready' in outer.stdout.readline()
        inner = subprocess.run(['pgrep', '-P', str(outer.pid)], stdout=subprocess.PIPE, check=True).stdout.split()[0].decode()
        time.sleep(0.2)
        test.run('set', inner, 'soft_limit:3g')
        assert test.run('get', inner, 'soft_limit').stdout == 'soft_limit:3g\n'
    finally:
        subprocess.run(['pkill', '-P', str(outer.pid)], check=False)
        outer.kill()
        outer.wait()


if __name__ == '__main__':
    run_case(globals(), sys.argv[-1], *sys.argv[1:-1])
