#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sallocctl serve among other programs: proxies, scrapers and browsers as they ask, processes as they are.

usage: asked.py LIBRARY SALLOCCTL WORKER STATIC-WORKER CASE
"""
import os
import re
import shutil
import socket
import subprocess
import sys
import textwrap
import time
import urllib.parse

from profile import Worker, run_case
from serve import Server, tcp_server

OPENMETRICS = 'application/openmetrics-text'


def raw(server, *lines):
    """The answer to a request of these lines."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(server.path)
        s.sendall(''.join(line + '\r\n' for line in (lines[0], 'Host: localhost', *lines[1:], '')).encode())
        return b''.join(iter(lambda: s.recv(65536), b'')).decode()


def case_accept(test):
    """The format that a client wants more; text for who does not say, or wants another version."""
    server = Server(test)
    for accept, wanted in (
            (OPENMETRICS, True), ('Application/OpenMetrics-Text; version=1.0.0', True), ('text/plain', False), ('*/*', False),
            (OPENMETRICS + ';q=0', False), (OPENMETRICS + ';q=0.0,text/plain;q=0.5', False), ('text/html', False),
            (OPENMETRICS + ';version=1.0.0;q=0.8,' + OPENMETRICS + ';version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1', True),
            (OPENMETRICS + ';q=0.2, text/plain;q=0.9', False), ('text/*;q=0.9,' + OPENMETRICS + ';q=0.3', False),
            (OPENMETRICS + ';version=2.0.0', False), (OPENMETRICS + ';version="1.0.0" ; q=1.0', True),
            ('text/plain;q=0.1 , ' + OPENMETRICS + ' ;q=0.1', True), (OPENMETRICS + '-other', False), ('', False), (';;,,q=', False)):
        response, body = server.get('/metrics', Accept=accept)
        assert (OPENMETRICS in response.headers['Content-Type']) == body.endswith(b'# EOF\n') == wanted, accept
    # Headers of one name are one list, in whatever order they come.
    for lines, wanted in ((('text/html', OPENMETRICS), True), ((OPENMETRICS, 'text/plain;q=0.5'), True), (('', '', OPENMETRICS), True),
                          (('text/plain', OPENMETRICS + ';q=0.5'), False), ((OPENMETRICS + ';q=0', 'text/html'), False),
                          ((OPENMETRICS + ';q=0.5', 'x/' + 'y' * 5000, 'text/plain;q=0.6'), False)):
        text = raw(server, 'GET /metrics HTTP/1.1', *('Accept: ' + line for line in lines), 'Connection: close')
        assert (OPENMETRICS in text) == text.endswith('# EOF\n') == wanted, (lines, text[:300])
    server.end()


def case_forms(test):
    """Links are relative, requests may be whole URLs, and what a page cannot do is refused by its name."""
    worker = Worker(test, [test.worker, 'still'])
    server = tcp_server(test)
    _, index = server.get('/')
    links = re.findall(r'href="([^"]+)"', index.decode())
    own = [link.replace('&amp;', '&') for link in links if 'pid=%d' % worker.pid in link or 'pid' not in link]
    assert len(own) == 6 and not any(re.match('/|[a-z]+:', link) for link in own), own
    for link in own:
        behind = urllib.parse.urljoin('http://proxy/prefix/', link)
        assert behind.startswith('http://proxy/prefix/'), behind
        server.get(behind[len('http://proxy/prefix'):].replace('seconds=30', 'seconds=0.1'))
    here = 'localhost:%d' % server.port
    for target in ('http://%s/metrics' % here, 'HTTP://127.0.0.1/stats?pid=%d' % worker.pid, 'http://%s' % here, 'http://%s/' % here):
        assert len(server.get(target)[1]) > 100, target
    for target in ('http://evil.example/metrics', 'http://localhost.evil.example/', 'https://%s/' % here, 'metrics', '*'):
        server.get(target, status=400, Host=here)
    server.get('http://%s/metrics' % here, status=403, Host='evil.example')
    pid = 'pid=%d' % worker.pid
    for page, name in (('/debug/pprof/heap?seconds=5&' + pid, 'seconds'), ('/debug/pprof/heap?debug=1&' + pid, 'debug'),
                       ('/debug/pprof/allocs?gc=1&' + pid, 'gc'), ('/flame?' + pid + '&metric=alloc_space', 'metric'),
                       ('/metrics?name[]=up', 'name[]'), ('/stats?%s&%s' % (pid, pid), 'pid'), ('/?x', 'x'),
                       ('/?a%0ab', 'a_b'), ('/?%ff%1b', '?_'),
                       ('/debug/pprof/allocs?seconds=-1&' + pid, 'seconds')):
        said = server.get(page, status=400)[1].decode()
        assert said.startswith(name + ':'), (page, said)
    server.get('/debug/pprof/heap?debug=0&' + pid)
    server.get('/debug/pprof/allocs?debug=0&seconds=0.1&' + pid)
    worker.end()
    server.end()


