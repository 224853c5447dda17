#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A redis server under load is told by a signal to write profiles, in each format, while it saves in children:
it answers all the time, says nothing, leaves nothing half done, and the format's tool finds the server's
functions in the largest file. (That the numbers agree is for test/outside/readers.)

usage: redis_profile.py LIBRARY [VARIABLE=VALUE...]
"""
import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

LIBRARY = os.path.abspath(sys.argv[1])
MORE = dict(word.split('=', 1) for word in sys.argv[2:])
TYPES = ['heap', 'peak', 'fragmentation', 'allocation', 'lifetime', 'heap']
# What opens each format, if it is installed.
READERS = {
    'pb.gz': ['go', 'tool', 'pprof', '-top', '-nodefraction=0'],
    'pb': ['go', 'tool', 'pprof', '-top', '-nodefraction=0'],
    'heap': ['google-pprof', '--text', '/usr/bin/redis-server'],
    'jeprof': ['jeprof', '--text', '/usr/bin/redis-server'],
    'collapsed': ['cat'],
    'txt': ['cat'],
}


def fail(text):
    print(text)
    sys.exit(1)


# Every second key is deleted, so that half of what lies between others is free.
DELETE = "for i = 0, 5000, 2 do redis.call('del', string.format('key:%012d', i)) end"


def load(port):
    """Requests of several kinds, and a child that saves."""
    for words in (['-t', 'set,get,lpush,hset,zadd', '-n', '4000', '-r', '5000'], ['bgsave'],
                  ['-t', 'set', '-d', '20000', '-n', '1000', '-r', '200'], ['eval', DELETE, '0']):
        program = 'redis-benchmark' if words[0] == '-t' else 'redis-cli'
        quiet = ['-q', '-P', '4'] if words[0] == '-t' else []
        subprocess.run([program, '-p', port, *quiet, *words], check=True, timeout=100,
                       stdout=subprocess.DEVNULL)


def serve(folder, ending, type_):
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = str(probe.getsockname()[1])
    conf = (f'profile:{folder}/{ending}.%n.%p.{ending},profile_type:{type_},profile_signal:RTMIN+7,'
            'sample_interval:16k')
    if type_ == 'fragmentation':
        conf += ',cpu_cache:64k'  # what lies in caches is not free on its span
    if 'SALLOC_CONF' in MORE:
        conf += ',' + MORE['SALLOC_CONF']
    env = {**os.environ, **MORE, 'LD_PRELOAD': LIBRARY, 'SALLOC_CONF': conf}
    with open(os.path.join(folder, 'log'), 'w+b') as log, subprocess.Popen(
            ['redis-server', '--port', port, '--save', '', '--dir', folder, '--loglevel', 'warning'],
            env=env, stdout=log, stderr=log) as server:
        try:
            while subprocess.run(['redis-cli', '-p', port, 'ping'], check=False,
                                 capture_output=True).stdout != b'PONG\n':
                time.sleep(0.05)
            with subprocess.Popen([sys.executable, '-c', f'import os, time\nfor i in range(20):\n'
                                   f' os.kill({server.pid}, {signal.SIGRTMIN + 7})\n time.sleep(0.02)\n']):
                load(port)
            subprocess.run(['redis-cli', '-p', port, 'shutdown', 'nosave'], check=False)
            if server.wait(30):
                fail(f'{ending}: the server ended with {server.returncode}')
        finally:
            server.kill()
        log.seek(0)
        said = log.read().decode(errors='replace')
    if 'salloc' in said:
        fail(said)
    return server.pid


def main():
    for name in ('redis-server', 'redis-benchmark', 'redis-cli'):
        if not shutil.which(name):
            print(f'skipped: {name} is not installed')
            return 77
    for ending, type_ in zip(READERS, TYPES):
        with tempfile.TemporaryDirectory(prefix='salloc-redis-') as folder:
            pid = serve(folder, ending, type_)
            files = glob.glob(f'{folder}/{ending}.*.{pid}.{ending}')
            left = set(os.listdir(folder)) - {os.path.basename(f) for f in files} - {'log', 'dump.rdb'}
            if len(files) < 3 or glob.glob(f'{folder}/.salloc*') or any(not n.endswith(ending) for n in left):
                fail(f'{ending}: {len(files)} files, and {left}')
            largest = max(files, key=os.path.getsize)  # the last may hold what came after the one before, only
            tool = READERS[ending]
            if not shutil.which(tool[0]):
                print(f'{ending}: {tool[0]} is not installed')
                continue
            done = subprocess.run([*tool, largest], capture_output=True, check=False, timeout=100,
                                  env={**os.environ, 'HOME': folder})
            text = done.stdout.decode(errors='replace')
            # The exported names of a stripped server, and libc's.
            known = [n for n in ('main', 'aeMain', 'zmalloc', 'sdsnewlen', '__libc_start_main', 'dictAdd')
                     if n in text]
            print(f'{ending}: {type_}, {len(files)} files and {len(left)} of children; names {known}')
            if done.returncode or len(known) < 2:
                fail(f'{tool}: {done.returncode} {text[:500]} {done.stderr.decode()[:500]}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
