#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sallocctl where memory is short: it takes a quarter of what is left, or says that this is too little.

usage: limited.py LIBRARY SALLOCCTL WIDE CASE
The target is a heap of a shape (wide.c), half of it lost. What leaves little is a memory cgroup, of the target, too, or of
the command alone, or the group above it, or a resource limit. Groups are tested where this process may make them.
"""
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

SKIPPED = 77
MIB = 1 << 20
# Resident memory that is no part of a budget: code, stack, what the loader writes to, and mapped files, which are the most
# where elfutils looks for lines.
OWN = 12 * MIB
FILES = 24 * MIB


class Group:
    """A memory cgroup of version 1 or 2."""

    def __init__(self, name, above=None):
        if above:
            self.two, parent = above.two, above.folder
        else:
            self.two = 'memory' in read('/sys/fs/cgroup/cgroup.controllers').split()
            lines = [line.split(':', 2) for line in read('/proc/self/cgroup').splitlines()]
            own = [path for _, kinds, path in lines if ('' if self.two else 'memory') in kinds.split(',')]
            if not own:
                raise OSError('no memory cgroup')
            parent = '/sys/fs/cgroup' + ('' if self.two else '/memory') + own[0].rstrip('/')
        self.folder = os.path.join(parent, name)
        if self.two:
            write(parent + '/cgroup.subtree_control', '+memory')
        os.mkdir(self.folder)
        self.used()

    def used(self):
        return int(read(self.folder + ('/memory.current' if self.two else '/memory.usage_in_bytes')))

    def limit(self, more):
        """Leaves so many bytes."""
        for _ in range(2):  # the kernel may first take back what it can
            bytes_ = -(-(self.used() + more) // 4096) * 4096
            write(self.folder + ('/memory.max' if self.two else '/memory.limit_in_bytes'), str(bytes_))

    def kills(self):
        text = read(self.folder + ('/memory.events' if self.two else '/memory.oom_control'))
        found = re.search(r'oom_kill (\d+)', text)
        return int(found.group(1)) if found else 0

    def enter(self):
        write(self.folder + '/cgroup.procs', str(os.getpid()))

    def end(self):
        for _ in range(100):
            try:
                return os.rmdir(self.folder)
            except OSError:
                time.sleep(0.05)


def read(path):
    try:
        with open(path) as f:
            return f.read()
    except FileNotFoundError:
        return ''


def write(path, text):
    with open(path, 'w') as f:
        f.write(text)


class Test:
    def __init__(self, library, tool, wide, folder):
        self.library, self.tool, self.wide, self.folder = library, tool, wide, folder
        self.processes = []

    def start(self, *arguments, before=None):
        env = dict(os.environ, LD_PRELOAD=self.library, SALLOC_CONF='sample_interval:64k')
        p = subprocess.Popen([self.wide, *map(str, arguments)], env=env, stdout=subprocess.PIPE, preexec_fn=before)
        self.processes.append(p)
        assert p.stdout.readline() == b'ready\n'
        return p.pid

    def run(self, *arguments, before=None):
        """(exit code, stdout, stderr, most resident bytes)"""
        out, err = (open(os.path.join(self.folder, name), 'w+') for name in ('out', 'err'))
        p = subprocess.Popen([self.tool, *map(str, arguments)], stdout=out, stderr=err, cwd=self.folder, preexec_fn=before)
        timer = time.monotonic() + 100
        while True:
            pid, status, usage = os.wait4(p.pid, os.WNOHANG)
            if pid:
                break
            assert time.monotonic() < timer, arguments
            time.sleep(0.005)
        p.returncode = 0
        texts = []
        for f in (out, err):
            f.seek(0)
            texts.append(f.read())
            f.close()
        assert os.WIFEXITED(status), (arguments, status, texts)
        return (os.WEXITSTATUS(status), *texts, usage.ru_maxrss * 1024)

    def end(self):
        for p in self.processes:
            p.kill()
            p.wait()


def state(pid):
    return read('/proc/%d/stat' % pid).rsplit(')', 1)[1].split()[0]


def found(text):
    """What leaks has found, without the time."""
    return re.sub(r'the process was stopped for .*', '', text)


def shapes(test):
    """Whatever the shape, what is found with little memory is what is found with much."""
    size = smallest(test, resource.RLIMIT_DATA)
    for shape, length in (('list', 64), ('table', 64), ('table', 3000), ('shuffled', 200)):
        pid = test.start(shape, 24, length)
        code, whole, _, _ = test.run('leaks', pid)
        assert code == 0 and re.search(r' [1-9]\d* of them lost', whole), (shape, whole)
        for megabytes in (24, 40):
            before = bound(resource.RLIMIT_DATA, size + megabytes * MIB)
            code, out, err, most = test.run('leaks', pid, before=before)
            assert code == 0 and found(out) == found(whole), (shape, length, megabytes, out, err, whole)
            assert most < OWN + megabytes * MIB / 4, (shape, megabytes, most)
        test.processes[-1].kill()


def bound(which, bytes_):
    return lambda: resource.setrlimit(which, (bytes_, bytes_))


def commands(pid):
    return [('leaks', pid), ('report', pid), ('profile', '-o', 'x.pb.gz', pid), ('flame', '-o', 'x.html', pid),
            ('stats', pid), ('top', '--batch', '-n', 1, pid), ('ps',), ('leaks', '-o', 'l.txt', pid),
            ('profile', '-t', 'peak', '-o', 'p.txt', pid), ('diff', '--seconds', '0.1', pid)]


def limits(test):
    """By any limit, no command ends by a signal, and each says what it lacks. A program that is run has the limits that
    the command was given."""
    for arguments in ([], ['--html', 'run.html']):
        code, out, _, _ = test.run('run', '--library', test.library, *arguments, '--', 'sh', '-c', 'ulimit -d')
        assert (code, out) == (0, 'unlimited\n'), (arguments, code, out)
    pid = test.start('table', 64, 64)
    for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        size = smallest(test, which)
        for more in (1, 12, 60):
            bytes_ = more * MIB + size
            for command in commands(pid):
                code, out, err, _ = test.run(*command, before=bound(which, bytes_))
                assert code in (0, 1), (command, more, code, err)
                assert code == 0 or 'no memory' in err or 'Cannot allocate memory' in err, (command, more, err)
                if code and command[0] == 'leaks':
                    assert 'a quarter of what ulimit' in err, err
            assert state(pid) == 'S', (which, more)


def smallest(test, which):
    """The least limit with which the command starts."""
    low, high = 0, 400
    while high - low > 1:
        middle = (low + high) // 2
        result = subprocess.run([test.tool, '--version'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                preexec_fn=bound(which, middle * MIB))
        low, high = (low, middle) if result.returncode == 0 else (middle, high)
    return high * MIB


def shared(test):
    """In the group of its target, and with the limit on the group above."""
    above = Group('salloc.test.%d' % os.getpid())
    group = Group('inner', above)
    try:
        for limited in (group, above):
            pid = test.start('table', 120, 256, before=group.enter)
            for more in (64 * MIB, 40 * MIB):
                limited.limit(more)
                for command in commands(pid):
                    code, _, err, most = test.run(*command, before=group.enter)
                    assert code == 0 or 'no memory' in err, (command, err)
                    assert command[0] != 'leaks' or code == 0, err
                    assert most < (OWN if command[0] == 'leaks' else FILES) + more / 4, (command, most, more)
                assert state(pid) == 'S' and limited.kills() == 0
            test.processes[-1].kill()
            test.processes[-1].wait()
            limited.limit(1 << 40)
    finally:
        test.end()
        group.end()
        above.end()


def ask(path, page):
    """The status of an answer of the server."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(path)
        s.sendall(('GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' % page).encode())
        answer = b''
        while True:
            more = s.recv(1 << 16)
            if not more:
                return int(answer.split(b' ', 2)[1])
            answer = answer[:64] + more if len(answer) > 64 else answer + more


