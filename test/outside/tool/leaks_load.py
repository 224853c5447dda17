#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sallocctl leaks of programs under load: none of their memory is said to be lost. Each works for half of the time with
every sparse span made a mixed span: there, blocks are not told apart.

usage: leaks_load.py LIBRARY SALLOCCTL redis|python|sqlite|nginx
SALLOC_TEST_SECONDS: how long each program works (default: 5). It is asked again and again in that time, at moments that
are chosen at random. Status 77: the program is not installed.
"""
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from leaks import Test, children_of, start_nginx, start_redis  # noqa: E402  # pylint: disable=wrong-import-order

SECONDS = float(os.environ.get('SALLOC_TEST_SECONDS') or 5)
INTERVAL = 512  # bytes: some thousand samples in use
READINGS = 200  # over all the time

# Values are added, changed, and go; some leave on their own.
REDIS = '''
local r = redis.call
math.randomseed(tonumber(ARGV[1]))
for i = 1, 300 do
    local k = math.random(2000)
    r("set", "s" .. k, string.rep("x", math.random(900)), "px", math.random(60000))
    r("hset", "h" .. k, "f" .. math.random(40), string.rep("y", math.random(200)))
    r("zadd", "z" .. k, math.random(100), "m" .. math.random(200))
    r("rpush", "l" .. k, string.rep("z", math.random(300)))
    r("xadd", "x" .. k % 50, "maxlen", "~", 100, "*", "a", i)
    if r("llen", "l" .. k) > 30 then r("del", "l" .. k) end
    if math.random(20) == 1 then r("unlink", "h" .. k, "z" .. k) end
end
'''

PYTHON = '''
import collections, json, random, re, sys, threading, time, zlib
end, kept = time.monotonic() + float(sys.argv[1]), collections.OrderedDict()
def work(seed):
    rng = random.Random(seed)
    while time.monotonic() < end:
        n = rng.randrange(1, 400)
        node = {"n": n, "text": str(n) * rng.randrange(1, 40), "list": [rng.random() for _ in range(n % 50)]}
        node["self"] = node
        kept[seed, rng.randrange(3000)] = [json.dumps(node["list"]), re.findall("[1-4]+", node["text"]), node, zlib.compress(node["text"].encode())]
        if len(kept) > 5000:
            for _ in range(100):
                kept.popitem(last=False)
threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
for t in threads: t.start()
print("ready", flush=True)
for t in threads: t.join()
'''

SQLITE = (b'begin; insert into t select x, hex(randomblob(abs(random()) % 300)), random() % 1000 from c limit 400; commit;\n'
          b'select sum(length(u)), count(*) from (select group_concat(b) u from t group by c % 17 order by 1);\n'
          b'update t set b = hex(randomblob(30)) where c % 7 = TURN;\n'
          b'with d as (select *, row_number() over (partition by c order by a) r from t) select count(*) from d where r < 3;\n'
          b'delete from t where rowid in (select rowid from t order by random() limit 300);\n'
          b'create temp table u as select * from t where c > 0; drop table u; select json_group_array(b) from (select b from t limit 90);\n')


class Load:
    """A program that works while it is asked for what it has lost."""

    def __init__(self, test, name):
        self.test, self.name = test, name
        self.samples = self.readings = 0
        self.rng = random.Random(1)
        self.start = time.monotonic()

    def left(self):
        return self.start + SECONDS / 2 - time.monotonic()

    def ask(self, pids):
        """Waits for a moment, and asks."""
        time.sleep(self.rng.uniform(0, 2 * SECONDS / READINGS))
        for pid in pids:
            report = self.test.leaks(pid)
            assert report.lost == 0, report.text
            self.samples += report.samples
            self.readings += 1

    def end(self, process):
        process.kill()
        process.wait()
        print('%s: asked %d times, %d samples in use on average' % (self.name, self.readings, self.samples // max(1, self.readings)))
        assert self.readings and self.samples > 100 * self.readings


def feed(work):
    """A process that calls work(n) for n = 0, 1, 2, ..., and ends if that fails."""
    pid = os.fork()
    if not pid:
        try:
            for n in itertools.count():
                work(n)
        finally:
            os._exit(1)
    return pid


def quietly(command, folder):
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=100)


def stop(pid):
    """Stops a feeder. It must have worked until now."""
    assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    os.kill(pid, 9)
    os.waitpid(pid, 0)


def run_redis(test, conf):
    process = start_redis(test, interval=INTERVAL, conf=conf)
    load = Load(test, 'redis-server')
    feeder = feed(lambda n: quietly(['redis-cli', '-s', 'redis', 'eval', REDIS, '0', str(n)], test.folder))
    while load.left() > 0:
        load.ask([process.pid])
    stop(feeder)
    load.end(process)


def run_python(test, conf):
    process = test.start([os.path.realpath(sys.executable), '-c', PYTHON, str(SECONDS + 60)], interval=INTERVAL, conf=conf, PYTHONMALLOC='malloc')
    assert process.stdout.readline() == b'ready\n'
    load = Load(test, 'python3')
    while load.left() > 0:
        load.ask([process.pid])
    load.end(process)


def run_sqlite(test, conf):
    process = test.start(['sqlite3', '-batch'], interval=INTERVAL, conf=conf)
    process.stdin.write(b'create table t(a, b, c); create index i on t(c, b); create index j on t(b);\n'
                        b'create view c as with recursive c(x) as (select 1 union all select x + 1 from c where x < 400) select x from c;\n'
                        b'select 1;\n')
    process.stdin.flush()
    assert process.stdout.readline() == b'1\n'

    def work(n):
        process.stdin.write(SQLITE.replace(b'TURN', b'%d' % (n % 7)))
        process.stdin.flush()
        assert [process.stdout.readline() for _ in range(3)][-1]

    feeder = feed(work)
    load = Load(test, 'sqlite3')
    while load.left() > 0:
        load.ask([process.pid])
    stop(feeder)
    load.end(process)


def run_nginx(test, conf):
    folder = test.folder
    with open(os.path.join(folder, 'big.txt'), 'w', encoding='ascii') as f:
        f.write(''.join(map(str, range(30000))))
    os.chmod(folder, 0o755)
    process = start_nginx(test, 'gzip on; gzip_types *; root %s; location /hello { return 200 hello; }\n'
                          'location /up { proxy_pass http://unix:%s/socket:/hello; }' % (folder, folder), conf=conf)
    load = Load(test, 'nginx')
    curl = ['curl', '-sf', '--compressed', '--unix-socket', 'socket'] + ['http://x/' + what for what in ('up', 'big.txt', 'hello') * 20]
    feeder = feed(lambda n: quietly(curl, folder))
    while load.left() > 0:
        load.ask([str(process.pid)] + children_of(process.pid))
    stop(feeder)
    process.terminate()
    process.wait()
    load.end(process)


NEEDS = {'redis': ['redis-server', 'redis-cli'], 'python': [], 'sqlite': ['sqlite3'], 'nginx': ['nginx', 'curl']}


def main(library, tool, name):
    if not all(map(shutil.which, NEEDS[name])):
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        test = Test(os.path.abspath(library), os.path.abspath(tool), None, folder)
        try:
            for conf in ('', ',mixed_spans:always'):
                globals()['run_' + name](test, conf)
        finally:
            for left in test.processes:
                left.kill()


if __name__ == '__main__':
    main(*sys.argv[1:])
