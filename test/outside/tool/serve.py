#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sallocctl serve: its answers to clients that mean well, and that it stands those that do not.

usage: serve.py LIBRARY SALLOCCTL WORKER STATIC-WORKER CASE
"""
import contextlib
import gzip
import http.client
import json
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

from profile import Profile, Worker, functions, run_case


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=30):
        super().__init__('localhost', timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        end = time.monotonic() + self.timeout
        while True:
            try:
                return self.sock.connect(self.path)
            except BlockingIOError:  # the queue of those that wait is full; with a timeout, Python does not wait
                assert time.monotonic() < end, 'no place in the queue'
                time.sleep(0.05)


class Killed:
    """A process that does not outlive its test."""

    def __init__(self, process):
        self.process = process

    def end(self):
        self.process.kill()
        self.process.wait()


class Server:
    def __init__(self, test, *options):
        self.path = os.path.join(test.folder, 'serve.sock')
        tcp = '--listen' in options
        self.process = subprocess.Popen([test.tool, 'serve', *(options if tcp else ('--listen', self.path, *options))],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        test.workers.append(Killed(self.process))
        line = self.process.stdout.readline()
        assert line.startswith('listening at '), (line, self.process.stderr.read())
        self.url = line.split()[2]
        self.port = urllib.parse.urlparse(self.url).port

    def get(self, path, method='GET', status=200, **headers):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=60) if self.port else UnixConnection(self.path)
        with contextlib.closing(connection):
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            body = response.read()
        assert response.status == status, (path, response.status, body[:500])
        return response, body

    def end(self):
        assert self.process.poll() is None, self.process.stderr.read()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=20) == 0, self.process.stderr.read()
        assert not os.path.exists(self.path)
        self.process.stdout.close()
        self.process.stderr.close()


def root_options():
    return ('--user', 'root') if os.geteuid() == 0 else ()


def tcp_server(test):
    return Server(test, '--listen', '127.0.0.1:0', *root_options())


def case_pages(test):
    """Every page, over a Unix socket that nobody else may use."""
    worker = Worker(test, [test.worker, 'still'])
    server = Server(test)
    assert stat.S_IMODE(os.stat(server.path).st_mode) == 0o600
    response, index = server.get('/')
    assert b'<td>%d</td><td>tool_worker</td>' % worker.pid in index
    assert 'default-src' in response.headers['Content-Security-Policy']
    assert response.headers['X-Content-Type-Options'] == 'nosniff'
    path = os.path.join(test.folder, 'served.pb')
    for page in ('heap', 'allocs'):
        _, body = server.get('/debug/pprof/%s?pid=%d' % (page, worker.pid))
        with open(path, 'wb') as f:
            f.write(gzip.decompress(body))
        assert {'small_block', 'large_block', 'main'} <= functions(Profile(path)), page
    start = time.monotonic()
    server.get('/debug/pprof/allocs?pid=%d&seconds=1' % worker.pid)
    assert 0.9 < time.monotonic() - start < 20
    _, body = server.get('/stats?pid=%d' % worker.pid)
    assert b'MALLOC: +' in body and body.startswith(b'See salloc')
    response, body = server.get('/flame?pid=%d' % worker.pid)
    assert response.headers['Content-Type'].startswith('text/html') and b'tool_worker, process %d' % worker.pid in body
    worker.end()
    assert b'<td>%d</td>' % worker.pid not in server.get('/')[1]
    server.end()


def case_refuse(test):
    """What is wrong with a request is said, and nothing else happens."""
    worker = Worker(test, [test.worker, 'still'])
    for server in (Server(test), tcp_server(test)):
        for host in ('evil.example', 'localhost.evil.example', '127.0.0.1.evil.example', '127.0.0.2', 'localhost:x', ''):
            assert b'Host' in server.get('/metrics', status=403, Host=host)[1]
        for host in ('localhost', 'LOCALHOST:1', '127.0.0.1', '127.0.0.1:9090', '[::1]', '[::1]:80'):
            server.get('/', Host=host)
        for site in ('cross-site', 'same-site'):
            server.get('/metrics', status=403, **{'Sec-Fetch-Site': site})
        server.get('/metrics', **{'Sec-Fetch-Site': 'same-origin'})
        server.get('/nothing', status=404)
        server.get('/../../etc/passwd', status=404)
        for pid in ('', '?pid=', '?pid=x', '?pid=-1', '?pid=0', '?pid=99999999999999999999', '?pid=1x', '?pid=1;ls'):
            server.get('/stats' + pid, status=400)
        server.get('/stats?pid=2147483647', status=404)
        assert b'does not run on salloc' in server.get('/flame?pid=%d' % os.getpid(), status=404)[1]
        server.get('/debug/pprof/allocs?pid=%d&seconds=1e9' % worker.pid, status=400)
        for method in ('POST', 'PUT', 'DELETE', 'OPTIONS', 'NONSENSE'):
            assert server.get('/metrics', method=method, status=405)[0].headers['Allow'] == 'GET, HEAD'
        server.get('/stats?pid=2147483647', method='HEAD', status=404)
        assert server.get('/metrics', method='HEAD')[1] == b''
        server.get('/' + 'x' * 100, status=404)
        with contextlib.closing(http.client.HTTPConnection('127.0.0.1', server.port) if server.port
                                else UnixConnection(server.path)) as twice:
            twice.putrequest('GET', '/', skip_host=True)
            twice.putheader('Host', 'localhost')
            twice.putheader('Host', 'evil.example')
            twice.endheaders()
            assert twice.getresponse().status == 403
        server.end()
    for address in ('0.0.0.0:0', 'example.com:80', 'localhost', 'localhost:99999', '[::]:80', '::1:80'):
        test.run('serve', '--listen', address, code=2)
    if os.geteuid() == 0:
        assert '--user' in test.run('serve', '--listen', 'localhost:0', code=2).stderr
    test.run('serve', '--user', 'no-such-user', code=2)
    taken = os.path.join(test.folder, 'taken')
    with open(taken, 'w', encoding='ascii'):
        pass
    test.run('serve', '--listen', taken, code=1)
    assert os.path.exists(taken)
    # A server takes over what is left of another one, not what is in use; it removes its own socket only.
    first = Server(test)
    test.run('serve', '--listen', first.path, code=1)
    os.remove(first.path)
    second = Server(test)
    first.process.send_signal(signal.SIGTERM)
    assert first.process.wait(timeout=20) == 0
    second.get('/')
    second.process.kill()
    second.process.wait()
    Server(test).end()
    worker.end()


def names_of(text, workers):
    """Names and labels of samples of these processes: others come and go."""
    own = re.compile('[{,]pid="(%s)"' % '|'.join(str(worker.pid) for worker in workers))
    return [line.rsplit(' ', 1)[0] for line in text.splitlines() if own.search(line)]


def case_metrics(test):
    """The metrics of two processes are those of the commands, in both formats, and grouped by family."""
    workers = [Worker(test, [test.worker, 'still']), Worker(test, [test.static, 'still'], preload=False)]
    server = Server(test)
    for accept, option, content in (('text/plain', '--prometheus', 'text/plain; version=0.0.4'),
                                    ('application/openmetrics-text;version=1.0.0', '--openmetrics', 'application/openmetrics-text')):
        response, body = server.get('/metrics/all', Accept=accept)
        text = body.decode('ascii')
        assert response.headers['Content-Type'].startswith(content)
        assert text.endswith('# EOF\n') == (option == '--openmetrics')
        types = re.findall(r'^# TYPE (\S+)', text, re.M)
        assert len(types) == len(set(types)) > 150
        for worker in workers:
            own = test.run('stats', option, str(worker.pid)).stdout
            for line in own.splitlines():
                if line.startswith('#') or 'process_' in line or 'resident' in line:
                    continue
                name, labels, value = re.match(r'(\w+)(?:\{(.*)\})? (\S+)$', line).groups()
                ours = '%s{pid="%d",name="%s"%s} %s' % (name, worker.pid, 'tool_static' if worker is workers[1] else 'tool_worker',
                                                        ',' + labels if labels else '', value)
                assert ours + '\n' in text, ours
        # Without the parts of the heap, the same metrics of the whole process.
        whole = server.get('/metrics', Accept=accept)[1].decode('ascii')
        of_parts = re.compile('salloc_hugepages_|.*,(class|cpu)="')
        assert names_of(whole, workers) == [name for name in names_of(text, workers) if not of_parts.match(name)]
        assert 0 < len(names_of(whole, workers)) < len(names_of(text, workers)) / 5
    for worker in workers:
        worker.end()
    server.end()


def case_known(test):
    """Processes that have not run since are not read again; all others are: what runs, what is new, what has gone."""
    idle, other = Worker(test, [test.worker, 'still']), Worker(test, [test.worker, 'work'])
    server = Server(test)

    def total(pid):
        text = server.get('/metrics')[1].decode('ascii')
        found = re.search(r'^salloc_allocations_bytes_total\{pid="%d",name="tool_worker"\} (\d+)$' % pid, text, re.M)
        return int(found.group(1)) if found else None

    def truth(pid):
        text = test.run('stats', '--prometheus', str(pid)).stdout
        return int(re.search(r'^salloc_allocations_bytes_total (\d+)$', text, re.M).group(1))
    for _ in range(5):
        before = total(other.pid)
        assert total(idle.pid) == truth(idle.pid) and before == truth(other.pid)
        other.process.stdin.write(b'w')
        other.process.stdin.flush()
        assert other.process.stdout.readline() == b'done\n'
        time.sleep(0.1)  # it waits for more
        assert total(other.pid) == truth(other.pid) > before + (500 << 20)
    new = Worker(test, [test.worker, 'still'])
    assert total(new.pid) == truth(new.pid)
    other.end()
    assert total(other.pid) is None and total(new.pid) == truth(new.pid)
    # What is known holds for one kind and one format.
    for _ in range(2):
        for page in ('/metrics/all', '/metrics'):
            for accept in ('text/plain', 'application/openmetrics-text;version=1.0.0'):
                text = server.get(page, Accept=accept)[1]
                assert (b'salloc_class_' in text) == (page == '/metrics/all') and (b'# EOF' in text) == ('open' in accept)
    new.end()
    idle.end()
    server.end()


def case_pprof(test):
    """go tool pprof reads profiles from the server."""
    if not shutil.which('go'):
        sys.exit(77)
    worker = Worker(test, [test.worker, 'storm'], ready=b'ready')
    server = tcp_server(test)
    for page in ('heap?pid=%d' % worker.pid, 'allocs?pid=%d&seconds=1' % worker.pid):
        result = subprocess.run(['go', 'tool', 'pprof', '-top', '%sdebug/pprof/%s' % (server.url, page)], check=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=100,
                                env=dict(os.environ, PPROF_TMPDIR=test.folder, HOME=test.folder))
        assert 'small_block' in result.stdout, result
    worker.end()
    server.end()


def case_users(test):
    """A client of a root's socket sees its own processes, with its own rights."""
    if os.geteuid() != 0:
        sys.exit(77)
    nobody = pwd.getpwnam('nobody')

    def drop():
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)
    os.chmod(test.folder, 0o777)
    library = os.path.join(test.folder, 'libsalloc.so')
    shutil.copy(os.path.realpath(test.library), library)
    shutil.copy(test.worker, os.path.join(test.folder, 'other_worker'))
    server = Server(test)
    mine = Worker(test, [test.worker, 'still'])
    test.library = library
    theirs = Worker(test, [os.path.join(test.folder, 'other_worker'), 'still'], preexec_fn=drop, cwd=test.folder)
    assert b'<td>%d</td>' % theirs.pid in server.get('/')[1]
    client = ['curl', '-s', '--max-time', '60', '--unix-socket', server.path, '-w', '%{http_code}']

    def ask(path):
        return subprocess.run([*client, 'http://localhost' + path], stdout=subprocess.PIPE, check=False, preexec_fn=drop).stdout
    assert ask('/') == b'000'  # the socket is root's alone
    os.chmod(server.path, 0o666)
    index = ask('/')
    assert b'<td>%d</td>' % theirs.pid in index and b'<td>%d</td>' % mine.pid not in index, index
    assert ask('/stats?pid=%d' % mine.pid).endswith(b'403')
    assert ask('/stats?pid=%d' % theirs.pid).endswith(b'200')
    for _ in range(2):  # what is known to one is not told to the other
        metrics = server.get('/metrics')[1]
        assert b'pid="%d"' % theirs.pid in metrics and b'pid="%d"' % mine.pid in metrics
        metrics = ask('/metrics')
        assert b'pid="%d"' % theirs.pid in metrics and b'pid="%d"' % mine.pid not in metrics
    server.end()
    server = Server(test, '--listen', 'localhost:0', '--user', 'nobody')
    assert b'<td>%d</td>' % mine.pid not in server.get('/')[1]
    server.get('/flame?pid=%d' % mine.pid, status=403)
    server.end()
    mine.end()
    theirs.end()


