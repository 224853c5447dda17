#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profile files of a real program, read by sallocctl.

usage: files.py LIBRARY SALLOCCTL WORKER STATIC-WORKER HOSTILE-FILE CASE
The files come from the library's option `profile:`; proto.py, which shares no code with sallocctl, says what is in them.
"""
import gzip
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from profile import Profile, Worker, run_case  # noqa: E402  # pylint: disable=wrong-import-order


def at_exit(test, name='heap.pb.gz', interval=16384, more=''):
    """The file that the worker writes when it ends."""
    path = os.path.join(test.folder, name)
    env = dict(os.environ, LD_PRELOAD=test.library, SALLOC_CONF=f'sample_interval:{interval},profile:{path}{more}')
    subprocess.run([test.worker, 'still'], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    return path


def case_hostile(test):
    """A file cut at every byte, and 8,000 times with bytes changed: read within its bounds or refused by name."""
    path = at_exit(test, 'few.pb', interval=4 << 20)
    assert os.path.getsize(path) < 60000, os.path.getsize(path)
    result = subprocess.run([test.hostile_file, path, '8000'], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            check=False, timeout=100, universal_newlines=True)
    assert result.returncode == 0, result
    print(result.stdout)


def known(functions):
    """Functions of a place; an address without one has none."""
    return [f for f in functions if not re.match(r'\S+\+0x[0-9a-f]+$', f)]


def sums_by_names(profile, metric):
    """{names, root first: sum} and {addresses: sum} of a metric."""
    column = [name for name, _ in profile.types].index(metric)
    names, addresses = {}, {}
    for ids, values, _ in profile.samples:
        if not values[column]:
            continue
        where = [profile.locations[i] for i in reversed(ids)]
        name = ';'.join(f.replace(';', ':') for _, _, functions in where for f in (known(functions) or ['?']))
        names[name] = names.get(name, 0) + values[column]
        address = tuple(a + 1 for _, a, _ in reversed(where))
        addresses[address] = addresses.get(address, 0) + values[column]
    return names, addresses


def collapsed(path):
    """{names: number}; a name without a function is '?'."""
    result = {}
    with open(path, encoding='utf-8') as f:
        for line in f:
            stack, number = line.rstrip('\n').rsplit(' ', 1)
            names = ';'.join(re.sub(r'^\S+\+0x[0-9a-f]+$|^0x[0-9a-f]+$', '?', n) for n in stack.split(';'))
            result[names] = result.get(names, 0) + int(number)
    return result


def heap_text(path):
    """The four totals of the first line, and {addresses: four numbers}."""
    def numbers(line):
        return tuple(map(int, re.findall(r'\d+', line.split('@')[0].split('profile:')[-1])))
    rows = {}
    with open(path, encoding='utf-8') as f:
        head = next(f)
        assert head.startswith('heap profile: ') and head.endswith(' @ heapprofile\n'), head
        for line in f:
            if not line.strip():
                break
            if not line.startswith('#'):
                key = tuple(int(a, 16) for a in line.split('@')[1].split())
                assert key not in rows, 'a stack is there twice'
                rows[key] = numbers(line)
    return numbers(head), rows


def case_convert(test):
    """Every format has the numbers of profile.proto, by stack and in all, to the byte."""
    path = at_exit(test)
    own = Profile(path)
    totals = own.totals()
    assert len(own.samples) > 100 and totals['inuse_space'] > 1 << 24, totals

    def convert(name, *more):
        out = os.path.join(test.folder, name)
        result = test.run('convert', *more, path, out)
        assert result.stdout == result.stderr == '', result
        return out

    for metric, _ in own.types:
        found = collapsed(convert('x.collapsed', '--metric', metric))
        assert found == sums_by_names(own, metric)[0], metric
    assert sum(collapsed(convert('x.folded')).values()) == totals['inuse_space']
    head, stacks = heap_text(convert('x.heap'))
    four = ['inuse_objects', 'inuse_space', 'alloc_objects', 'alloc_space']
    assert head == tuple(totals[name] for name in four), (head, totals)
    for at, name in enumerate(four):
        assert {k: v[at] for k, v in stacks.items() if v[at]} == sums_by_names(own, name)[1], name
    with gzip.open(path) as f:
        plain = f.read()
    with open(convert('x.pb'), 'rb') as f:
        assert f.read() == plain, 'pb loses something'
    again = Profile(convert('x.pb.gz'))
    assert again.samples == own.samples and again.comments == own.comments
    assert test.run('convert', '--format', 'collapsed', path, '-').stdout.count('\n') >= 2
    assert 'alloc_space' in test.run('convert', '-m', 'nothing', path, out_of(test, 'y.heap'), code=2).stderr
    assert 'format' in test.run('convert', path, out_of(test, 'y.jpg'), code=2).stderr
    assert 'No such file' in test.run('convert', '/nonexistent', out_of(test, 'y.heap'), code=3).stderr
    with open(path, 'rb') as f:
        half = f.read()[:-100]
    with open(out_of(test, 'half.pb.gz'), 'wb') as f:
        f.write(half)
    assert 'damaged' in test.run('convert', out_of(test, 'half.pb.gz'), out_of(test, 'y.heap'), code=7).stderr
    assert 'but a program or library' in test.run('convert', test.worker, out_of(test, 'y.heap'), code=7).stderr
    assert not os.path.exists(out_of(test, 'y.heap'))


def out_of(test, name):
    return os.path.join(test.folder, name)


def case_convert_own(test):
    """The collapsed file of a process equals, stack by stack, the one made of its profile.proto."""
    worker = Worker(test, [test.worker, 'still'])
    proto, direct, made = out_of(test, 'p.pb.gz'), out_of(test, 'p.collapsed'), out_of(test, 'made.collapsed')
    for path in (proto, direct):
        test.run('profile', '-o', path, str(worker.pid))
    test.run('convert', proto, made)
    assert len(collapsed(made)) >= 2 and collapsed(made) == collapsed(direct)


def case_convert_go(test):
    """Go's pprof reads the same sums from both formats as are in profile.proto."""
    if not shutil.which('go'):
        sys.exit(77)
    path, text = at_exit(test), out_of(test, 'x.heap')
    test.run('convert', path, text)
    totals = Profile(path).totals()
    for file in (path, text):
        raw = subprocess.run(['go', 'tool', 'pprof', '-symbolize=none', '-raw', file], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             check=False, universal_newlines=True, env=dict(os.environ, HOME=test.folder))
        assert raw.returncode == 0, raw
        types = [t.split('/')[0] for t in re.search(r'Samples:\n(.*)', raw.stdout).group(1).replace('[dflt]', '').split()]
        sums = [0] * len(types)
        for row in re.findall(r'^((?: *\d+)+): ', raw.stdout.split('Samples:')[1].split('Locations')[0], re.M):
            sums = [a + int(b) for a, b in zip(sums, row.split())]
        for name, total in zip(types, sums):
            assert totals[{'objects': 'inuse_objects', 'space': 'inuse_space'}.get(name, name)] == total, (file, name)
        assert 'inuse_space' in types, types


