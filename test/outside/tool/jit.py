#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names of generated code, from the map that a process writes for perf.

usage: jit.py LIBRARY SALLOCCTL WORKER STATIC-WORKER JIT CASE
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from profile import Profile, Worker, functions, run_case  # noqa: E402  # pylint: disable=wrong-import-order

with open('/proc/self/status', encoding='ascii') as status:
    filtered = re.search(r'^Seccomp:\s*[12]', status.read(), re.M)
# Where stacks go on above generated code, whatever their depth.
WHOLE = os.uname().machine == 'x86_64' and not filtered and [int(n) for n in os.confstr('CS_GNU_LIBC_VERSION').split()[1].split('.')[:2]] >= [2, 35]

NAMED = {'LazyCompile:*first a.js:1:10', 'second_function', 'whole page'}


def map_of(pid):
    return '/tmp/perf-%d.map' % pid


def names(test, what, *more):
    """The functions of a report, with how many blocks each has in all that it calls."""
    text = test.run('report', '-m', 'inuse_objects', '--by', 'function', '-n', '0', *more, what).stdout
    rows = [re.match(r' *(\d+) +[\d.]+% +\S+ +\S+  (.*)$', line) for line in text.split('\n\n')[2].splitlines()]
    return {row.group(2): int(row.group(1)) for row in rows if row}


def check(found):
    """Each of five functions has called malloc 500 times. One has no name. One has no frame pointer, so stacks end there."""
    numbers = [name for name in found if name.startswith('0x')]
    assert {name: found.get(name) for name in NAMED} == dict.fromkeys(NAMED, 500), found
    assert len(numbers) == 1 and found[numbers[0]] == 500 and numbers[0].endswith('005' if os.uname().machine == 'x86_64' else '00b'), found
    assert found.get('no frame') == 500
    if WHOLE:
        assert 2000 <= found.get('main', 0) < 2100, found
    assert not [name for name in found if 'unfinished' in name or 'replaced' in name], found


def case_process(test):
    """A process has names in all that looks at it; so has a profile that it leaves, if the map is its own."""
    path = os.path.join(test.folder, 'exit.pb.gz')
    worker = Worker(test, [test.jit], interval=1, conf=',profile:' + path)
    try:
        check(names(test, str(worker.pid)))
        # What was last written to before the process started is an earlier one's, of the same PID.
        os.utime(map_of(worker.pid), (time.time() - 3600,) * 2)
        assert not NAMED & names(test, str(worker.pid)).keys()
        os.utime(map_of(worker.pid))
        assert NAMED <= functions(test.outside(worker.pid))
        page = os.path.join(test.folder, 'page.html')
        test.run('flame', '-o', page, str(worker.pid))
        with open(page, encoding='utf-8') as f:
            text = f.read()
        assert '"second_function"' in text and '"[generated code]"' in text and '"[unknown]"' in text
        text = os.path.join(test.folder, 'x.txt')
        test.run('profile', '-o', text, str(worker.pid))
        with open(text, encoding='utf-8') as f:
            assert 'LazyCompile:*first a.js:1:10' in f.read()
        worker.process.stdin.close()
        assert worker.process.wait() == 0
        assert not NAMED & functions(Profile(path))  # the library itself does not read maps
        check(names(test, path))
        lines = os.path.join(test.folder, 'lines.pb')
        test.run('convert', '--lines', path, lines)
        assert NAMED <= functions(Profile(lines))
        test.run('convert', lines, os.path.join(test.folder, 'again.pb'))
        check(names(test, lines))
        # A map that was written later is another process's; so is that of another user, and a link may lead anywhere.
        with open(map_of(worker.pid), 'rb') as f:
            whole = f.read()
        later = time.time() + 100
        os.utime(map_of(worker.pid), (later, later))
        assert not NAMED & names(test, path).keys()
        os.utime(map_of(worker.pid), (later - 200, later - 200))
        check(names(test, path))
        if os.geteuid() == 0:
            os.chown(map_of(worker.pid), 65534, -1)
            assert not NAMED & names(test, path).keys()
        os.remove(map_of(worker.pid))
        with open(os.path.join(test.folder, 'map'), 'wb') as f:
            f.write(whole)
        os.symlink(f.name, map_of(worker.pid))
        assert not NAMED & names(test, path).keys()
    finally:
        if os.path.lexists(map_of(worker.pid)):
            os.remove(map_of(worker.pid))


