#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""squid, which deletes objects with the size of their base class, starts and serves requests with the library
preloaded. What the library says is about such sizes, once for each stack.

usage: squid.py LIBRARY [VARIABLE=VALUE...]

Exit status 77: squid is not installed.
"""
import http.server
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

SKIPPED = 77
REQUESTS = 300
SECONDS = 60  # until squid serves, and until it ends
SIZES = (0, 1, 1000, 20000, 400000)


class Origin(http.server.BaseHTTPRequestHandler):
    """Answers each path with bytes that follow from it; some answers may be kept by the cache."""
    protocol_version = 'HTTP/1.1'

    def do_GET(self):  # pylint: disable=invalid-name
        """One request."""
        body = body_of(self.path)
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.send_header('Cache-Control', 'max-age=100' if len(body) % 2 == 0 else 'no-store')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):  # pylint: disable=arguments-differ
        """Says nothing."""


def body_of(path):
    """The content of a path."""
    number = int(path.strip('/'))
    return (b'%d,' % number) * (SIZES[number % len(SIZES)] // 4) + b'.' * (number % 7)


def free_port():
    """A port that nobody uses."""
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def configuration(folder, port):
    """Writes the configuration of one process without a disk cache."""
    path = os.path.join(folder, 'squid.conf')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(f'http_port 127.0.0.1:{port}\nhttp_access allow all\ncache_mem 8 MB\n'
                   f'pid_filename {folder}/squid.pid\ncache_log {folder}/cache.log\n'
                   f'access_log none\ncoredump_dir {folder}\nshutdown_lifetime 0 seconds\n'
                   'icon_directory /usr/share/squid/icons\nvisible_hostname localhost\n'
                   'pinger_enable off\ndns_nameservers 127.0.0.1\nmax_filedescriptors 1024\n')
    return path


def serve(proxy, origin):
    """Asks for pages through squid; None, or what is wrong."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({'http': f'http://127.0.0.1:{proxy}'}))
    end = time.monotonic() + SECONDS
    while True:
        try:
            opener.open(f'http://127.0.0.1:{origin}/1', timeout=10).read()
            break
        except OSError as error:
            if time.monotonic() > end:
                return f'does not serve: {error}'
            time.sleep(0.1)
    for i in range(REQUESTS):
        number = i % 40
        try:
            body = opener.open(f'http://127.0.0.1:{origin}/{number}', timeout=30).read()
        except OSError as error:
            return f'request {i}: {error}'
        if body != body_of(f'/{number}'):
            return f'request {i}: another answer'
    return None


def fault_of(squid, library, variables, folder):
    """What is wrong; None if nothing is."""
    os.chmod(folder, 0o777)  # squid drops its privileges
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Origin)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = free_port()
    with open(os.path.join(folder, 'stderr'), 'w+', encoding='utf-8', errors='replace') as errors:
        child = subprocess.Popen([squid, '-N', '-f', configuration(folder, port)], cwd=folder, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=errors,
                                 env=dict(os.environ, LD_PRELOAD=library, **variables))
        try:
            fault = serve(port, server.server_address[1])
            child.send_signal(signal.SIGTERM)
            status = child.wait(SECONDS)
        except subprocess.TimeoutExpired:
            return 'does not end'
        finally:
            if child.poll() is None:
                child.kill()
        errors.seek(0)
        text = errors.read()
    said = re.findall(r'^salloc: (?!  ).*$', text, re.M)
    print(f'{REQUESTS} requests, {len(said)} reports' + ''.join(f'\n    {line}' for line in said))
    if fault or status:
        return f'{fault or "ended"}, with status {status}: {text[-3000:]}'
    if any(not line.startswith('salloc: sized free: ') for line in said) or len(said) > 16:
        return 'something else was said: ' + text
    return None


def main():
    squid = shutil.which('squid', path=os.environ.get('PATH', '') + ':/usr/sbin')
    if not squid:
        print('skipped: squid is not installed')
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix='salloc-squid-') as folder:
        fault = fault_of(squid, os.path.abspath(sys.argv[1]), dict(word.split('=', 1) for word in sys.argv[2:]), folder)
    if fault:
        print(fault)
    return 1 if fault else 0


if __name__ == '__main__':
    sys.exit(main())
