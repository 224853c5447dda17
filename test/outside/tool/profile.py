#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sallocctl profile against the profile that the process itself writes, which it must equal to the byte.

usage: profile.py LIBRARY SALLOCCTL WORKER STATIC-WORKER CASE
Of each case: stacks, blocks and bytes of every sample, and what was ever allocated, are the same. Locked memory is left
out: only the process itself learns it. A core has nothing about residency.
"""
import glob
import json
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'readers'))
from proto import Profile  # noqa: E402

INTERVAL = 16384


class Worker:
    """A program that runs, and is quiet when it says so."""

    def __init__(self, test, command, preload=True, ready=b'ready\n', conf='', interval=INTERVAL, **more):
        self.test = test
        self.own = os.path.join(test.folder, 'own.pb')
        env = dict(os.environ, PYTHONMALLOC='malloc')
        env['SALLOC_CONF'] = 'sample_interval:%d,profile:%s,profile_signal:RTMIN+7%s' % (interval, self.own, conf)
        if preload:
            env['LD_PRELOAD'] = test.library
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **more)
        test.workers.append(self)
        for line in self.process.stdout:
            if ready in line:
                break
        else:
            raise AssertionError('it did not start')
        self.pid = self.process.pid

    def own_profile(self):
        """What the process writes itself; nothing of it is in the heap."""
        if os.path.exists(self.own):
            os.remove(self.own)
        os.kill(self.pid, signal.SIGRTMIN + 7)
        for _ in range(400):
            if os.path.exists(self.own):
                return Profile(self.own)
            time.sleep(0.02)
        raise AssertionError('the process writes no profile')

    def end(self):
        self.process.kill()
        self.process.wait()


class Test:
    def __init__(self, library, tool, worker, static, folder):
        self.library, self.tool, self.worker, self.static, self.folder = library, tool, worker, static, folder
        self.workers = []

    def run(self, *arguments, code=0):
        result = subprocess.run([self.tool, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                                timeout=60, universal_newlines=True)
        assert result.returncode == code, (arguments, result)
        return result

    def outside(self, what, *more):
        path = os.path.join(self.folder, 'outside.pb')
        result = self.run('profile', '-o', path, *more, str(what))
        assert result.stderr == '' and result.stdout == '', result
        return Profile(path)

    def allocations(self, pid, seconds):
        path = os.path.join(self.folder, 'allocations.pb')
        self.run('profile', '-t', 'allocations', '--seconds', seconds, '-o', path, str(pid))
        return Profile(path)

    def core(self, pid):
        prefix = os.path.join(self.folder, 'core')
        subprocess.run(['gcore', '-o', prefix, str(pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       check=True, timeout=100)
        return '%s.%d' % (prefix, pid)


def in_use(profile):
    """Bytes in use, estimated."""
    at = [name for name, _ in profile.types].index('inuse_space')
    return sum(values[at] for _, values, _ in profile.samples)


def rows(profile, types):
    """What the samples say, whatever their order: [(stack, values, labels)]."""
    names = [name for name, _ in profile.types]
    columns = [names.index(name) for name in types]
    return sorted((tuple(profile.locations[i][1] for i in ids), tuple(values[c] for c in columns), sorted(labels.items()))
                  for ids, values, labels in profile.samples)


def functions(profile):
    return {name for location in profile.locations.values() for name in location[2]}


COUNTS = ['alloc_objects', 'alloc_space', 'inuse_objects', 'inuse_space']
PAGES = ['resident_space', 'swapped_space', 'zero_space']


def same(ours, own, types):
    mine, theirs = rows(ours, types), rows(own, types)
    assert len(theirs) > 20, 'hardly any samples: %d' % len(theirs)
    assert mine == theirs, 'they differ: %s' % [pair for pair in zip(mine, theirs) if pair[0] != pair[1]][:3]
    # Comments: everything that the summary says, but for the time and locked memory.
    def summary(profile):
        return [re.sub(r'locked [^)]*\), ', '', c) for c in profile.comments if not c.startswith('time ')]
    if types == COUNTS + PAGES:
        assert summary(ours) == summary(own), (summary(ours), summary(own))


def case_still(test):
    worker = Worker(test, [test.worker, 'still'])
    own, outside = worker.own_profile(), test.outside(worker.pid)
    same(outside, own, COUNTS + PAGES)
    assert {'small_block', 'large_block', 'main'} <= functions(outside), functions(outside)
    same(test.outside(worker.pid, '--stop'), own, COUNTS + PAGES)
    piped = subprocess.run([test.tool, 'profile', str(worker.pid)], stdout=subprocess.PIPE, check=True).stdout
    path = os.path.join(test.folder, 'piped.pb.gz')
    with open(path, 'wb') as f:
        f.write(piped)
    same(Profile(path), own, COUNTS + PAGES)
    worker.end()


def case_peak(test):
    """The heap when most was in use, of which a third was freed since; live, and of a core."""
    worker = Worker(test, [test.worker, 'still'], conf=',profile_type:peak')
    own, outside = worker.own_profile(), test.outside(worker.pid, '-t', 'peak')
    same(outside, own, COUNTS)
    now = test.outside(worker.pid)
    assert in_use(own) > in_use(now) * 1.2
    assert [c for c in outside.comments if c.startswith('time ')] == [c for c in own.comments if c.startswith('time ')]
    if shutil.which('gcore'):
        same(test.outside(test.core(worker.pid), '-t', 'peak'), own, COUNTS)
    worker.end()


def case_replaced(test):
    """A peak whose samples are freed and added up while they are read: none counts twice, and none is left out."""
    worker = Worker(test, [test.worker, 'replace'], interval=2048)
    readings = [in_use(test.outside(worker.pid, '-t', 'peak', *stop)) for stop in (['--stop'], [], ['--stop'], [], [], ['--stop'])]
    assert all(abs(bytes_ / readings[-1] - 1) < 0.001 for bytes_ in readings), readings
    worker.end()


def case_fragmentation(test):
    """The free memory that blocks keep from other use; live, and of a core."""
    worker = Worker(test, [test.worker, 'still'], conf=',profile_type:fragmentation')
    own, outside = worker.own_profile(), test.outside(worker.pid, '-t', 'fragmentation')
    types = [name for name, _ in own.types]
    assert 'fragmentation' in ' '.join(types + own.comments), (types, own.comments)
    same(outside, own, types)
    def estimates(profile):
        return [c for c in profile.comments if 'interval' in c]
    assert estimates(outside) == estimates(own) and estimates(own), (estimates(outside), estimates(own))
    if shutil.which('gcore'):
        same(test.outside(test.core(worker.pid), '-t', 'fragmentation'), own, types)
    worker.end()
    # What mixed spans save is what the stats page says.
    assert not [c for c in own.comments if 'mixed' in c], own.comments
    worker = Worker(test, [test.worker, 'still'], conf=',profile_type:fragmentation,mixed_spans:always')
    saved = json.loads(test.run('stats', '--json', str(worker.pid)).stdout)['gauges']['mixed_saved_bytes']
    for profile in (worker.own_profile(), test.outside(worker.pid, '-t', 'fragmentation')):
        assert saved > 100000 and 'mixed spans save %d bytes' % saved in profile.comments, (saved, profile.comments)
    worker.end()


def case_core(test):
    """gdb's core of a process that goes on."""
    if not shutil.which('gcore'):
        sys.exit(77)
    worker = Worker(test, [test.worker, 'still'])
    own = worker.own_profile()
    stopped = test.outside(worker.pid, '--stop')
    core = test.core(worker.pid)
    same(test.outside(core), own, COUNTS)
    assert rows(stopped, COUNTS) == rows(test.outside(core), COUNTS)
    assert 'small_block' in functions(test.outside(core))