def case_report(test):
    """The total and its interval are those that the library says in the file; the tables add up."""
    for interval in (16384, 1 << 20, 1):
        path = at_exit(test, 'r.pb.gz', interval)
        own, text = Profile(path), test.run('report', '-b', 'function,library,size,thread', path).stdout
        said = [re.search(r'(\d+) bytes \(95 % interval (\d+) to (\d+)\).* from (\d+) samples', c) for c in own.comments]
        said = [m.groups() for m in said if m][0]
        found = re.search(r'^exactly: (\d+) bytes \((\d+) to (\d+)\)\n', text, re.M).groups()
        found += re.match(r'inuse_space: .*, from (\d+) samples\n', text).groups()
        assert found == said and int(found[0]) == own.totals()['inuse_space'], (found, said)
        blocks = [re.search(r' in (\d+) blocks \((\d+) to (\d+)\)', c) for c in own.comments]
        blocks = [m.groups() for m in blocks if m][0]
        counted = test.run('report', '-m', 'inuse_objects', path).stdout
        assert re.search(r'^exactly: (\d+) blocks \((\d+) to (\d+)\)\n', counted, re.M).groups() == blocks, counted
        bound = re.search(r'a place without a sample may have up to (\S+ \S+) \(95 %\)', text)
        assert (bound.group(1) if bound else None) == {16384: '59.0 KiB', 1 << 20: '3.7 MiB', 1: None}[interval], text
        tables = text.split('\n\n')[1:]
        assert len(tables) == 5 and 'small_block' in tables[0] and ' main\n' in tables[1], text
        for table in (tables[0], tables[2], tables[4]):
            shares = sum(float(s) for s in re.findall(r' ([\d.]+)% ', table))
            assert 99 < shares < 101, table
        assert ' 100.0%' in [line for line in tables[1].splitlines() if line.endswith(' main')][0]
        ever = test.run('report', '-m', 'alloc_space', path).stdout.splitlines()
        assert re.match(r'alloc_space: .* \(95 % interval .*, from \d+ samples$', ever[0]), ever[:2]
        low, high = map(int, re.match(r'exactly: \d+ bytes \((\d+) to (\d+)\)$', ever[1]).groups())
        allocated = own.totals()['alloc_space']  # which is exact if all blocks are sampled
        assert low == allocated == high if interval == 1 else low < allocated < high, (low, allocated, high)
    with open(path, 'rb') as f:  # a name of C++ in place of one of the same length
        plain = gzip.decompress(f.read()) if path.endswith('gz') else f.read()
    with open(out_of(test, 'c++.pb'), 'wb') as f:
        # ... in a program that is not there, so that its debug information says nothing else
        f.write(plain.replace(b'small_block', b'_ZN1a3bcdEv').replace(b'/tool_worker', b'/tool_nobody'))
    plain = test.run('report', out_of(test, 'c++.pb')).stdout
    assert '  a::bcd()\n' in plain or not test.demangles, plain
    shown = test.run('report', '-b', 'function', '-n', '1', path).stdout.split('\n\n')[1:]
    assert [t.splitlines()[0] for t in shown] == ['function that called malloc', 'function, with all that it calls'], shown
    assert [len(t.splitlines()) for t in shown] == [4, 4] and re.search(r' \d+ more\n', shown[0] + '\n'), shown
    assert 'more' not in test.run('report', '-n', '0', path).stdout
    assert 'tables are' in test.run('report', '-b', 'function,nothing', path, code=2).stderr
    assert 'number' in test.run('report', '-n', 'x', path, code=2).stderr
    assert test.run('report', test.worker, code=7).stderr and test.run('report', code=2).stderr


