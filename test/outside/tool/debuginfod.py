#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""debuginfod servers that answer late, never, or not to the end: commands wait two seconds in all, and say so once.

usage: debuginfod.py LIBRARY SALLOCCTL WORKER STATIC-WORKER CASE
"""
import ctypes
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time

import serve
from profile import Worker, run_case

WAIT = 2  # seconds that a command may wait
SLACK = 4  # of a command's own work, on a machine that is busy
TOLD = 'debuginfod'


class Debuginfod:
    """A server. answer(socket, path of the request) runs in a thread for each."""

    def __init__(self, test, answer):
        self.answer, self.asked, self.keep = answer, [], []
        self.socket = socket.create_server(('127.0.0.1', 0), backlog=100)
        self.url = 'http://127.0.0.1:%d' % self.socket.getsockname()[1]
        self.cache = os.path.join(test.folder, 'cache%d' % self.socket.getsockname()[1])
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client = self.socket.accept()[0]
            self.keep.append(client)
            self.asked.append(b'')
            threading.Thread(target=self.talk, args=(client, len(self.asked) - 1), daemon=True).start()

    def talk(self, client, number):
        try:
            self.asked[number] = client.recv(4096).split(b'\r')[0].decode()
            self.answer(client, self.asked[number])
        except OSError:
            pass  # it was given up

    def env(self, urls=None):
        return dict(os.environ, DEBUGINFOD_URLS=urls or self.url, DEBUGINFOD_CACHE_PATH=self.cache)


def silent(_client, _path):
    pass


def stalled(client, _path):
    client.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n\x7fELF')


def dripping(client, _path):
    client.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n')
    while True:
        client.sendall(b'x')
        time.sleep(0.05)


def file_of(program, delay=0):
    """Answers with the debug information of a program, and has no other."""
    def answer(client, path):
        time.sleep(delay)
        with open(program, 'rb') as f:
            data = f.read()
        if build_id(program) in path and '/debuginfo' in path:
            client.sendall(b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n' % len(data) + data)
        else:
            client.sendall(b'HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')
        client.close()
    return answer


def build_id(program):
    return re.search(r'Build ID: (\w+)', subprocess.run(['readelf', '-n', program], stdout=subprocess.PIPE, check=True,
                                                        universal_newlines=True).stdout).group(1)


def stripped(test):
    """A worker whose lines are elsewhere."""
    path = shutil.copy(test.worker, os.path.join(test.folder, 'bare'))
    subprocess.run(['strip', path], check=True)
    return Worker(test, [path, 'still'])


def call(test, server, *arguments, urls=None):
    start = time.monotonic()
    result = subprocess.run([test.tool, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                            env=server.env(urls), timeout=60, check=False)
    assert result.returncode == 0, result
    return result, time.monotonic() - start


def case_late(test):
    """Each command that adds lines, and each way of not answering: one wait, one line, and the names are there."""
    worker = stripped(test)
    page, profile = os.path.join(test.folder, 'page.html'), os.path.join(test.folder, 'heap.pb.gz')
    pid = str(worker.pid)
    kinds = [(silent, 'report', '--by', 'line', pid), (stalled, 'flame', '-o', page, pid),
             (dripping, 'diff', profile, profile), (silent, 'convert', '--lines', profile, page + '.pb')]
    call(test, Debuginfod(test, silent), 'profile', '-o', profile, pid)
    for answer, *command in kinds:
        server = Debuginfod(test, answer)
        result, seconds = call(test, server, *command)
        assert seconds < WAIT + SLACK, (command, seconds)
        lines = [line for line in result.stderr.splitlines() if TOLD in line]
        assert len(lines) == 1 and '--debuginfod SECONDS' in lines[0], result.stderr
        assert len(server.asked) == 1, (command, server.asked)
        left = [name for _, _, names in os.walk(server.cache) for name in names if name.count('.')]
        assert not left, left  # unfinished files
        if command[0] == 'report':
            assert 'tool_worker' in result.stdout or 'bare' in result.stdout
    worker.end()


def case_asked(test):
    """A server that is slow, but answers: lines for who waits, and none in two seconds. One that is gone: no wait."""
    worker = stripped(test)
    pid = str(worker.pid)
    server = Debuginfod(test, file_of(test.worker, delay=2.5))
    assert 'small_block' not in call(test, server, 'report', '--by', 'line', pid)[0].stdout
    none, seconds = call(test, server, 'report', '--by', 'line', '--debuginfod', '0', pid)
    assert none.stderr == '' and seconds < SLACK and len(server.asked) == 1, (none, server.asked)
    result, _ = call(test, server, 'report', '--by', 'line', '--debuginfod', '40', pid)
    assert 'small_block' in result.stdout and TOLD not in result.stderr, result
    fast = Debuginfod(test, file_of(test.worker))
    result, _ = call(test, fast, 'report', '--by', 'line', pid)
    assert 'small_block' in result.stdout and result.stderr == '', result
    gone = socket.create_server(('127.0.0.1', 0))
    url = 'http://127.0.0.1:%d' % gone.getsockname()[1]
    gone.close()
    result, seconds = call(test, Debuginfod(test, silent), 'report', '--by', 'line', pid, urls=url)
    assert seconds < WAIT and result.stderr.count(TOLD) == 1, result
    both = Debuginfod(test, file_of(test.worker))
    result, _ = call(test, both, 'report', '--by', 'line', pid, urls=url + ' ' + both.url)
    assert 'small_block' in result.stdout and result.stderr == '', result
    worker.end()


def case_screen(test):
    """top does not ask."""
    worker = stripped(test)
    server = Debuginfod(test, silent)
    result, seconds = call(test, server, 'top', '--batch', '-n', '2', str(worker.pid))
    assert seconds < WAIT + SLACK and not server.asked and TOLD not in result.stderr, (result, seconds)
    worker.end()


def case_serve(test):
    """Pages that wait, profiles and metrics: the metrics never do, and the servers are asked by no later page."""
    worker = stripped(test)
    server = Debuginfod(test, silent)
    os.environ.update(server.env())
    served = serve.tcp_server(test)
    pages = [threading.Thread(target=served.get, args=('/flame?pid=%d' % worker.pid,)) for _ in range(20)]
    for page in pages:
        page.start()
    end = time.monotonic() + 10
    while not server.asked and time.monotonic() < end:
        time.sleep(0.01)
    assert server.asked
    start = time.monotonic()
    served.get('/metrics')
    first = time.monotonic() - start
    assert any(page.is_alive() for page in pages), 'they were done before the metrics'
    assert first < WAIT - 0.5, first
    for page in pages:
        page.join()
    asked = len(server.asked)
    assert asked <= 4, server.asked  # those that ran when it was not known yet
    page = served.get('/flame?pid=%d' % worker.pid)[1]
    assert b'"note":"Some names may come without source lines' in page
    served.get('/debug/pprof/heap?pid=%d' % worker.pid)
    served.get('/metrics')
    assert len(server.asked) == asked
    worker.end()
    served.end()


if __name__ == '__main__':
    try:
        ctypes.CDLL('libdebuginfod.so.1')
    except OSError:
        print('there is no libdebuginfod')
        sys.exit(77)
    run_case(globals(), sys.argv[-1], *sys.argv[1:-1])