def case_abort(test):
    """The kernel's core of a process that a signal ends: it has the first page only of the library's code."""
    with open('/proc/sys/kernel/core_pattern', encoding='ascii') as f:
        pattern = f.read().strip()
    if '/' in pattern or pattern.startswith('|') or '%' in pattern:
        sys.exit(77)
    worker = Worker(test, [test.worker, 'still'], cwd=test.folder,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (1 << 33, 1 << 33)))
    own = worker.own_profile()
    os.kill(worker.pid, signal.SIGABRT)
    worker.process.wait()
    core = [os.path.join(test.folder, name) for name in os.listdir(test.folder) if name.startswith(pattern)]
    assert len(core) == 1, os.listdir(test.folder)
    same(test.outside(core[0]), own, COUNTS)
    assert 'small_block' in functions(test.outside(core[0]))
    # The library's file is gone, or another one: that is said, and nothing is guessed.
    with open(core[0], 'rb') as f:
        data = f.read()
    name = os.path.realpath(test.library).encode()
    assert name + b'\0' in data
    with open(core[0], 'wb') as f:
        f.write(data.replace(name + b'\0', name[:-1] + b'?\0'))
    result = test.run('profile', '-o', os.path.join(test.folder, 'none.pb'), core[0], code=7)
    assert 'the file of the library' in result.stderr, result.stderr


