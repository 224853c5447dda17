#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The control socket: requests and their errors, clients that are silent, hostile or many, users who may not, fork,
children that no handler of fork knows, filters of system calls, and the end of the process.

usage: control.py LIBRARY PROGRAM [VARIABLE=VALUE...]"""
import ctypes
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

LIBRARY, PROGRAM = map(os.path.abspath, sys.argv[1:3])
VARIABLES = dict(v.split('=', 1) for v in sys.argv[3:])


def names(pid):
    """The names of the process's sockets, and of those that have its descriptor only."""
    with open('/proc/net/unix', encoding='ascii', errors='replace') as f:
        return re.findall(r'@(salloc\.%d\.\d+)$' % pid, f.read(), re.M)


def cpu_seconds(pid):
    with open('/proc/%d/stat' % pid, encoding='ascii') as f:
        return sum(map(int, f.read().rsplit(')', 1)[1].split()[11:13])) / os.sysconf('SC_CLK_TCK')


class Client:
    def __init__(self, pid):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect('\0' + names(pid)[0])
        self.socket.settimeout(10)
        self.file = self.socket.makefile('rb')

    def ask(self, line):
        self.socket.sendall(line.encode() + b'\n')
        return self.file.readline().decode().strip()

    def close(self):
        self.file.close()
        self.socket.close()