def drip(path, stop):
    """A client that sends a header a byte at a time, for as long as it is let."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.connect(path)
        s.settimeout(1)
        start = time.monotonic()
        for c in b'GET / HTTP/1.1\r\nHost: localhost\r\nX: ' + b'y' * 10000:
            s.send(bytes([c]))
            if stop.wait(0.2):
                return None
        return time.monotonic() - start
    return time.monotonic() - start


def case_hostile(test):
    """Clients that are slow, many, or send anything: others are served meanwhile, and processes stay as they are."""
    worker = Worker(test, [test.worker, 'storm'], ready=b'ready')
    server = Server(test)
    stop = threading.Event()
    slow = [threading.Thread(target=drip, args=(server.path, stop)) for _ in range(30)]
    for thread in slow:
        thread.start()
    quiet = []
    for i in range(1000):  # more than it accepts; most say nothing, some ask for much and read nothing
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.settimeout(0.05)
        with contextlib.suppress(OSError):
            s.connect(server.path)
            if i % 20 == 0:
                s.send(b'GET /stats?pid=%d HTTP/1.1\r\nHost: localhost\r\n\r\n' % worker.pid)
        quiet.append(s)
    for s in quiet[400:]:
        s.close()
    start = time.monotonic()
    server.get('/stats?pid=%d' % worker.pid)
    print('served beside 430 connections after %.1f s' % (time.monotonic() - start))
    for data in (b'\r\n' * 10000, b'GET / HTTP/9.9\r\n\r\n', os.urandom(100000), b'A' * 200000,
                 b'GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n' + b'x' * 100000,
                 b'GET /?' + b'a=b&' * 50000 + b' HTTP/1.1\r\nHost: localhost\r\n\r\n'):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.settimeout(2)
        with contextlib.suppress(OSError):
            s.connect(server.path)
            s.sendall(data)
        s.close()
    server.get('/')
    # Jobs of clients that are gone come to their end.
    for _ in range(20):
        s = UnixConnection(server.path)
        s.connect()
        s = s.sock
        s.send(b'GET /debug/pprof/allocs?pid=%d&seconds=1 HTTP/1.1\r\nHost: localhost\r\n\r\n' % worker.pid)
        s.close()
    server.get('/stats?pid=%d' % worker.pid)
    stop.set()
    for thread in slow:
        thread.join()
    for s in quiet:
        s.close()
    time.sleep(2)
    server.get('/')
    children = subprocess.run(['ps', '--ppid', str(server.process.pid), '-o', 'pid='], stdout=subprocess.PIPE, check=False).stdout
    assert children.strip() == b'', children
    assert len(os.listdir('/proc/%d/fd' % server.process.pid)) < 40
    assert worker.process.poll() is None
    worker.end()
    server.end()


def case_hanging(test):
    """A process whose memory lets its reader wait for ever is left out; all others are there, in time."""
    hanging = Worker(test, [os.path.join(os.path.dirname(test.worker), 'tool_hanging')])
    time.sleep(0.5)
    if hanging.process.poll() == 77:
        sys.exit(77)
    worker = Worker(test, [test.worker, 'still'])
    server = Server(test)
    for _ in range(2):
        start = time.monotonic()
        _, body = server.get('/metrics')
        assert time.monotonic() - start < 25
        assert b'salloc_allocated_bytes{pid="%d",' % worker.pid in body and b'pid="%d"' % hanging.pid not in body
        assert int(re.search(rb'^salloc_unread_processes (\d+)$', body, re.M).group(1)) >= 1
    index = server.get('/')[1]
    assert b'<td>%d</td>' % worker.pid in index and b'could not be read' in index
    # Its own page takes no other's place, and the server ends at once.
    gone = UnixConnection(server.path)
    gone.request('GET', '/stats?pid=%d' % hanging.pid)
    server.get('/stats?pid=%d' % worker.pid)
    gone.close()
    hanging.end()
    worker.end()
    server.end()


def case_queue(test):
    """Requests beyond those that may wait are refused, and those of clients that are gone make room."""
    worker = Worker(test, [test.worker, 'still'])
    server = Server(test)
    clients = []
    for _ in range(40):
        clients.append(UnixConnection(server.path))
        clients[-1].request('GET', '/debug/pprof/allocs?pid=%d&seconds=300' % worker.pid)
    # 12 run, 16 wait, and the others are told at once.
    for client in clients[28:]:
        response = client.getresponse()
        assert response.status == 503, response.status
    server.get('/stats?pid=%d' % worker.pid)  # the short ones have places of their own
    for client in clients:
        client.close()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        with contextlib.closing(UnixConnection(server.path)) as client:
            client.request('GET', '/debug/pprof/allocs?pid=%d&seconds=0.1' % worker.pid)
            if client.getresponse().status == 200:
                break
    else:
        raise AssertionError('those that are gone still have their places')
    worker.end()
    server.end()


def case_slow(test):
    """A client that sends a byte now and then is cut off after its time."""
    server = Server(test)
    start = time.monotonic()
    drip(server.path, threading.Event())
    seconds = time.monotonic() - start
    assert 10 < seconds < 60, seconds
    server.get('/')
    server.end()


def case_target(test):
    """Processes that end or are stopped while they are asked for, and one that is none."""
    server = Server(test)
    worker = Worker(test, [test.worker, 'storm'], ready=b'ready')
    os.kill(worker.pid, signal.SIGSTOP)
    server.get('/stats?pid=%d' % worker.pid)
    server.get('/flame?pid=%d' % worker.pid)
    os.kill(worker.pid, signal.SIGCONT)
    killer = threading.Timer(1, worker.end)
    killer.start()
    server.get('/debug/pprof/allocs?pid=%d&seconds=3' % worker.pid, status=404)
    killer.join()
    server.end()


def case_prometheus(test):
    """Debian's Prometheus scrapes the server each second, and its queries answer."""
    if not shutil.which('prometheus'):
        sys.exit(77)
    workers = [Worker(test, [test.worker, 'still']) for _ in range(5)]
    server = tcp_server(test)
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    config = os.path.join(test.folder, 'prometheus.yml')
    with open(config, 'w', encoding='ascii') as f:
        f.write('global:\n  scrape_interval: 1s\nscrape_configs:\n- job_name: salloc\n  static_configs:\n'
                '  - targets: ["127.0.0.1:%d"]\n' % server.port)
    log = os.path.join(test.folder, 'prometheus.log')
    with open(log, 'w', encoding='utf-8') as f:
        prometheus = subprocess.Popen(['prometheus', '--config.file', config, '--storage.tsdb.path', os.path.join(test.folder, 'data'),
                                       '--web.listen-address', '127.0.0.1:%d' % port], stdout=f, stderr=f)

    def query(expression):
        url = 'http://127.0.0.1:%d/api/v1/query?%s' % (port, urllib.parse.urlencode({'query': expression}))
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as response:
            return json.load(response)['data']['result']
        return []
    try:
        end = time.time() + 60
        wanted = {str(worker.pid) for worker in workers}
        found = {}
        while time.time() < end and not (wanted <= found.keys() and query('count_over_time(up[1m]) > 3')):
            time.sleep(1)
            found = {row['metric']['pid']: int(row['value'][1]) for row in query('salloc_allocated_bytes{name="tool_worker"}')}
        assert wanted <= found.keys() and all(30 << 20 < found[pid] < 60 << 20 for pid in wanted), found
        assert query('min_over_time(up[1m])')[0]['value'][1] == '1'
        assert len(query('rate(salloc_allocations_total{name="tool_worker"}[5s])')) >= 5
    finally:
        prometheus.kill()
        prometheus.wait()
    server.end()
    for worker in workers:
        worker.end()


if __name__ == '__main__':
    run_case(globals(), sys.argv[-1], *sys.argv[1:-1])
