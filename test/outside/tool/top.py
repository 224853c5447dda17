#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sallocctl top, in a pipe and on a terminal.

usage: top.py LIBRARY SALLOCCTL WORKER STATIC-WORKER CASE
"""
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

from profile import Worker, run_case

COLUMNS = ['PID', 'NAME', 'RSS', 'MiB', 'SALLOC', 'MiB', 'IN', 'USE', 'MiB', 'CACHES', 'MiB', 'FRAG', 'MiB',
           'FRAG%', 'MiB/s', 'SAMPLES']


def row_of(page, pid):
    rows = [line.split() for line in page.splitlines() if line.split()[:1] == [str(pid)]]
    return rows[0] if rows else None


def case_list(test):
    """Processes come and go between readings; rates are those in between."""
    storm = Worker(test, [test.worker, 'storm'], ready=b'ready')
    still = Worker(test, [test.worker, 'still'])
    text = test.run('top', '--batch', '-n', '3', '--every', '0.5').stdout
    pages = re.split(r'\n(?= *PID )', text)
    assert len(pages) == 3, text
    for page in pages:
        assert page.split('\n')[0].split() == COLUMNS
        row = row_of(page, storm.pid)
        assert row[1] == 'tool_worker' and float(row[4]) > 10
    assert row_of(pages[2], still.pid)[8] == '0.0' and float(row_of(pages[2], storm.pid)[8]) > 1, pages[2]
    # The largest first.
    in_use = [float(line.split()[4]) for line in pages[2].splitlines()[1:] if len(line.split()) == len(row_of(pages[2], storm.pid))]
    assert len(in_use) >= 2 and in_use == sorted(in_use, reverse=True), in_use
    storm.end()
    still.end()
    assert not row_of(test.run('top', '--batch', '-n', '1').stdout, storm.pid)
    assert 'use --batch' in test.run('top', code=2).stderr
    assert 'name a process' in test.run('top', '--batch', 'x', code=2).stderr
    test.run('top', '--batch', '999999999', code=3)
    test.run('top', '--batch', str(os.getpid()), code=5)


def case_hanging(test):
    """A process whose memory lets its reader wait for ever is named and left out; all others are shown."""
    hanging = Worker(test, [os.path.join(os.path.dirname(test.worker), 'tool_hanging')])
    time.sleep(0.5)
    if hanging.process.poll() == 77:
        sys.exit(77)
    worker = Worker(test, [test.worker, 'still'])
    result = test.run('ps', code=7)
    assert row_of(result.stdout, worker.pid) and not row_of(result.stdout, hanging.pid)
    assert 'process %d cannot be read in time' % hanging.pid in result.stderr, result.stderr
    text = test.run('top', '--batch', '-n', '1').stdout
    assert row_of(text, worker.pid) and 'could not be understood' in text, text
    hanging.end()
    worker.end()


def case_process(test):
    """Holders of a process, and what changed; the command ends with the process."""
    worker = Worker(test, [test.worker, 'storm'], ready=b'ready', conf=',mixed_spans:off')
    text = test.run('top', '--batch', '-n', '2', '--every', '0.5', str(worker.pid)).stdout
    first, second = re.split(r'\n(?= *PID )', text)
    assert 'inuse_space: ' in first and 'small_block' in first and 'from the second reading' in first
    assert re.search(r'^within the last [\d.]+ seconds\ninuse_space: .* before, .* after\nchange: ', second, re.M), second
    assert re.search(r'before +after +change +95 %: from', second) and 'small_block' in second
    text = test.run('top', '--batch', '-n', '1', '-b', 'size,stack', str(worker.pid)).stdout
    assert 'stack, the function that called malloc first' in text and 'storm' in text
    assert 'mixed spans' not in text, text
    assert 'the tables are' in test.run('top', '--batch', '-b', 'nonsense', code=2).stderr
    worker.end()


def case_mixed(test):
    """What mixed spans save is what the stats page says."""
    worker = Worker(test, [test.worker, 'still'], conf=',mixed_spans:always')
    text = test.run('top', '--batch', '-n', '1', str(worker.pid)).stdout
    gauges = json.loads(test.run('stats', '--json', str(worker.pid)).stdout)['gauges']
    mib = tuple(gauges['mixed_%sbytes' % name] / 1048576 for name in ('', 'used_', 'saved_'))
    assert min(mib) > 0.1, mib
    line = 'mixed spans: %.1f MiB, of which %.1f MiB are in use; %.1f MiB saved' % mib
    assert text.splitlines()[2] == line, (text, line)
    worker.end()


class Terminal:
    """A program on a terminal of its own. The screen is what was written since the last key, without control sequences."""

    def __init__(self, *command):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ['TERM'] = 'xterm'
            os.execv(command[0], command)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack('HHHH', 40, 130, 0, 0))
        self.text = ''

    def wait_for(self, pattern, seconds=30):
        end = time.monotonic() + seconds
        while not re.search(pattern, self.text):
            assert time.monotonic() < end, (pattern, self.text[-3000:])
            if select.select([self.fd], [], [], 0.2)[0]:
                with contextlib.suppress(OSError):
                    data = os.read(self.fd, 65536).decode('utf-8', 'replace')
                    self.text += re.sub(r'\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>78])', ' ', data)

    def key(self, keys):
        self.text = ''
        os.write(self.fd, keys.encode('ascii'))

    def end(self):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                if select.select([self.fd], [], [], 0.1)[0]:
                    os.read(self.fd, 65536)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError('it does not end')


def case_keys(test):
    """The screen and its keys."""
    worker = Worker(test, [test.worker, 'storm'], ready=b'ready')
    terminal = Terminal(test.tool, 'top', '--every', '0.5')
    terminal.wait_for(r'processes on salloc, every 0.5 s')
    terminal.wait_for(r'q quit .*Enter look into')
    terminal.wait_for(r'\b%d tool_worker' % worker.pid)
    for key in 'mrcfsp':
        terminal.key(key)
    terminal.key('+')
    terminal.wait_for(r'1\.0')
    terminal.key(' ')
    terminal.wait_for('paused')
    terminal.key(' -')
    terminal.key('q')
    assert terminal.end() == 0
    terminal = Terminal(test.tool, 'top', '--every', '0.5', str(worker.pid))
    terminal.wait_for(r'process %d, every 0.5 s' % worker.pid)
    terminal.wait_for(r'function that called malloc')
    terminal.wait_for(r'within the last')
    terminal.wait_for(r'q quit .*Esc back')
    terminal.key('b')
    terminal.wait_for(r'with all that it calls')
    terminal.key('w')
    terminal.wait_for(r'growth within 30 s|30')
    terminal.key('\x1b')
    terminal.wait_for(r'processes on salloc')
    terminal.key('\n')
    terminal.wait_for(r'Esc back')
    worker.end()
    terminal.key('q')
    assert terminal.end() == 0
    terminal = Terminal(test.tool, 'top', '999999999')
    assert terminal.end() == 3


if __name__ == '__main__':
    run_case(globals(), sys.argv[-1], *sys.argv[1:-1])