def case_static(test):
    worker = Worker(test, [test.static, 'still'], preload=False)
    own = worker.own_profile()
    same(test.outside(worker.pid), own, COUNTS + PAGES)
    worker.end()


def case_filter(test):
    """A filter under which the process can make no system call but read, write and exit."""
    worker = Worker(test, [test.worker, 'filter'])
    time.sleep(0.2)
    outside = test.outside(worker.pid)
    assert len(rows(outside, COUNTS)) > 20 and 'large_block' in functions(outside)
    assert worker.process.poll() is None
    worker.end()


def case_stopped(test):
    """A process that is stopped anywhere, locks held or not, is read: twice the same, and without --stop."""
    worker = Worker(test, [test.worker, 'storm'])
    for i in range(8):
        time.sleep(0.01 + 0.003 * (i % 7))
        os.kill(worker.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, worker.pid, os.WSTOPPED)
        first = test.outside(worker.pid)
        assert rows(first, COUNTS) == rows(test.outside(worker.pid), COUNTS)
        assert rows(first, COUNTS) == rows(test.outside(worker.pid, '--stop'), COUNTS)
        os.kill(worker.pid, signal.SIGCONT)
    worker.end()


def case_storm(test):
    """A process that allocates all the time is read without stopping it: at most one record in 1,000 is left out, and
    what is in use is what readings of the stopped process say."""
    worker = Worker(test, [test.worker, 'storm'])
    left_out = samples = 0
    running, stopped = [], []
    time.sleep(1)  # until it has allocated all that it keeps
    for _ in range(10):
        path = os.path.join(test.folder, 'storm.pb')
        result = test.run('profile', '-o', path, str(worker.pid))
        found = re.match(r'sallocctl: (\d+) records', result.stderr)
        left_out += int(found.group(1)) if found else 0
        profile = Profile(path)
        samples += len(rows(profile, COUNTS))
        running.append(in_use(profile))
        stopped.append(in_use(test.outside(worker.pid, '--stop')))
    print('%d rows, %d records left out; %s and %s bytes' % (samples, left_out, running, stopped))
    assert left_out * 1000 <= samples
    # The readings are of 20 moments. Their means pass seven standard errors of the difference, as the readings estimate
    # it, in two of 10^6 runs (Student, 18 degrees of freedom).
    error = ((statistics.variance(running) + statistics.variance(stopped)) / len(running)) ** 0.5
    assert abs(statistics.mean(running) - statistics.mean(stopped)) < 7 * error, (running, stopped)
    # Each reading has a standard deviation of some 3 %, so the error is some 1.4 %.
    assert error < 0.05 * statistics.mean(stopped), (running, stopped)
    assert worker.process.poll() is None
    worker.end()


def settled(test, worker, name):
    """A server does something now and then, so the two may differ a few times; not always."""
    for _ in range(8):
        own, outside = worker.own_profile(), test.outside(worker.pid)
        if rows(outside, COUNTS) == rows(own, COUNTS):
            break
    same(outside, own, COUNTS)
    print('%s: %d samples of %d functions' % (name, len(own.samples), len(functions(own))))
    assert functions(outside) == functions(own)
    worker.end()


def case_redis(test):
    if not shutil.which('redis-server') or not shutil.which('redis-cli'):
        sys.exit(77)
    socket = os.path.join(test.folder, 'redis')
    worker = Worker(test, ['redis-server', '--port', '0', '--unixsocket', socket, '--save', '', '--hz', '1',
                           '--enable-debug-command', 'local', '--dir', test.folder], ready=b'eady to accept')
    subprocess.run(['redis-cli', '-s', socket, 'debug', 'populate', '50000'], stdout=subprocess.DEVNULL, check=True,
                   timeout=60)
    settled(test, worker, 'redis-server')


def case_python(test):
    code = 'import sys; keep = [str(i) * 20 for i in range(50000)]; print("ready", flush=True); sys.stdin.read()'
    settled(test, Worker(test, [sys.executable, '-c', code]), 'python3')


def case_node(test):
    if not shutil.which('node'):
        sys.exit(77)
    code = ('const keep = []; for (let i = 0; i < 3000; i++) keep.push(Buffer.alloc(20000, 1)); '
            'setTimeout(() => { console.log("ready"); process.stdin.on("data", () => keep.length); }, 500);')
    settled(test, Worker(test, ['node', '-e', code]), 'node')


