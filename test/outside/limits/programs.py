#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Real programs in control groups that are nearly full: each is given an input with which it has about 90 % of the group's
limit at its peak under glibc. Under salloc none may be killed, and none may take more than 10 % longer. Needs a memory
controller of version 1 that the user may make groups in; exit status 77 without.

usage: programs.py [--rounds N] [--groups 64,128,256] [--also NAME=PATH] [--most RATIO] LIBRARY [PROGRAM...]

The size of each input is found first, under glibc, by bisection: the peak of the group (memory.max_usage_in_bytes) lies
between 88 and 92 % of the limit. Then the allocators take turns. Shown are medians over the
rounds: processor time of all processes by glibc's (of the same round), peak of the group, times that the kernel found the
group at its limit (memory.failcnt). --most: fail if the median ratio is larger (1.1: ten percent slower).
"""
import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

PARENT = '/sys/fs/cgroup/memory'
SKIPPED = 77
MIB = 1 << 20

PYTHON = '''
import sys
n = int(sys.argv[1])
table = {}
for i in range(n):
    table[str(i * 7919 % n)] = [i, float(i), "value %d" % i]
for turn in range(3):
    for key in list(table)[turn::3]:
        table[key] = (key, "x" * (len(key) * 9 + turn * 20))
print(sum(len(v) for v in table.values()))
'''

NODE = '''
const n = Number(process.argv[2]);
const rows = [], more = [];
for (let i = 0; i < n; i++) rows.push({id: i, name: 'row ' + i, data: Buffer.alloc(100 + i % 900, i)});
for (let turn = 0; turn < 4; turn++)
    for (let i = turn; i < n; i += 4) rows[i] = {id: i, text: ('x' + i).repeat(10), data: Buffer.alloc(50 + i % 1000, turn)};
console.log(rows.reduce((a, r) => a + r.data.length, 0));
'''

SQL = '''
PRAGMA cache_size = -1000000; PRAGMA temp_store = MEMORY;
CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, body TEXT);
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {n})
    INSERT INTO t SELECT i, 'name ' || (i * 7919 % {n}), hex(zeroblob(20 + i % 60)) FROM c;
CREATE INDEX names ON t (name);
UPDATE t SET body = body || name WHERE id % 3 = 0;
DELETE FROM t WHERE id % 5 = 0;
SELECT count(*), sum(length(body)) FROM (SELECT * FROM t ORDER BY body, name);
'''


def redis_commands(n):
    """Strings that grow, lists and hashes; deleted and set again in other sizes."""
    lines = ['SET key:%d %s' % (i, 'v' * (40 + i % 200)) for i in range(n)]
    lines += ['APPEND key:%d %s' % (i, 'w' * (i % 300)) for i in range(0, n, 2)]
    lines += ['DEL key:%d' % i for i in range(0, n, 3)]
    lines += ['HSET hash:%d a %s b %s' % (i, 'x' * 50, 'y' * 90) for i in range(0, n, 3)]
    return '\n'.join(lines) + '\nSHUTDOWN NOSAVE\n'


def c_source(n):
    """Functions of many statements."""
    parts = ['static int g[64];\n']
    for f in range(n):
        body = ''.join('    if (a %% %d == %d) { g[%d] += a * %d; a ^= g[(a >> 3) & 63]; }\n'
                       % (k + 3, k % 3, (f + k) % 64, f + k) for k in range(12))
        parts.append('int f%d(int a)\n{\n%s    return a;\n}\n' % (f, body))
    return ''.join(parts)


class Work:
    """A program and its input of a size: the command, and what stdin is."""

    def __init__(self, name, folder):
        self.name = name
        self.folder = folder

    def prepare(self, n):
        """(command, file for stdin or None, shell around it)"""
        path = os.path.join(self.folder, 'input')

        def put(text):
            with open(path, 'w', encoding='ascii') as f:
                f.write(text)
        if self.name == 'python3':
            put(PYTHON)
            return ['/usr/bin/python3', path, str(n)]
        if self.name == 'node':
            put(NODE)
            return ['node', path, str(n)]
        if self.name == 'sqlite3':
            put(SQL.replace('{n}', str(n)))
            return ['sh', '-c', 'exec sqlite3 :memory: <' + path]
        if self.name == 'gcc':
            put(c_source(n))
            return ['gcc', '-O2', '-x', 'c', '-c', path, '-o', '/dev/null']
        put(redis_commands(n))
        socket = os.path.join(self.folder, 'socket')
        return ['sh', '-c', 'redis-server --port 0 --unixsocket %s --save "" --appendonly no --dir %s >/dev/null & '
                'while [ ! -S %s ]; do sleep 0.02; done; '
                'LD_PRELOAD= redis-cli -s %s <%s >/dev/null; wait $!' % (socket, self.folder, socket, socket, path)]


# Name: the size to begin with.
PROGRAMS = {'python3': 50000, 'node': 10000, 'redis': 50000, 'sqlite3': 50000, 'gcc': 200}


class Run:
    """How a command ended in a group, and what it took."""

    def __init__(self, command, limit, library, variables=None):
        self.group = os.path.join(PARENT, 'salloc-programs-%d' % os.getpid())
        os.mkdir(self.group)
        try:
            if limit:
                self.write('memory.limit_in_bytes', limit)
            self.go(command, library, variables or {})
            self.peak = int(self.read('memory.max_usage_in_bytes'))
            self.full = int(self.read('memory.failcnt'))
        finally:
            self.end()

    def read(self, name):
        """What a file of the group says."""
        with open(os.path.join(self.group, name), encoding='ascii') as f:
            return f.read()

    def write(self, name, value):
        """Sets it."""
        with open(os.path.join(self.group, name), 'w', encoding='ascii') as f:
            f.write(str(value))

    def enter(self):
        """In the child: into the group."""
        self.write('cgroup.procs', 0)

    def go(self, command, library, variables):
        """Runs it."""
        env = dict(os.environ, LC_ALL='C', PYTHONMALLOC='malloc', **variables)
        env.pop('LD_PRELOAD', None)
        env.pop('SALLOC_CONF', None)
        if library:
            env['LD_PRELOAD'] = library
        with subprocess.Popen(command, env=env, preexec_fn=self.enter, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as child:
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        self.failed = child.returncode != 0
        self.cpu = usage.ru_utime + usage.ru_stime

    def end(self):
        """Removes the group, with what is still in it."""
        for _ in range(100):
            for pid in self.read('cgroup.procs').split():
                os.kill(int(pid), signal.SIGKILL)
            try:
                os.rmdir(self.group)
                return
            except OSError:
                time.sleep(0.02)


def fit(work, limit):
    """The size of the input whose peak under glibc is 90 % of the limit; None if there is none."""
    n, below, above = PROGRAMS[work.name], None, None
    Run(work.prepare(n), None, None)  # the first run brings in the files, which count where they are read first
    for _ in range(16):
        run = Run(work.prepare(n), limit, None)  # with the limit, which node's collector goes by
        if not run.failed and 0.88 * limit <= run.peak <= 0.92 * limit:
            return n, run.peak
        if not run.failed and run.peak < 0.9 * limit:
            below = n
        else:
            above = n
        if below and above:
            n = (below + above) // 2
        else:
            n = n * 2 if below else max(n // 2, 1)
        if n in (below, above):  # collectors of garbage do not do the same each time
            below, above = below - below // 10, above + above // 10
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--groups', default='64,128,256')
    parser.add_argument('--also', action='append', default=[])
    parser.add_argument('--most', type=float)
    parser.add_argument('--full', action='store_true', help='only where all tests run')
    parser.add_argument('library')
    parser.add_argument('programs', nargs='*')
    args = parser.parse_args()
    who = {'glibc': None, 'salloc': os.path.abspath(args.library), **dict(a.split('=', 1) for a in args.also)}
    bad = False

    if args.full and not os.environ.get('SALLOC_TEST_FULL'):
        return SKIPPED
    if not os.access(os.path.join(PARENT, 'memory.limit_in_bytes'), os.R_OK) or not os.access(PARENT, os.W_OK):
        print('no memory controller of version 1 in which groups can be made')
        return SKIPPED
    for name in args.programs or PROGRAMS:
        if not shutil.which('redis-server' if name == 'redis' else name):
            print('%s is not installed' % name)
            continue
        for group in args.groups.split(','):
            limit = int(group) * MIB
            with tempfile.TemporaryDirectory() as folder:
                work = Work(name, folder)
                fitted = fit(work, limit)
                if not fitted:
                    print('%-8s %4s MiB: no input has a peak of 90 %% of the limit' % (name, group), flush=True)
                    continue
                command = work.prepare(fitted[0])
                runs = {allocator: [] for allocator in who}
                for _ in range(args.rounds):
                    for allocator, library in who.items():
                        runs[allocator].append(Run(command, limit, library))
            for allocator, done in runs.items():
                killed = sum(r.failed for r in done)
                ratios = [r.cpu / g.cpu for r, g in zip(done, runs['glibc']) if not r.failed and not g.failed]
                ratio = statistics.median(ratios) if ratios else float('nan')
                print('%-8s %4s MiB %-9s killed %d of %d, %.2f s, %.2f of glibc (%.2f-%.2f), peak %.0f %%, full %d' % (
                    name, group, allocator, killed, len(done), statistics.median(r.cpu for r in done), ratio,
                    min(ratios, default=0), max(ratios, default=0), 100 * max(r.peak for r in done) / limit,
                    statistics.median(r.full for r in done)), flush=True)
                if allocator == 'salloc':
                    bad |= killed > 0 or (args.most is not None and not ratio <= args.most)
    return bad


if __name__ == '__main__':
    sys.exit(main())
