#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sallocctl leaks: planted leaks are found to the byte, and what can be reached is not reported.

usage: leaks.py LIBRARY SALLOCCTL LEAKER CASE
With every block sampled, the figures are exact: those that the program itself gives. With fewer, the truth lies in the
interval. Programs that are known not to lose memory lose nothing, with every block sampled.
"""
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'readers'))
from proto import Profile  # noqa: E402

READINGS = 40  # of a program that does one thing again and again
LOST = re.compile(r'lost: (\d+) bytes \(95 %: (\d+) to (\d+|unknown)\) in (\d+) blocks')


class Report:
    """What the command says."""

    def __init__(self, text):
        self.text = text
        found = LOST.match(text)
        assert found, text
        self.bytes, self.low, self.blocks = (int(found.group(i)) for i in (1, 2, 4))
        self.high = float('inf') if found.group(3) == 'unknown' else int(found.group(3))
        self.samples, self.lost = map(int, re.search(r'samples: (\d+) in use, (\d+) of them lost', text).groups())
        self.all_looked_at = 'not looked at' not in text
        # [bytes, from, to, blocks, samples, bytes held, samples held, functions] of each stack.
        self.rows = []
        for line in text.splitlines():
            if re.match(r' *\d+ +\d+ +(\d+|unknown) +\d+ +\d+ +\d+ +\d+$', line):
                self.rows.append([float(word.replace('unknown', 'inf')) for word in line.split()] + [[]])
            elif line.startswith(' ' * 23) and self.rows:
                self.rows[-1][-1].append(line.strip())
        assert sum(row[4] for row in self.rows) == self.lost, text


class Test:
    def __init__(self, library, tool, leaker, folder):
        self.library, self.tool, self.leaker, self.folder = library, tool, leaker, folder
        self.processes = []

    def start(self, command, interval=1, conf='', **more):
        env = dict(os.environ, LD_PRELOAD=self.library, SALLOC_CONF='sample_interval:%d%s' % (interval, conf))
        env.update(more)
        process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self.folder,
                                   stderr=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def plant(self, name, **more):
        """A program with a plant, and what it says of it: (process, blocks, bytes)."""
        process = self.start([self.leaker, name], **more)
        words = process.stdout.readline().split()
        assert words and words[-1] == b'ready', (name, words)
        return process, int(words[0]), int(words[1])

    def run(self, *arguments, code=0):
        result = subprocess.run([self.tool, 'leaks', *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                check=False, timeout=100, universal_newlines=True)
        assert result.returncode == code, (arguments, result)
        return result

    def leaks(self, what, moving=False):
        """moving: a block may be changing its length, and is then neither lost nor held."""
        result = self.run(str(what))
        assert result.stderr == '', result
        report = Report(result.stdout)
        assert moving or report.all_looked_at, report.text
        return report

    def kernel_core(self, process):
        """The core that the kernel writes when a signal ends the process. None: it writes none here."""
        with open('/proc/sys/kernel/core_pattern', encoding='ascii') as f:
            pattern = f.read().strip()
        most = resource.prlimit(process.pid, resource.RLIMIT_CORE)[1]
        if not pattern or '/' in pattern or pattern.startswith('|') or '%' in pattern or 0 <= most < 1 << 30:
            return None
        resource.prlimit(process.pid, resource.RLIMIT_CORE, (most, most))
        process.send_signal(signal.SIGABRT)
        process.wait()
        cores = [name for name in os.listdir(self.folder) if name.startswith(pattern)]
        assert len(cores) == 1, cores
        return os.path.join(self.folder, cores[0])

    def core(self, pid):
        prefix = os.path.join(self.folder, 'core')
        subprocess.run(['gcore', '-o', prefix, str(pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       check=True, timeout=100)
        return '%s.%d' % (prefix, pid)

    def end(self, process):
        process.kill()
        process.wait()


def stays_as_it_was(process):
    """It runs on, and nothing traces it."""
    assert process.poll() is None
    with open('/proc/%d/status' % process.pid, encoding='ascii') as f:
        status = f.read()
    assert 'TracerPid:\t0\n' in status and not re.search(r'State:\s+[Tt]', status), status


def exact(report, name, blocks, size):
    assert (report.blocks, report.bytes, report.lost) == (blocks, size, blocks), \
        '%s: %d blocks of %d bytes are lost:\n%s' % (name, blocks, size, report.text)
    for row in report.rows:
        assert 'kept_block' not in row[-1], (name, report.text)
        assert row[0] == row[1] == row[2], (name, report.text)
    # What is lost is found where it was allocated.
    if name not in ('aligned', 'grown') and blocks:
        assert all('lost_block' in row[-1] for row in report.rows), (name, report.text)
    # It does not lie in itself; what is in a shape is held by one of its blocks.
    held = sum(row[6] for row in report.rows)
    shapes = 8
    alone = {'list': shapes, 'both_ways': shapes, 'ring': shapes, 'tree': shapes, 'tree_of_cycles': shapes, 'table': shapes,
             'hash': shapes, 'pairs': shapes * 50, 'inner': shapes, 'large': shapes, 'by_thread': shapes, 'deep': shapes}
    if name in alone:
        assert blocks - held == alone[name], (name, held, report.text)
    elif name != 'graph' and not name.startswith('cxx_'):
        assert held == 0, (name, report.text)


def names(test):
    out = subprocess.run([test.leaker], stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout
    return [line for line in out.splitlines() if ' ' not in line]


def case_planted(test):
    for name in names(test):
        process, blocks, size = test.plant(name)
        assert (blocks > 0) == (not re.match('in_|by_i|by_e|by_w|behind', name)), name
        report = test.leaks(process.pid)
        exact(report, name, blocks, size)
        stays_as_it_was(process)
        print('%-24s %6d blocks %9d bytes lost, of %6d' % (name, blocks, size, report.samples))
        test.end(process)


def case_core(test):
    if not shutil.which('gcore'):
        sys.exit(77)
    wanted = ('in_registers', 'by_waiting_thread', 'by_thread', 'cxx_in_thread')
    for name in names(test)[::3] + [name for name in names(test) if name in wanted]:
        process, blocks, size = test.plant(name)
        core = test.core(process.pid)
        exact(test.leaks(core), name, blocks, size)
        os.remove(core)
        core = test.kernel_core(process)
        if core:
            exact(test.leaks(core), name, blocks, size)
            os.remove(core)
        test.end(process)


def case_estimates(test):
    """One block in many is sampled: the truth lies in the interval, 19 times of 20. Nothing that is kept is ever reported."""
    inside = 0
    tried = ['single', 'list', 'ring', 'tree', 'hash', 'graph', 'medium', 'deep', 'strings', 'grown']
    for name in tried:
        process, _, size = test.plant(name, interval=1000)
        report = test.leaks(process.pid)
        inside += report.low <= size <= report.high
        assert report.lost > 10 and report.bytes, report.text
        assert report.low < report.bytes < report.high, report.text
        test.end(process)
    assert inside >= 7, inside  # 6 or less by chance: once in 1,500 runs
    for name in ('in_long_list', 'in_large_block', 'by_inner_pointers'):
        process, _, _ = test.plant(name, interval=1000)
        assert test.leaks(process.pid).lost == 0
        test.end(process)


def case_moving(test):
    """Stopped at any instruction, also within the library, a program has lost nothing."""
    for name in names(test):
        process, _, _ = test.plant(name)
        for _ in range(READINGS):
            time.sleep(random.uniform(0, 0.002))
            report = test.leaks(process.pid, moving=True)
            assert report.lost == 0, (name, report.text)
        test.end(process)


def case_modes(test):
    """A cache for each thread; names of mappings; a heap without guarded samples."""
    for conf in (',per_cpu:off', ',map_names:true', ',guarded_slots:0'):
        for name in ('tree', 'deep', 'in_long_list', 'root_only'):
            process, blocks, size = test.plant(name, conf=conf)
            exact(test.leaks(process.pid), name, blocks, size)
            test.end(process)
    # Many blocks that end where a page does.
    for name in ('by_end', 'by_inner_pointers', 'in_registers'):
        process, _, _ = test.plant(name, conf=',hardening:sampled')
        exact(test.leaks(process.pid), name, 0, 0)
        test.end(process)


def case_profile(test):
    """The lost blocks as a profile."""
    process, blocks, size = test.plant('tree')
    path = os.path.join(test.folder, 'lost.pb.gz')
    assert test.run('-o', path, str(process.pid)).stdout == ''
    profile = Profile(path)
    columns = {name: i for i, (name, _) in enumerate(profile.types)}
    assert sum(values[columns['inuse_objects']] for _, values, _ in profile.samples) == blocks
    assert sum(values[columns['inuse_space']] for _, values, _ in profile.samples) == size
    assert 'ending' in test.run('-o', 'x.heap', str(process.pid), code=2).stderr
    assert 'name one' in test.run(code=2).stderr
    assert 'no such process' in test.run('4194304', code=3).stderr
    assert "salloc's note" in test.run(str(os.getpid()), code=5).stderr
    stays_as_it_was(process)
    test.end(process)


def clean(test, pid, name):
    report = test.leaks(pid)
    print('%s: %d samples' % (name, report.samples))
    assert report.samples > 100 and report.lost == 0, report.text


def start_redis(test, *options, **more):
    """A server that is ready, on the socket `redis`."""
    process = test.start(['redis-server', '--port', '0', '--unixsocket', 'redis', '--save', '', *options], **more)
    while b'eady to accept' not in process.stdout.readline():
        assert process.poll() is None
    return process


def case_redis(test):
    if not shutil.which('redis-server') or not shutil.which('redis-cli'):
        sys.exit(77)
    process = start_redis(test, '--enable-debug-command', 'local', interval=64)
    cli = ['redis-cli', '-s', os.path.join(test.folder, 'redis')]
    subprocess.run([*cli, 'debug', 'populate', '10000'], stdout=subprocess.DEVNULL, check=True, timeout=60)
    for i in range(50):
        subprocess.run([*cli, 'eval', 'for i=1,100 do redis.call("zadd", KEYS[1], i, i); redis.call("hset", "h"..KEYS[1], i, i) end',
                        '1', 'k%d' % i], stdout=subprocess.DEVNULL, check=True, timeout=60)
    clean(test, process.pid, 'redis-server')
    test.end(process)


def case_python(test):
    code = ('import sys, json, re, collections\n'
            'keep = [{str(i): [i, str(i) * 9, collections.deque([i])]} for i in range(3000)]\n'
            'ring = []; ring.append(ring)\n'
            'print("ready", flush=True); sys.stdin.read()')
    for allocator in ('malloc', 'pymalloc'):
        process = test.start([os.path.realpath(sys.executable), '-c', code], interval=64, PYTHONMALLOC=allocator)
        assert process.stdout.readline() == b'ready\n'
        clean(test, process.pid, 'python3 with ' + allocator)
        test.end(process)


def case_sqlite(test):
    if not shutil.which('sqlite3'):
        sys.exit(77)
    process = test.start(['sqlite3', '-batch'], interval=64)
    process.stdin.write(b'create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c where x < 20000) '
                        b'insert into t select x, hex(randomblob(50)) from c; create index i on t(b);\n'
                        b'create view v as select a.a, b.b from t a join t b using (b); select count(*) from v;\n')
    process.stdin.flush()
    assert process.stdout.readline() == b'20000\n'
    clean(test, process.pid, 'sqlite3')
    test.end(process)


def start_nginx(test, server, **more):
    """A server that is ready, on `socket`. server: what its block of the configuration says."""
    folder = test.folder
    with open(os.path.join(folder, 'conf'), 'w', encoding='ascii') as f:
        f.write('daemon off; user root; worker_processes 2; pid %s/pid; error_log %s/log; events { worker_connections 256; }\n'
                'http { access_log off; server { listen unix:%s/socket; %s } }\n' % (folder, folder, folder, server))
    process = test.start(['nginx', '-e', folder + '/log', '-c', folder + '/conf'], interval=64, **more)
    for _ in range(100):
        time.sleep(0.05)
        if os.path.exists(folder + '/socket'):
            break
    return process


def children_of(pid):
    with open('/proc/%d/task/%d/children' % (pid, pid), encoding='ascii') as f:
        return f.read().split()


def case_nginx(test):
    if not shutil.which('nginx') or not shutil.which('curl'):
        sys.exit(77)
    folder = test.folder
    process = start_nginx(test, 'location / { return 200 hello; }')
    for _ in range(20):
        subprocess.run(['curl', '-s', '--unix-socket', folder + '/socket', 'http://x/'], check=True, timeout=60,
                       stdout=subprocess.DEVNULL)
    workers = children_of(process.pid)
    assert workers
    for pid in [str(process.pid)] + workers:
        clean(test, pid, 'nginx')
    process.terminate()
    process.wait()


def main(library, tool, leaker, case):
    with tempfile.TemporaryDirectory() as folder:
        test = Test(*map(os.path.abspath, (library, tool, leaker)), folder)
        try:
            globals()['case_' + case](test)
        finally:
            for left in test.processes:
                left.kill()


if __name__ == '__main__':
    main(*sys.argv[1:])