def asleep(process):
    """Waits until a process sleeps for a time; for a second where the kernel does not say where it waits."""
    start, where = time.monotonic(), ''
    while time.monotonic() - start < 10:
        with open('/proc/%d/wchan' % process.pid, encoding='ascii') as f:
            where = f.read()
        if 'nanosleep' in where or (where == '0' and time.monotonic() - start > 1):
            return
        time.sleep(0.005)
    raise AssertionError('it never sleeps')


def case_allocations(test):
    """What a process allocates while it is watched is found; and no more than its counters say."""
    def allocated():
        text = test.run('stats', '--prometheus', str(worker.pid)).stdout
        return int(re.search(r'^salloc_allocations_bytes_total (\d+)$', text, re.M).group(1))

    worker = Worker(test, [test.worker, 'work'], ready=b'ready')
    in_time = False
    while not in_time:
        path = os.path.join(test.folder, 'allocations.pb')
        before = allocated()
        start = time.monotonic()
        with subprocess.Popen([test.tool, 'profile', '-t', 'allocations', '--seconds', '3', '-o', path,
                               str(worker.pid)]) as tool:
            asleep(tool)
            worker.process.stdin.write(b'w')
            worker.process.stdin.flush()
            assert worker.process.stdout.readline() == b'done\n'
            in_time = time.monotonic() - start < 2.9
        assert tool.returncode == 0
    profile, size = Profile(path), allocated() - before
    total = sum(values[1] for _, values, _ in profile.samples)
    assert size > 750 << 20
    # A sample stands for an interval with a standard deviation of as much. The estimate passes six of its standard
    # deviations in fewer than one of 10^8 runs.
    assert abs(total - size) < 6 * INTERVAL * (size / INTERVAL) ** 0.5, (total, size)
    assert {'small_block', 'large_block', 'work'} <= functions(profile)
    assert profile.types == [('alloc_objects', 'count'), ('alloc_space', 'bytes')], profile.types
    worker.end()

    worker = Worker(test, [test.worker, 'storm'], ready=b'ready')
    before = allocated()
    profile = test.allocations(worker.pid, '1s')
    after = allocated()
    total = sum(values[1] for _, values, _ in profile.samples)
    # The readings of the counters lie outside the second.
    assert 0 < total < (after - before) * 1.05, (total, after - before)
    assert {'small_block', 'large_block', 'storm'} <= functions(profile), functions(profile)
    worker.end()
    # A process that becomes another program has no difference.
    other = Worker(test, ['sh', '-c', 'echo ready; sleep 1; exec %s still' % test.worker])
    result = test.run('profile', '-t', 'allocations', '-s', '3', '-o', os.path.join(test.folder, 'none.pb'), str(other.pid), code=3)
    assert 'another program' in result.stderr, result.stderr
    other.end()
    quiet = Worker(test, [test.worker, 'still'])
    assert test.allocations(quiet.pid, '0.2').samples == []
    assert 'needs -t allocations' in test.run('profile', '-s', '1', '-o', 'x.pb', str(quiet.pid), code=2).stderr
    quiet.end()


def case_mappings(test):
    """Mappings that are joined while they are listed: the kernel may then list a part of them twice, as it did in one
    of 25 readings here."""
    worker = Worker(test, [test.worker, 'mappings'])
    for _ in range(50):
        assert test.outside(worker.pid).samples
    worker.end()


def case_deleted(test):
    """The file of the library, and that of the program, are deleted while the process runs."""
    test.library = shutil.copy(os.path.realpath(test.library), os.path.join(test.folder, 'libgone.so'))
    test.worker = shutil.copy(test.worker, os.path.join(test.folder, 'gone'))
    worker = Worker(test, [test.worker, 'still'])
    own = worker.own_profile()
    os.remove(test.library)
    os.remove(test.worker)
    outside = test.outside(worker.pid)
    same(outside, own, COUNTS + PAGES)
    if os.geteuid() == 0:
        assert 'small_block' in functions(outside)
    worker.end()