class Control(unittest.TestCase):
    def start(self, what, conf='control:on,sample_interval:4k', library=LIBRARY, program=PROGRAM, **more):
        process = subprocess.Popen([program, what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={**os.environ, **VARIABLES, 'LD_PRELOAD': library, 'SALLOC_CONF': conf}, **more)
        self.addCleanup(self.end, process)
        self.line = process.stdout.readline().decode().strip()
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        for file in process.stdin, process.stdout, process.stderr:
            file.close()

    def client(self, process):
        client = Client(process if isinstance(process, int) else process.pid)
        self.addCleanup(client.close)
        return client

    def test_off_by_default(self):
        process = self.start('serve', conf='')
        self.assertEqual(names(process.pid), [])
        self.assertEqual(len(os.listdir('/proc/%d/task' % process.pid)), 3)

    def test_options(self):
        process = self.start('serve')
        client = self.client(process)
        self.assertRegex(client.ask('version'), r'^ok \d+\.\d+\.\d+ 1$')
        self.assertEqual(client.ask('get sample_interval'), 'ok 4k')
        self.assertEqual(client.ask('set sample_interval 64k'), 'ok')
        self.assertEqual(client.ask('get sample_interval'), 'ok 64k')
        self.assertEqual(client.ask('set soft_limit 100m'), 'ok')
        self.assertEqual(client.ask('get soft_limit'), 'ok 100m')
        self.assertRegex(client.ask('set per_cpu off'), '^error 1 ')
        self.assertRegex(client.ask('set sample_interval lots'), '^error 22 ')
        self.assertRegex(client.ask('get nothing'), '^error 2 ')
        for line in '', 'set', 'set x', 'get', 'gets x', 'trace', 'trace start', 'trace start 1', 'trace start 1 0', \
                'trace start x 1', 'trace start 1 9999999', 'trace start -1 1', 'trace write x', '\x01\x02':
            self.assertRegex(client.ask(line), '^error ', line)
        client.socket.sendall(b'get sample_interval\nget control\n')  # at once
        self.assertEqual([client.file.readline() for _ in range(2)], [b'ok 64k\n', b'ok on\n'])
        process.stdin.close()
        self.assertEqual(process.wait(10), 0)

    def test_traces(self):
        client = self.client(self.start('serve'))
        self.assertRegex(client.ask('trace stop'), '^error 2 ')
        self.assertRegex(client.ask('trace start 1000000 60'), r'^ok \d+$')
        self.assertRegex(client.ask('trace start 1000000 60'), '^error 16 ')
        time.sleep(0.3)
        with tempfile.TemporaryDirectory() as folder:
            path = folder + '/trace.json'
            reply = client.ask('trace write ' + path)
            self.assertRegex(reply, r'^ok \d+ 0$')
            with open(path, encoding='utf-8') as f:
                found = [e for e in json.load(f)['traceEvents'] if e['ph'] == 'i']
            self.assertEqual(len(found), int(reply.split()[1]))
            self.assertGreater(len(found), 10)
        self.assertRegex(client.ask('trace start 4096 1'), r'^ok \d+$')
        time.sleep(1.1)  # its time is over
        self.assertRegex(client.ask('trace stop'), '^error 2 ')
        self.assertRegex(client.ask('trace start 4096 60'), r'^ok \d+$')
        self.assertRegex(client.ask('trace write /nowhere/x.json'), '^error 2 ')
        self.assertRegex(client.ask('trace stop'), '^error 2 ')

    def test_bad_clients(self):
        process = self.start('serve')
        silent = self.client(process)
        began = time.monotonic()
        self.assertEqual(self.client(process).ask('get control'), 'ok on')
        self.assertLess(time.monotonic() - began, 4)
        self.assertEqual(silent.file.read(), b'')  # it was sent away
        long = self.client(process)
        long.socket.sendall(b'x' * 5000)
        try:
            self.assertEqual(long.file.read(), b'')
        except ConnectionResetError:
            pass
        for _ in range(100):
            client = Client(process.pid)
            client.socket.sendall(b'get sample')
            client.close()
        deaf = self.client(process)
        try:
            for _ in range(3000):
                deaf.socket.sendall(b'get sample_interval\n' * 100)
        except (ConnectionError, socket.timeout):
            pass
        self.assertEqual(self.client(process).ask('get sample_interval'), 'ok 4k')
        self.assertIsNone(process.poll())

    @unittest.skipIf(os.geteuid() != 0, 'only root can be another user')
    def test_other_users(self):
        process = self.start('serve')
        self.assertEqual(self.ask_as(65534, process), '-')
        self.assertEqual(self.ask_as(0, process), 'ok on')

    def test_fork(self):
        process = self.start('fork')
        child = int(self.line.split()[1])
        for _ in range(100):
            if names(child):
                break
            time.sleep(0.05)
        self.assertEqual(len(names(process.pid)), 1)
        self.assertEqual(len(names(child)), 1)
        parent, other = self.client(process), self.client(child)
        self.assertEqual(other.ask('set sample_interval 1m'), 'ok')
        self.assertEqual(parent.ask('get sample_interval'), 'ok 4k')
        links = [os.readlink('/proc/%d/fd/%s' % (child, fd)) for fd in os.listdir('/proc/%d/fd' % child)]
        self.assertLessEqual(sum(link.startswith('socket:') for link in links), 2)  # its own, and the connection
        process.stdin.close()
        self.assertEqual(process.wait(10), 0)
        self.assertEqual(names(process.pid) + names(child), [])

    def test_exit_of_main(self):
        began = time.monotonic()
        process = self.start('exit_main')
        out, errors = process.communicate(timeout=20)
        self.assertLess(time.monotonic() - began, 3)
        self.assertEqual((process.returncode, out, errors), (0, b'handlers ran\n', b''))

    def test_closed_descriptors(self):
        process = self.start('close')
        tasks = '/proc/%d/task' % process.pid
        for i in range(300):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect('\0control.%d%c' % (process.pid, ord('a') + 3 + i % 8))
                client.settimeout(5)
                self.assertEqual(client.recv(10), b'mine')
            time.sleep(0.005)
        self.assertEqual(len(os.listdir(tasks)), 1)
        process.stdin.close()
        self.assertEqual(process.wait(10), 0)

    def test_filter(self):
        process = self.start('filter')
        self.assertEqual(names(process.pid), [])
        time.sleep(0.1)
        self.assertEqual(len(os.listdir('/proc/%d/task' % process.pid)), 3)

    def step(self, process, line, expect='0'):
        process.stdin.write(line.encode() + b'\n')
        process.stdin.flush()
        self.assertEqual(process.stdout.readline().decode().strip(), expect, line)

    def ask_as(self, user, process):
        """The answer to a new client of a user: nothing, or one to a request."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            said = b''
            try:
                client = socket.socket(socket.AF_UNIX)
                client.connect('\0' + names(process.pid)[0])
                client.sendall(b'get control\n')
                said = client.recv(99)
            except OSError:
                pass
            os.write(write, said or b'-')
            os._exit(0)
        os.close(write)
        with os.fdopen(read, 'rb') as file:
            said = file.read()
        os.waitpid(child, 0)
        return said.decode().strip()

    @unittest.skipIf(os.geteuid() != 0, 'only root can be another user')
    def test_changed_user(self):
        """A debugger may attach only if all users of the process are the same, and it hides nothing; root always."""
        process = self.start('steps')
        self.assertEqual(self.ask_as(12345, process), '-')
        self.step(process, 'euid 12345')
        self.assertEqual(self.ask_as(12345, process), '-')
        self.step(process, 'dumpable 1')
        self.assertEqual(self.ask_as(12345, process), '-')
        self.assertEqual(self.ask_as(0, process), 'ok on')
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            library, program = (shutil.copy(file, folder) for file in (LIBRARY, PROGRAM))
            os.chmod(library, 0o755)
            process = self.start('steps', library=library, program=program, user=12345, group=12345, extra_groups=[])
            self.assertEqual(self.ask_as(12345, process), 'ok on')
            self.step(process, 'dumpable 0')
            self.assertEqual(self.ask_as(12345, process), '-')
            self.assertEqual(self.ask_as(0, process), 'ok on')

    def test_user_without_a_number(self):
        """In a user namespace without a map all users have one number, the process's own, too."""
        def enter():
            if ctypes.CDLL(None).unshare(0x10000000):
                raise OSError
        try:
            process = self.start('steps', preexec_fn=enter)
        except subprocess.SubprocessError:
            self.skipTest('no user namespaces')
        client = self.client(process)
        try:
            self.assertEqual(client.ask('get control'), '')
        except (BrokenPipeError, ConnectionResetError):
            pass

    def test_change_of_users_keeps_connections(self):
        """libc interrupts each thread for seteuid."""
        process = self.start('steps')
        client = self.client(process)
        self.assertEqual(client.ask('get control'), 'ok on')
        for _ in range(5):
            self.step(process, 'euid %d' % os.geteuid())
            time.sleep(0.05)
        self.assertEqual(client.ask('get control'), 'ok on')

    def test_unknown_children(self):
        process = self.start('steps')
        client = self.client(process)
        self.assertRegex(client.ask('trace start %d 60' % (256 << 20)), '^ok ')
        self.step(process, 'raw trace')
        self.step(process, 'raw filter')
        self.assertRegex(client.ask('trace stop'), '^ok ')
        client.close()
        self.assertEqual(self.client(process).ask('get control'), 'ok on')

    def test_filter_with_clients(self):
        for talks in False, True:
            process = self.start('steps')
            client = self.client(process)
            self.assertEqual(client.ask('get control'), 'ok on')
            if talks:
                client.socket.sendall(b'get sample_interval\n' * 900)
            self.step(process, 'leave', '1')
            self.assertEqual(names(process.pid), [])

    def test_no_descriptors(self):
        process = self.start('steps')
        self.step(process, 'files 0')
        client = self.client(process)
        client.socket.sendall(b'get control\n')
        time.sleep(0.1)
        before = cpu_seconds(process.pid)
        time.sleep(0.8)
        self.assertLess(cpu_seconds(process.pid) - before, 0.1)
        self.step(process, 'fork')  # the child cannot listen
        self.step(process, 'files 64')
        self.assertEqual(client.file.readline(), b'ok on\n')
        process.stdin.close()
        self.assertEqual((process.wait(10), process.stderr.read()), (0, b''))

    def test_exit_of_main_while_a_client_talks(self):
        process = self.start('exit_main')
        client = self.client(process)
        self.assertEqual(client.ask('get control'), 'ok on')
        process.stdin.close()  # now main ends, and soon the other thread
        end = time.monotonic() + 3
        try:
            while client.ask('get control') and time.monotonic() < end:
                time.sleep(0.02)
        except (BrokenPipeError, ConnectionResetError):
            pass
        self.assertEqual(process.wait(2), 0)

    def test_large_tls(self):
        process = self.start('steps', program=PROGRAM + '_tls')
        self.assertEqual(self.client(process).ask('get control'), 'ok on')

    def test_own_pthread_create(self):
        process = self.start('steps', program=PROGRAM + '_own')
        self.assertEqual((self.line, names(process.pid)), ('ready', []))
        self.step(process, 'fork')
        process.stdin.close()
        self.assertRegex(process.stderr.read(), rb'^salloc: SALLOC_CONF: control: cannot listen \(errno \d+\)\n$')


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1], verbosity=1)
