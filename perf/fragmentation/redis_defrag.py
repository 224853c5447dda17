#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What redis-server's active defragmentation gives back: RSS over the bytes that the server uses, before and after.

A server is filled with values of 16 to 1024 bytes, and 3 of 4 keys are deleted at random. The first reading comes when
the allocator has had 10 s to release what is free as a whole. Then active defragmentation is switched on until it stops
by itself. The digest of all data must stay the same, and every value that is left is compared.

The servers need active defragmentation: redis with its own jemalloc, or with doc/examples/redis-active-defrag.patch.

usage: redis_defrag.py [--keys N] [--settle SECONDS] [--threshold PERCENT] [--port N] NAME=PROGRAM...
"""
import argparse
import random
import time

from redis_sizes import Server

OPTIONS = ['--enable-debug-command', 'yes', '--active-defrag-ignore-bytes', '1mb', '--active-defrag-cycle-min', '10',
           '--active-defrag-cycle-max', '50']
BATCH = 1000


def in_batches(server, requests):
    replies = []
    for i in range(0, len(requests), BATCH):
        replies += server.ask_all(requests[i:i + BATCH])
    return replies


def key(i):
    return b'key:%d' % i


def value(i, size):
    return (b'%d,' % i * (size // 2 + 1))[:size]


def wait_for(server, running, seconds):
    """True when active defragmentation runs (or does not) within some seconds."""
    end = time.monotonic() + seconds
    while (server.info()['active_defrag_running'] != '0') != running:
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def read(server):
    values = server.info()
    used, rss = int(values['used_memory']), int(values['used_memory_rss'])
    return {'used': used, 'rss': rss, 'ratio': rss / used, 'frag': float(values['allocator_frag_ratio']),
            'hits': int(values['active_defrag_hits']), 'misses': int(values['active_defrag_misses'])}


def run(program, port, keys, settle, threshold):
    """(readings before and after, seconds that it took, seconds of CPU time)"""
    rng = random.Random(1)
    sizes = [int(16 * 64 ** rng.random()) for _ in range(keys)]
    deleted = set(rng.sample(range(keys), keys * 3 // 4))
    left = [i for i in range(keys) if i not in deleted]
    server = Server('', port, program, [*OPTIONS, '--active-defrag-threshold-lower', str(threshold)])
    try:
        in_batches(server, [[b'SET', key(i), value(i, size)] for i, size in enumerate(sizes)])
        in_batches(server, [[b'DEL', key(i)] for i in sorted(deleted, key=lambda i: (i * 7919) % keys)])
        time.sleep(settle)
        before, digest, cpu, begin = read(server), server.ask('DEBUG', 'DIGEST'), server.cpu_seconds(), time.monotonic()
        if server.ask('CONFIG', 'SET', 'activedefrag', 'yes') != b'+OK' or not wait_for(server, True, 10):
            raise SystemExit('%s: active defragmentation does not start' % program)
        if not wait_for(server, False, 300):
            raise SystemExit('%s: active defragmentation does not stop' % program)
        took, cpu = time.monotonic() - begin, server.cpu_seconds() - cpu
        time.sleep(settle)
        after = read(server)
        assert server.ask('DEBUG', 'DIGEST') == digest, 'the digest has changed'
        assert int(server.ask('DBSIZE')[1:]) == len(left)
        for i, reply in zip(left, in_batches(server, [[b'GET', key(i)] for i in left])):
            assert reply == value(i, sizes[i]), 'the value of %d has changed' % i
        return before, after, took, cpu
    finally:
        server.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--keys', type=int, default=1000000)
    parser.add_argument('--settle', type=float, default=10)
    parser.add_argument('--threshold', type=int, default=5, help='percent: active-defrag-threshold-lower')
    parser.add_argument('--port', type=int, default=7499)
    parser.add_argument('server', nargs='+', metavar='NAME=PROGRAM')
    args = parser.parse_args()
    for i, server in enumerate(args.server):
        name, program = server.split('=', 1)
        before, after, took, cpu = run(program, args.port + i, args.keys, args.settle, args.threshold)
        for when, r in (('before', before), ('after', after)):
            print('%-10s %-6s used %5.1f MB, RSS %5.1f MB, RSS/used %.2f, allocator_frag_ratio %.2f' % (
                name, when, r['used'] / 1e6, r['rss'] / 1e6, r['ratio'], r['frag']))
        print('%-10s %d moved, %d left where they were, in %.1f s with %.1f s of CPU time' % (
            name, after['hits'], after['misses'], took, cpu), flush=True)


if __name__ == '__main__':
    main()