def case_names(test):
    """Blanks in names are kept; what would end a label is not."""
    names = ['my prog', ' two  blanks ', 'a"b\\c<d\n']
    workers = []
    for name in names:
        path = shutil.copy(test.worker, os.path.join(test.folder, name.replace('\n', '')))
        os.rename(path, os.path.join(test.folder, name))
        workers.append(Worker(test, [os.path.join(test.folder, name), 'still']))
    server = Server(test)
    index, metrics = (server.get(page)[1].decode() for page in ('/', '/metrics'))
    for worker, shown in zip(workers, ('my prog', ' two  blanks ', 'a?b?c?d')):
        assert '<td>%d</td><td>%s</td>' % (worker.pid, shown) in index, index
        assert '{pid="%d",name="%s"' % (worker.pid, shown) in metrics
        assert re.search(r'^ *%d %s .*\n' % (worker.pid, re.escape(shown)), test.run('ps').stdout, re.M), test.run('ps').stdout
    for worker in workers:
        worker.end()
    server.end()


PARENT = '''
    #define _GNU_SOURCE
    #include <sched.h>
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/wait.h>
    #include <unistd.h>
    static int wait_here(void *arg) { for (;;) pause(); }
    int main(int argc, char **argv)
    {
        static char stack[65536];
        memset(malloc(50 << 20), 1, 50 << 20);
        printf("ready\\n");
        fflush(stdout);
        if (strcmp(argv[1], "vfork") == 0) { if (!vfork()) for (;;) pause(); }
        else if (strcmp(argv[1], "clone") == 0) clone(wait_here, stack + sizeof(stack), CLONE_VM | SIGCHLD, 0);
        else if (!fork()) for (;;) pause();
        for (;;) pause();
    }
'''


def case_vfork(test):
    """Processes that have the memory of their parents count once; those of fork have their own."""
    source, program = os.path.join(test.folder, 'parent.c'), os.path.join(test.folder, 'parent')
    with open(source, 'w', encoding='ascii') as f:
        f.write(textwrap.dedent(PARENT))
    subprocess.run(['cc', '-w', '-o', program, source], check=True)
    server = Server(test)
    for how, processes in (('vfork', 1), ('clone', 1), ('fork', 2)):
        worker = Worker(test, [program, how], ready=b'ready')
        children = []
        while not children:
            time.sleep(0.05)
            with open('/proc/%d/task/%d/children' % (worker.pid, worker.pid), encoding='ascii') as f:
                children = [int(pid) for pid in f.read().split()]
        shown = [pid for pid in [worker.pid, *children] if re.search(r'^ *%d ' % pid, test.run('ps').stdout, re.M)]
        assert len(shown) == processes and shown[0] == worker.pid, (how, shown)
        samples = re.findall(r'^\w+\{pid="(%s)"' % '|'.join(map(str, shown + children)), server.get('/metrics')[1].decode(), re.M)
        assert len(set(samples)) == processes, (how, set(samples))
        for child in children:
            os.kill(child, 9)
        worker.end()
    server.end()


class Frozen:
    """A control group of the freezer of version 1."""

    def __init__(self, pid):
        self.name = 'salloc-test-' + os.urandom(4).hex()
        self.path = '/sys/fs/cgroup/freezer/' + self.name
        try:
            os.mkdir(self.path)
        except OSError:
            print('there is no freezer of version 1')
            sys.exit(77)
        self.write('cgroup.procs', str(pid))
        self.write('freezer.state', 'FROZEN')

    def write(self, name, text):
        with open(os.path.join(self.path, name), 'w', encoding='ascii') as f:
            f.write(text)

    def end(self):
        self.write('freezer.state', 'THAWED')
        with open(os.path.join(self.path, 'cgroup.procs'), encoding='ascii') as f:
            for pid in f.read().split():
                with open('/sys/fs/cgroup/freezer/cgroup.procs', 'w', encoding='ascii') as top:
                    top.write(pid)
        while True:  # until those that have left it are through
            try:
                return os.rmdir(self.path)
            except OSError:
                time.sleep(0.05)


def case_frozen(test):
    """A process of a frozen group, and one whose thread is in the kernel: the command says what it waits for, and goes on."""
    worker = Worker(test, [test.worker, 'still'])
    out = os.path.join(test.folder, 'heap.pb.gz')
    for command in (['leaks'], ['profile', '--stop', '-o', out]):
        frozen = Frozen(worker.pid)
        try:
            waiting = subprocess.Popen([test.tool, *command, str(worker.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       universal_newlines=True)
            said = waiting.stderr.readline()
            assert frozen.name + ' is frozen' in said, said
            time.sleep(0.3)
            assert waiting.poll() is None
        finally:
            frozen.end()
        _, more = waiting.communicate(timeout=30)
        assert waiting.returncode == 0 and more == '', (waiting.returncode, more)
    worker.end()


def case_held(test):
    """The parent of a child of vfork waits in the kernel: it is said, and Ctrl-C ends the command."""
    source, program = os.path.join(test.folder, 'parent.c'), os.path.join(test.folder, 'parent')
    with open(source, 'w', encoding='ascii') as f:
        f.write(textwrap.dedent(PARENT))
    subprocess.run(['cc', '-w', '-o', program, source], check=True)
    worker = Worker(test, [program, 'vfork'], ready=b'ready')
    waiting = subprocess.Popen([test.tool, 'leaks', str(worker.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    said = waiting.stderr.readline()
    assert 'its thread %d waits' % worker.pid in said, said
    waiting.send_signal(2)
    assert waiting.wait(timeout=10) == -2
    with open('/proc/%d/task/%d/children' % (worker.pid, worker.pid), encoding='ascii') as f:
        for child in f.read().split():
            os.kill(int(child), 9)
    worker.end()


if __name__ == '__main__':
    run_case(globals(), sys.argv[-1], *sys.argv[1:-1])
