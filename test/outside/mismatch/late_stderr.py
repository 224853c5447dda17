#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A report goes to stderr if that still is what it was at load, else to report:PATH or nowhere; never among the program's
data, whether the program survives it, or is aborted, or ends with a fault. So does a line that says that a file could not
be written.

usage: late_stderr.py LIBRARY PROGRAM MODE, which is survives, aborts, faults or hardened
"""
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import tty
import unittest

LIBRARY, PROGRAM = map(os.path.abspath, sys.argv[1:3])
# The options, the misuse and its report, how the program ends, and the records before that.
MODES = {
    'survives': ('sample_interval:1', 'mismatch', b'salloc: mismatched free', 0, 5),
    'aborts': ('sample_interval:0', 'twice', b'salloc: double free', -signal.SIGABRT, 1),
    'faults': ('sample_interval:1,guarded_sample:1', 'beside', b'salloc: heap buffer overflow', -signal.SIGSEGV, 1),
    'hardened': ('hardening:on', 'mismatch', b'salloc: mismatched free', -signal.SIGABRT, 1),
}
CONF, MISUSE, REPORT, END, COUNT = MODES[sys.argv[3]]
RECORDS = b''.join((b'record %d' % i).ljust(64, b'\0') for i in range(COUNT))


def stream(fd):
    """As systemd names a socket."""
    s = os.fstat(fd)
    return '%d:%d' % (s.st_dev, s.st_ino)


class LateStderr(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix='salloc-stderr-')
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), 'rb') as f:
            return f.read()

    def run_it(self, *arguments, conf='', journal=None, **more):
        env = {**os.environ, 'LD_PRELOAD': LIBRARY, 'SALLOC_CONF': CONF + conf}
        env.pop('JOURNAL_STREAM', None)
        if journal:
            env['JOURNAL_STREAM'] = journal
        done = subprocess.run([PROGRAM, MISUSE, *arguments], env=env, check=False,
                              **{'stdin': subprocess.DEVNULL, 'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, **more})
        self.assertEqual(done.returncode, END, done)
        return done

    def sockets(self):
        """A connection: ours, and that of the program."""
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(theirs.close)
        ours.setblocking(False)
        return ours, theirs

    def received(self, ours):
        try:
            return ours.recv(1 << 16)
        except BlockingIOError:
            return b''

    def test_stderr(self):
        """A pipe, a file and a terminal that stay stderr get the report."""
        self.assertIn(REPORT, self.run_it('keep').stderr)
        with open(self.path('log'), 'ab') as log:
            self.assertEqual(self.run_it('keep', stderr=log).stdout, RECORDS)
        self.assertIn(REPORT, self.read('log'))
        master, slave = pty.openpty()
        self.run_it('keep', stderr=slave)
        os.close(slave)
        self.assertIn(REPORT, os.read(master, 1 << 16))
        os.close(master)

    def test_closed_and_opened(self):
        """A daemon without the three descriptors: its data has the number 2. Behind a filter the library opens no file."""
        for how in ('close', 'dup', 'filter', 'full'):
            done = self.run_it(how, self.path('data'), conf=',report:' + self.path('report'))
            self.assertEqual((self.read('data'), done.stderr), (RECORDS, b''), how)
            self.assertEqual(os.path.exists(self.path('report')), how != 'filter')
            if how != 'filter':
                self.assertIn(REPORT, self.read('report'))
                os.unlink(self.path('report'))
            self.run_it(how, self.path('data'))
            self.assertEqual(self.read('data'), RECORDS, how)
            self.assertEqual(os.listdir(self.folder), ['data'])

    def test_closed_at_the_start(self):
        """2>&-: whatever gets the number later is not stderr."""
        self.run_it('close', self.path('data'), stderr=None, preexec_fn=lambda: os.close(2))
        self.assertEqual(self.read('data'), RECORDS)

    def test_log(self):
        """A daemon's log that is opened later gets why the program ended, and nothing else."""
        done = self.run_it('log', self.path('log'))
        self.assertEqual((done.stdout, done.stderr), (RECORDS, b''))
        self.assertEqual(REPORT in self.read('log'), END != 0)
        self.assertEqual(self.read('log') == b'', END == 0)

    def test_protocol(self):
        """A pipe to a parent, a connection or a serial line, copied to 2."""
        line = pty.openpty()
        tty.setraw(line[1])
        for name, ends in (('pipe', os.pipe()), ('socket', [s.detach() for s in socket.socketpair()]), ('line', line)):
            done = self.run_it('dup', close_fds=False, preexec_fn=lambda fd=ends[1]: os.dup2(fd, 3))
            os.set_blocking(ends[0], False)
            self.assertEqual((os.read(ends[0], 1 << 16), done.stderr), (RECORDS, b''), name)
            os.close(ends[0])
            os.close(ends[1])

    def test_inetd(self):
        """The connection is 0, 1 and 2; with some, 1 and 2 or only 2. JOURNAL_STREAM may be left from the parent."""
        for journal in (None, '1:2', stream(0)):
            for numbers in ((0, 1, 2), (1, 2), (2,)):
                ours, theirs = self.sockets()
                names = {'stdin': theirs if 0 in numbers else subprocess.DEVNULL,
                         'stdout': theirs if 1 in numbers else subprocess.PIPE, 'stderr': theirs}
                self.run_it('keep', journal=journal, **names)
                self.assertEqual(self.received(ours), RECORDS if 1 in numbers else b'', (journal, numbers))

    def test_journal(self):
        """systemd's socket is stdout and stderr of a service. As 0 it is a connection, whatever the variable says."""
        for numbers in ((2,), (1, 2), (0, 1, 2)):
            ours, theirs = self.sockets()
            names = {'stdin': theirs if 0 in numbers else subprocess.DEVNULL,
                     'stdout': theirs if 1 in numbers else subprocess.PIPE, 'stderr': theirs}
            self.run_it('keep', journal=stream(theirs.fileno()), **names)
            self.assertEqual(REPORT in self.received(ours), 0 not in numbers, numbers)

    def test_lines(self):
        """What cannot be written at exit, and mistakes in SALLOC_CONF."""
        os.mkdir(self.path('gone'))
        conf = ',stats:%s/page,report:%s' % (self.path('gone'), self.path('report'))
        done = self.run_it('keep', conf=conf + ',nonsense:1', preexec_fn=lambda: os.rmdir(self.path('gone')))
        self.assertEqual(done.stderr.count(b'cannot write'), 1)
        self.assertIn(b'nonsense', done.stderr)
        ours, theirs = self.sockets()
        os.unlink(self.path('report'))
        self.run_it('keep', conf=conf + ',nonsense:1', stderr=theirs)
        self.assertEqual(self.received(ours), b'')
        self.assertIn(b'nonsense', self.read('report'))
        self.assertIn(b'cannot write', self.read('report'))


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