def case_refused(test):
    """Each reason is named, with an exit code of its own."""
    out = os.path.join(test.folder, 'none.pb')
    assert 'no such process' in test.run('profile', '-o', out, '4194304', code=3).stderr
    assert 'no salloc' in test.run('profile', '-o', out, str(os.getpid()), code=5).stderr.replace("no library in it has salloc's note", 'no salloc')
    assert 'it is a text, no profile.proto or core' in test.run('profile', '-o', out, __file__, code=7).stderr
    assert 'no core' in test.run('profile', '-o', out, test.tool, code=3).stderr
    assert 'No such file' in test.run('profile', '-o', out, '/nonexistent', code=3).stderr
    assert 'usage' in test.run('profile', code=2).stderr
    assert 'ending' in test.run('profile', '-o', 'x.heap', '1', code=2).stderr
    worker = Worker(test, [test.worker, 'still'])
    assert 'No such file' in test.run('profile', '-o', '/nonexistent/x.pb', str(worker.pid), code=1).stderr
    worker.end()
    zombie = subprocess.Popen(['true'])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    assert 'has ended' in test.run('profile', '-o', out, str(zombie.pid), code=3).stderr
    zombie.wait()
    assert not os.path.exists(out)
    if os.geteuid() == 0:
        worker = Worker(test, [test.worker, 'still'])
        try:
            result = subprocess.run([test.tool, 'profile', str(worker.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    preexec_fn=lambda: os.setuid(65534), check=False, universal_newlines=True)
            assert result.returncode == 4 and 'belongs to user 0' in result.stderr, result
        except PermissionError:  # the build lies below a private folder, such as /root
            print('another user may not run %s' % test.tool)
        worker.end()


def case_commands(test):
    """run passes the exit status on and writes what it is asked to; ps lists what runs."""
    path = os.path.join(test.folder, 'run.pb')
    code = subprocess.run([test.tool, 'run', '-l', test.library, '-o', path, '-c', 'sample_interval:%d' % INTERVAL, '--',
                           test.worker, 'still'], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False).returncode
    assert code == 0, code
    result = subprocess.run([test.tool, 'run', '-l', test.library, '-o', path, '-c', 'sample_interval:%d' % INTERVAL, '--',
                             sys.executable, '-c', 'import sys; sys.exit(9)'], check=False)
    assert result.returncode == 9 and len(Profile(path).samples) > 20
    page, folders = os.path.join(test.folder, 'run.html'), set(glob.glob('/tmp/sallocctl.*'))

    def run_page(*program):
        result = subprocess.run([test.tool, 'run', '-l', test.library, '--html', page, '-c', 'sample_interval:%d' % INTERVAL, '--', *program],
                                stderr=subprocess.PIPE, check=False, universal_newlines=True)
        return result.returncode, result.stderr
    code, text = run_page(sys.executable, '-c', 'import subprocess, sys; subprocess.run(["true"]); sys.exit(9)')
    assert code == 9 and text == 'sallocctl: %s shows the heap of %s\n' % (page, sys.executable), (code, text)
    with open(page, encoding='utf-8') as f:
        assert '"name":"inuse_space"' in f.read()
    os.remove(page)
    code, text = run_page(sys.executable, '-c', 'import os; os.kill(os.getpid(), 9)')
    assert code == -9 and 'left no profile' in text and not os.path.exists(page), (code, text)
    assert run_page('/nonexistent') == (127, 'sallocctl: /nonexistent: No such file or directory\n')
    assert set(glob.glob('/tmp/sallocctl.*')) <= folders, 'a folder is left'
    assert test.run('run', '-l', test.library, '--', '/nonexistent', code=127)
    assert test.run('run', '-l', '/nonexistent', '--', 'true', code=126)
    worker = Worker(test, [test.worker, 'still'])
    lines = test.run('ps').stdout.splitlines()
    mine = [line.split() for line in lines if line.split()[0] == str(worker.pid)]
    assert len(mine) == 1 and mine[0][1] == os.path.basename(test.worker)[:15], lines
    resident, used, in_use, caches, fragmentation, share, rate, samples = [float(word) for word in mine[0][2:]]
    assert resident >= in_use > 10 and used > in_use + caches and samples > 20 and fragmentation > 1 and rate > 0, mine
    # Both are rounded to a tenth.
    assert abs(share - 100 * fragmentation / resident) < 0.05 + 10 / resident, mine
    quiet = [line.split() for line in test.run('ps', '-s', '0.2').stdout.splitlines() if line.split()[0] == str(worker.pid)]
    assert quiet[0][:6] == mine[0][:6] and quiet[0][8] == '0.0', quiet
    worker.end()
    assert 'usage' in test.run(code=2).stderr and 'usage' in test.run('nonsense', code=2).stderr


def run_case(cases, case, *files, **more):
    """Runs a case of a module (its globals()) on these files, and ends the workers that are left. more: fields of the test."""
    with tempfile.TemporaryDirectory() as folder:
        # Absolute: a case may start its program in a folder of its own.
        test = Test(*map(os.path.abspath, files), folder)
        vars(test).update(more)
        try:
            cases['case_' + case](test)
        finally:
            for left in test.workers:
                left.end()


if __name__ == '__main__':
    run_case(globals(), sys.argv[-1], *sys.argv[1:-1])