def serve(test):
    """Many answers at once, in the group of the target, take a quarter of what it leaves, and no more."""
    group = Group('salloc.test.%d' % os.getpid())
    try:
        pid = test.start('table', 120, 256, before=group.enter)
        path = os.path.join(test.folder, 'socket')
        server = subprocess.Popen([test.tool, 'serve', '--listen', path], preexec_fn=group.enter,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        test.processes.append(server)
        for _ in range(200):
            if os.path.exists(path):
                break
            time.sleep(0.02)
        group.limit(64 * MIB)
        with ThreadPoolExecutor(12) as pool:
            pages = ['/flame?pid=%d' % pid, '/metrics/all', '/debug/pprof/heap?pid=%d' % pid, '/stats?pid=%d' % pid] * 6
            codes = list(pool.map(lambda page: ask(path, page), pages))
        assert group.kills() == 0 and state(pid) == 'S' and server.poll() is None, codes
        assert set(codes) <= {200, 500, 503} and codes.count(200) >= 6, codes
    finally:
        test.end()
        group.end()


def alone(test):
    """In a group of its own that leaves too little, leaks says so and stops nothing."""
    pid = test.start('table', 300, 64)
    stopped = wakes(pid)
    for megabytes, fine in ((8, False), (16, False), (120, True)):
        group = Group('salloc.test.%d' % os.getpid())
        try:
            group.limit(megabytes * MIB)
            code, out, err, _ = test.run('leaks', pid, before=group.enter)
            assert group.kills() == 0
        finally:
            group.end()
        if fine:
            assert code == 0 and 'lost' in out, err
        else:
            assert code == 1 and ('is not stopped, as there is no memory' in err or 'no memory' in err), err
            assert 'a quarter of what the memory cgroup (limit' in err, err
            assert wakes(pid) == stopped, 'it was stopped'


def wakes(pid):
    """How often a process that sleeps has been woken: stopping it does so. What it says of itself comes before it sleeps."""
    while state(pid) != 'S':
        time.sleep(0.01)
    return re.search(r'\nvoluntary_ctxt_switches:\s+(\d+)', read('/proc/%d/status' % pid)).group(1)


def main():
    case = sys.argv[4]
    with tempfile.TemporaryDirectory() as folder:
        test = Test(*map(os.path.abspath, sys.argv[1:4]), folder)
        try:
            if case in ('shared', 'alone', 'serve'):
                try:
                    Group('salloc.probe.%d' % os.getpid()).end()
                except OSError as e:
                    print('skipped: memory cgroups cannot be made here: %s' % e)
                    sys.exit(SKIPPED)
            {'shapes': shapes, 'limits': limits, 'shared': shared, 'alone': alone, 'serve': serve}[case](test)
        finally:
            test.end()


signal.alarm(280)
main()
