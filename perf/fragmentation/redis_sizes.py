#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What redis-server's memory costs when the size of its values changes: RSS over the bytes that it says it uses.

A server with a limit of 150 MB evicts keys at random, while a client sets values of one size in each phase, between 24
and 8000 bytes. The allocators take turns, each with a server of its own.

usage: redis_sizes.py [--phases N] [--port N] [--server PROGRAM] [--set NAME=VALUE]... NAME=LIBRARY...
       LIBRARY empty: what the server is linked with; --set: an option of redis.conf
"""
import argparse
import os
import random
import socket
import subprocess
import time

BATCH = 1000
PHASE_BYTES = 60e6
OVERHEAD = 90  # bytes of a key, about


LIMIT = ('--maxmemory', '150mb', '--maxmemory-policy', 'allkeys-random')


class Server:
    def __init__(self, library, port, program='redis-server', options=LIMIT):
        env = dict(os.environ, LD_PRELOAD=library)
        self.process = subprocess.Popen(
            [program, '--port', str(port), '--save', '', '--appendonly', 'no', *options], env=env, stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                self.socket = socket.create_connection(('127.0.0.1', port))
                break
            except OSError:
                time.sleep(0.05)
        else:
            raise SystemExit('redis-server does not answer on port %d' % port)
        self.file = self.socket.makefile('rb')

    def ask_all(self, requests):
        """The replies to requests, each a list of words, that are sent together. For replies of one value."""
        self.socket.sendall(b''.join(
            b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(word), word) for word in words) for words in requests))
        replies = []
        for _ in requests:
            line = self.file.readline()
            replies.append(self.file.read(int(line[1:]) + 2)[:-2] if line[:1] == b'$' and line[1:2] != b'-' else line[:-2])
        return replies

    def ask(self, *words):
        return self.ask_all([[word.encode() for word in words]])[0]

    def info(self):
        return dict(line.split(':', 1) for line in self.ask('INFO').decode().split('\r\n') if ':' in line)

    def set_values(self, rng, size):
        value, left = b'x' * size, int(PHASE_BYTES / (size + OVERHEAD))
        while left > 0:
            n = min(BATCH, left)
            keys = [b'k%d' % rng.getrandbits(40) for _ in range(n)]
            self.ask_all([[b'SET', key, value] for key in keys])
            left -= n

    def phases(self, count):
        """Sets the values of so many phases, each of a size of its own; yields at the end of each."""
        rng = random.Random(1)
        for _ in range(count):
            self.set_values(rng, int(24 * (8000 / 24) ** rng.random()))
            yield

    def memory(self):
        """(RSS, bytes that the server says it uses)"""
        values = self.info()
        return int(values['used_memory_rss']), int(values['used_memory'])

    def ratio(self):
        rss, used = self.memory()
        return rss / used

    def cpu_seconds(self):
        with open('/proc/%d/stat' % self.process.pid) as file:
            fields = file.read().rsplit(')', 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def end(self):
        seconds = self.cpu_seconds()
        self.process.kill()
        self.process.wait()
        return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--phases', type=int, default=40)
    parser.add_argument('--port', type=int, default=7399)
    parser.add_argument('--server', default='redis-server')
    parser.add_argument('--set', action='append', default=[], metavar='NAME=VALUE')
    parser.add_argument('allocator', nargs='+', metavar='NAME=LIBRARY')
    args = parser.parse_args()
    for i, allocator in enumerate(args.allocator):
        name, library = allocator.split('=', 1)
        more = [word for option in args.set for word in ('--' + option).split('=', 1)]
        server = Server(library, args.port + i, args.server, [*LIMIT, *more])
        ratios = [server.ratio() for _ in server.phases(args.phases)]
        half = ratios[len(ratios) // 2:]
        print('%-10s RSS/used: mean of the second half %.2f, at most %.2f; %.1f s of CPU time' % (
            name, sum(half) / len(half), max(ratios), server.end()), flush=True)


if __name__ == '__main__':
    main()