def case_damaged(test):
    """Maps that are none, and lines that cover everything, or wrap around, harm nothing."""
    worker = Worker(test, [test.jit], interval=1)
    path = map_of(worker.pid)
    try:
        with open(path, 'rb') as f:
            base = int(f.read().split()[0], 16)
        cases = [(b'', 0), (b'\n' * 1000, 0), (b'x' * 100000, 0), (b'0 ffffffffffffffff \x1b[31m\xff\n', 5), (b'%x ffffffffffffffff all\n' % base, 5),
                 (b'%x 0 none\n%x\n%x 10\n%x 10 \n' % ((base,) * 4), 0), (b'fffffffffffffff0 ffffffffffffffff wraps\n', 0),
                 (b'%x 40 ' % base + b'n' * 100000 + b'\n', 1), (b'0 ffffffffffffffff all\n' * 200000, 5), (b'0x 0x x\n10000000000000000000 40 long\n', 0)]
        for text, named in cases:
            with open(path, 'wb') as f:
                f.write(text)
            start = time.monotonic()
            found = names(test, str(worker.pid))
            numbers = sum(name.startswith('0x') for name in found)
            assert numbers == 5 - named, (text[:100], found)
            assert all(name.isprintable() and len(name) <= 1024 for name in found) and time.monotonic() - start < 20, found
    finally:
        os.remove(path)


def children(pid):
    """All processes below a process."""
    parents = {}
    for stat in glob.glob('/proc/[0-9]*/stat'):
        try:
            with open(stat, encoding='utf-8', errors='replace') as f:
                parents[int(stat.split('/')[2])] = int(f.read().rsplit(')', 1)[1].split()[1])
        except OSError:
            pass
    found, todo = [], [pid]
    while todo:
        new = [child for child, parent in parents.items() if parent == todo[-1]]
        todo.pop()
        found += new
        todo += new
    return found


def case_container(test):
    """In a container, the map has the PID that the process knows, and lies in its own /tmp."""
    inside = ['bwrap', '--ro-bind', '/', '/', '--tmpfs', '/tmp', '--unshare-pid', '--proc', '/proc', '--dev', '/dev']
    for path in (test.library, test.jit):  # a build may lie in /tmp
        inside += ['--ro-bind', os.path.realpath(path), path]
    if not shutil.which('bwrap') or subprocess.run([*inside, 'true'], check=False, stderr=subprocess.DEVNULL).returncode:
        sys.exit(77)
    inside += ['--setenv', 'LD_PRELOAD', test.library, '--setenv', 'SALLOC_CONF', 'sample_interval:1', test.jit]
    worker = Worker(test, inside, preload=False)
    pid = max(pid for pid in children(worker.pid) if os.readlink('/proc/%d/exe' % pid).endswith(os.path.basename(test.jit)))
    assert not os.path.exists(map_of(pid))
    check(names(test, str(pid)))


NODE = '''
const kept = [];
function makeBuffer(n) { return Buffer.alloc(n, 1); }
function fill() { for (let i = 0; i < 2000; i++) kept.push(makeBuffer(20000)); }
fill();
console.log("ready");
process.stdin.resume();
'''


def case_node(test):
    """Functions of JavaScript between those of C++, from the first to the last."""
    node = shutil.which('node')
    version = subprocess.run([node, '--version'], stdout=subprocess.PIPE, check=True).stdout if node else b''
    if not WHOLE or int((re.match(rb'v(\d+)', version) or [0, 0])[1]) < 20:
        sys.exit(77)
    script = os.path.join(test.folder, 'made.js')
    with open(script, 'w', encoding='utf-8') as f:
        f.write(NODE)
    worker = Worker(test, [node, '--perf-basic-prof', '--interpreted-frames-native-stack', script], interval=65536, cwd=test.folder)
    try:
        path = os.path.join(test.folder, 'x.collapsed')
        test.run('profile', '-o', path, str(worker.pid))
        with open(path, encoding='utf-8') as f:
            stacks = [line.rsplit(' ', 1) for line in f]
        made = [(stack.split(';'), int(amount)) for stack, amount in stacks if re.search(r'JS:\S*makeBuffer', stack)]
        assert sum(amount for _, amount in made) > 30e6, stacks[:5]
        for frames, _ in made:
            names = [next((i for i, frame in enumerate(frames) if re.search(name, frame)), -1)
                     for name in ('^main$|__libc_start', '^JS:.*fill ', '^JS:.*makeBuffer ', 'AllocateUninitialized|NodeArrayBuffer|Malloc|alloc')]
            assert 0 <= names[0] < names[1] < names[2], frames
    finally:
        os.remove(map_of(worker.pid))


def main(library, tool, worker, static, jit, case):
    run_case(globals(), case, library, tool, worker, static, jit=os.path.abspath(jit))


if __name__ == '__main__':
    main(*sys.argv[1:])