def case_report_process(test):
    """A process and its core are reported as the file that 'profile' writes of them, and so are errors."""
    worker, path = Worker(test, [test.worker, 'still']), out_of(test, 'p.pb.gz')
    test.run('profile', '-o', path, str(worker.pid))
    text = test.run('report', path).stdout
    assert 'small_block' in text and re.match(r'inuse_space: \d+\.\d MiB \(95 % interval', text), text
    assert test.run('report', str(worker.pid)).stdout == text
    if shutil.which('gcore'):
        core = test.core(worker.pid)
        assert test.run('report', '-m', 'alloc_space', core).stdout == test.run('report', '-m', 'alloc_space', path).stdout
    worker.end()
    assert 'no such process' in test.run('report', str(2 ** 22), code=3).stderr
    assert 'no library in it' in test.run('report', str(os.getpid()), code=5).stderr


def case_report_lives(test):
    """Lifetimes of a recording, as the library's own labels have them."""
    path = at_exit(test, 'l.pb.gz', more=',profile_type:lifetime')
    own, column = Profile(path), 3
    assert own.types[column][0] == 'deallocated_space'
    freed = [(values[column - 1], labels) for _, values, labels in own.samples if values[column]]
    blocks = sum(count for count, _ in freed)
    lives = {name: [labels[name + '_lifetime'][0] for _, labels in freed] for name in ('min', 'max')}
    mean = sum(count * labels['avg_lifetime'][0] for count, labels in freed) / blocks

    text = test.run('report', '-b', 'library', path).stdout
    head, row = text.split('\n\n')[1].splitlines()[1:3]
    assert head.split()[-4:] == ['mean', 'life', 'min', 'max'] and 'called free' in text, text
    units = {'ns': 1, 'us': 1e3, 'ms': 1e6, 's': 1e9}
    shown = [float(n) * units[u] for n, u in re.findall(r' ([\d.]+) (ns|us|ms|s)\b', row)]
    for found, expected in zip(shown, (mean, min(lives['min']), max(lives['max']))):
        assert abs(found - expected) <= 0.05 * expected, (row, mean, lives)
    assert len(shown) == 3 and 'not recorded' not in text, text
    assert re.search(r'\nlifetime\n(.*\n)+.*  \d+ [mu]?s to \d+ [mu]?s\n', test.run('report', path).stdout)
    assert 'mean life' not in test.run('report', at_exit(test)).stdout


def case_flame(test):
    """The page without a browser: its data have the sums of the file, and it is where the command says."""
    path = at_exit(test)
    own, page = Profile(path), out_of(test, 'heap.html')
    assert test.run('flame', path).stdout == page + '\n'
    with open(page, encoding='utf-8') as f:
        text = f.read()
    data = json.loads(re.search(r'<script id="profile" type="application/json">(.*?)</script>', text, re.S).group(1))
    assert [m['name'] for m in data['metrics']] == [name for name, _ in own.types]
    assert {m['name']: sum(values) for m, values in zip(data['metrics'], data['values'])} == own.totals()
    assert {len(data[c]) for c in ('stack', 'block', 'thread')} == {len(values) for values in data['values']} == {len(own.samples)}
    assert data['metrics'][data['shown']]['name'] == 'inuse_space' and data['period'] == 16384
    assert test.run('flame', '-o', '-', path).stdout == text
    assert '"shown":0' in test.run('flame', '-m', own.types[0][0], '-o', '-', path).stdout
    assert 'no metric' in test.run('flame', '-m', 'nothing', path, code=2).stderr
    assert test.run('flame', code=2).stderr and 'No such file' in test.run('flame', '/nonexistent', code=3).stderr
    os.remove(page)
    with open(out_of(test, 'heap.pb'), 'wb') as f:
        f.write(b'\0damaged')
    assert 'damaged' in test.run('flame', f.name, code=7).stderr.replace(f.name, '') and not os.path.exists(page)
    assert 'No such file' in test.run('flame', '-o', '/nonexistent/x.html', path, code=1).stderr


def main(library, tool, worker, static, hostile_file, case):
    with open(tool, 'rb') as f:
        demangles = b'{default arg#' in f.read()
    run_case(globals(), case, library, tool, worker, static, demangles=demangles,
             hostile_file=os.path.abspath(hostile_file))


if __name__ == '__main__':
    main(*sys.argv[1:])
