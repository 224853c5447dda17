#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the spans of real programs and of workloads of perf/ (record_spans.c), for score.py.

Each is written to FOLDER as NAME.spans.xz. Of several processes, the one with the longest trace counts. Programs that
are not installed are left out. It takes some three minutes, and needs a build:

    ninja -C build perf/retention/libsalloc-record-spans.so
    perf/retention/record.py [--only WORD] [--folder FOLDER] build

FOLDER: perf/retention/traces
"""
import argparse
import lzma
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import traces

ROOT = os.path.dirname(os.path.dirname(traces.HERE))

JSON = '''
import json, time
for turn in range(4):
    text = json.dumps([{'number': i, 'text': str(i) * 3} for i in range(60000)])
    value = json.loads(text)
    del text, value
    time.sleep(1)
time.sleep(10)
'''

JSON_THREADS = '''
import json, threading, time
def work(number):
    for turn in range(3):
        value = json.loads(json.dumps([{'number': i, 'text': 'x' * (i % 300)} for i in range(20000)]))
        parts = [bytes(i * 37 % 90000) for i in range(300)]
        del value, parts
        time.sleep(0.3)
threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
for t in threads: t.start()
for t in threads: t.join()
time.sleep(20)
'''

PERL = '''
my %lines;
while (<>) { push @{$lines{$_}}, $. for /\\w+/g }
for my $turn (1 .. 3) { my %copy = map { $_ => [@{$lines{$_}}] } keys %lines; }
'''

SQL = '''
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 150000)
insert into t select i, printf('%x %x', i * 2654435761 % 4294967296, i), i * 1.5 from n;
create index tb on t(b);
select count(*) from (select b, sum(c) from t group by substr(b, 1, 4) order by 2);
select max(x) from (select group_concat(b) x from t group by a % 7);
delete from t where a % 3; vacuum;
'''

NODE = '''
const keep = [];
function turn(n) {
    const b = [];
    for (let i = 0; i < n; i++) b.push(Buffer.allocUnsafeSlow(1000 + i * 7919 % 60000).fill(1));
    keep.push(b[0]);
}
let n = 0;
const timer = setInterval(() => { turn(800); if (global.gc) global.gc(); if (++n == 20) clearInterval(timer); }, 200);
setTimeout(() => {}, 12000);
'''


def programs(build, folder):
    """Name: (command, environment, input)."""
    clone = os.path.join(folder, 'clone.git')
    subprocess.run(['git', 'clone', '-q', '--bare', ROOT, clone], check=True)
    python = {'PYTHONMALLOC': 'malloc'}
    library = os.path.dirname(os.__file__)
    modules = [os.path.join(library, n) for n in sorted(os.listdir(library)) if n.endswith('.py')][:60]
    source = os.path.join(ROOT, 'alloc/page_heap/huge/huge_heap.c')
    all_programs = {
        'python3 JSON': ([sys.executable, '-c', JSON], python, None),
        'python3 JSON in threads': ([sys.executable, '-c', JSON_THREADS], python, None),
        'python3 compileall': ([sys.executable, '-m', 'compileall', '-fq', os.path.join(library, 'email')],
                                dict(python, PYTHONPYCACHEPREFIX=folder), None),
        'gcc -O2 -fanalyzer': (['gcc', '-O2', '-fanalyzer', '-S', '-I' + ROOT, '-D_GNU_SOURCE', '-DSALLOC_VERSION=""',
                                '-o', os.path.join(folder, 'out.s'), source], {}, None),
        'git log -p': (['git', '-C', clone, 'log', '--stat', '-p', '-n', '400'], {}, None),
        'git repack': (['git', '-C', clone, '-c', 'pack.threads=2', 'repack', '-adfq'], {}, None),
        'perl words': (['perl', '-e', PERL] + modules, {}, None),
        'sqlite3': (['sqlite3', os.path.join(folder, 'db')], {}, SQL),
        'node buffers': (['node', '--expose-gc', '-e', NODE], {}, None),
        'lru strings': ([os.path.join(build, 'perf/fragmentation/salloc-lru-strings'), '32', '6'], {}, None),
        'breathing sets': ([os.path.join(build, 'perf/salloc-breathe'), '1', '2', '32', '1000', '10000'], {}, None),
        'changing sizes': ([os.path.join(build, 'perf/fragmentation/salloc-changing-sizes'), '40', '12'],
                           {'OVER_LIVE': '1'}, None),
    }
    return {n: p for n, p in all_programs.items() if shutil.which(p[0][0])}


def longest(folder):
    names = [os.path.join(folder, n) for n in os.listdir(folder)]
    return max(names, key=os.path.getsize) if names else None


def record_program(preload, command, env, text):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(command, env=dict(os.environ, LD_PRELOAD=preload, SALLOC_TRACE_DIR=folder, **env),
                       input=text, check=True, stdout=subprocess.DEVNULL, universal_newlines=True)
        with open(longest(folder), 'rb') as file:
            return file.read()


def record_redis(preload):
    """A server that is filled, read, emptied, filled with other sizes, and then waits."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = str(s.getsockname()[1])
        s.close()
        server = subprocess.Popen(['redis-server', '--port', port, '--save', '', '--dir', folder],
                                  env=dict(os.environ, LD_PRELOAD=preload, SALLOC_TRACE_DIR=folder),
                                  stdout=subprocess.DEVNULL)
        try:
            time.sleep(2)
            for size, count in ('400', '100000'), ('3000', '20000'):
                subprocess.run(['redis-benchmark', '-p', port, '-q', '-t', 'set,get,lpush', '-n', count, '-r', count,
                                '-d', size, '-P', '16'], check=True, stdout=subprocess.DEVNULL)
                time.sleep(3)
                subprocess.run(['redis-cli', '-p', port, 'flushall'], check=True, stdout=subprocess.DEVNULL)
            time.sleep(20)
            subprocess.run(['redis-cli', '-p', port, 'shutdown'], check=True, stdout=subprocess.DEVNULL)
        finally:
            server.terminate()
            server.wait()
        with open(longest(folder), 'rb') as file:
            return file.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--only', default='', metavar='WORD')
    parser.add_argument('--folder', default=traces.RECORDED)
    parser.add_argument('build')
    args = parser.parse_args()
    preload = os.path.abspath(os.path.join(args.build, 'perf/retention/libsalloc-record-spans.so'))
    if not os.path.exists(preload):
        sys.exit('there is no %s: ninja -C %s perf/retention/libsalloc-record-spans.so' % (preload, args.build))
    os.makedirs(args.folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        jobs = {n: lambda p=p: record_program(preload, *p) for n, p in programs(args.build, folder).items()}
        if shutil.which('redis-benchmark'):
            jobs['redis-server'] = lambda: record_redis(preload)
        for name, job in jobs.items():
            if args.only not in name:
                continue
            data = lzma.compress(job(), preset=9 | lzma.PRESET_EXTREME)
            with open(os.path.join(args.folder, name.replace(' ', '_') + '.spans.xz'), 'wb') as file:
                file.write(data)
            print('%-36s %7d bytes' % (name, len(data)), flush=True)


if __name__ == '__main__':
    main()
