#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profiles of other producers: intervals that are not known, negative values, units that are no bytes, odd files.

usage: foreign.py LIBRARY SALLOCCTL WORKER STATIC-WORKER CASE
"""
import gzip
import os
import re
import shutil
import subprocess
import sys
import time

import browser
import made_profile
from files import out_of
from page import check_quiet
from profile import run_case

HEAP = (('inuse_objects', 'count'), ('inuse_space', 'bytes'))
CPU = (('samples', 'count'), ('cpu', 'nanoseconds'))
LOCK = (('contentions', 'count'), ('delay', 'nanoseconds'))
JAVA = (('contentions', 'count'), ('wait', 'microseconds'))
ASYNC = (('alloc_space', 'bytes'),)  # without numbers of blocks, and without sizes
MIB = 1 << 20


def write(test, name, rows, types, period=524288, period_type=('space', 'bytes'), pack=bytes):
    path = out_of(test, name)
    with open(path, 'wb') as f:
        f.write(pack(made_profile.profile(rows, period, types, period_type=period_type)))
    return path


def table(text, title):
    """The names of a table's rows, in their order, and the lines."""
    lines = text.split(title + '\n', 1)[1].split('\n\n')[0].splitlines()[1:]
    return [line.split()[-1] for line in lines if not line.startswith('  within')], lines


def heap_of(scale, large=0):
    """Rows whose numbers are those of no whole number of samples, as where bytes are rounded down: of sizes, and without."""
    rows = [(['held', 'main'], (382 * scale // 4, 382 * MIB * scale // 4 + 12345), {'bytes': 1000000}),
            (['small', 'main'], (40, 40 * 1024 + 17), {'bytes': 1024}),
            (['nameless', 'main'], (7, (7 + 3 * large) * MIB + 11), {})]
    return rows


def case_intervals(test):
    """A change whose interval is not known is not called chance, and stands where its size puts it; known ones are judged."""
    kept = made_profile.row(['kept', 'main'], 64, 400, 524288)
    for types, extra in ((HEAP, [kept]), (HEAP, []), ([('alloc_objects', 'count'), ('alloc_space', 'bytes')], [])):
        before = write(test, 'a.pb', heap_of(4) + extra, types)
        after = write(test, 'b.pb', heap_of(1, large=1) + extra, types)
        text = test.run('diff', '--by', 'function', before, after).stdout
        assert '(95 % interval not known)' in text and 'are not known' in text.splitlines()[3], text
        names, lines = table(text, 'function that called malloc')
        assert names[:2] == ['held', 'nameless'], text
        chance = lines[lines.index('  within chance:') + 1:] if '  within chance:' in lines else []
        assert [line.split()[-1] for line in chance] == (['kept'] if extra and types == HEAP else []), text
        assert all('-' in line.split() for line in lines if line.split()[-1] in ('held', 'nameless', 'small')), text


def case_page(test):
    """The same in a browser: unknown, coloured by sign, hatched, by size; differences and times are drawn, too."""
    if not browser.name():
        sys.exit(77)
    tab, page = browser.Browser(), out_of(test, 'page.html')
    try:
        kept = made_profile.row(['kept', 'main'], 64, 400, 524288)
        test.run('diff', '--html', page, write(test, 'a.pb', heap_of(4) + [kept], HEAP),
                 write(test, 'b.pb', heap_of(1, large=1) + [kept], HEAP))
        tab.open(page)
        check_quiet(tab, page)
        rows = tab.js('''table.shown = 1e9, table.render(), [...document.querySelectorAll("#table tbody tr")].map(row =>
            [row.className, (row.querySelector("button") || {}).title, (row.querySelector(".interval") || {}).textContent])''')
        names = [name for _, name, _ in rows]
        assert set(names[:2]) == {'held', 'main'} and names[2] == 'nameless', rows
        line = [kind for kind, _, _ in rows].index('chance-line')
        assert names[line + 1:] == ['kept'], rows
        assert all(interval == '-' for _, _, interval in rows[:line]), rows
        held = '''(() => { for (let n = 1; n < tree.nodeCount; n++) if (tree.name(n) === "held") return n; })()'''
        assert 'not known' in tab.js('describe(%s)' % held) and 'within chance' not in tab.js('describe(%s)' % held)
        assert tab.js('flame.paint.isHatched(%s)' % held) and 'not known' in tab.js('element("interval").textContent')
        difference = write(test, 'c.pb', [(['less', 'main'], (-5, -5 * MIB), {}), (['more', 'main'], (2, 2 * MIB), {}),
                                          (['same', 'main'], (1, MIB), {}), (['same', 'main'], (-1, -MIB), {})], HEAP)
        test.run('flame', '-o', page, difference)
        tab.open(page)
        check_quiet(tab, page)
        names = tab.js('[...document.querySelectorAll("#table tbody tr button")].map(b => b.title)')
        assert names.index('less') < names.index('more') < names.index('same'), names
        assert tab.js('tree.children(tree.children(0)[0]).map(n => tree.name(n))') == ['less', 'more']
        assert tab.js('flame.rows[2].map(b => Math.round(b.width / flame.rows[0][0].width * 7))') == [5, 2]
        times = write(test, 'd.pb', [(['wait', 'main'], (3, 2500), {}), (['run', 'main'], (1, -700000), {})], JAVA, 1)
        test.run('flame', '-o', page, times)
        tab.open(page)
        check_quiet(tab, page)
        assert tab.js('[...document.querySelectorAll("#table tbody .total")].map(e => e.textContent)') == ['-700 ms', '-698 ms', '2.5 ms']
        assert 'block' not in tab.js('element("total").textContent')
        tab.js('(() => { const s = element("metric"); s.value = 0; s.dispatchEvent(new Event("change")); })()')
        assert tab.js('element("total").textContent') == '4 contentions'
    finally:
        tab.close()


def case_units(test):
    """Words and units are those of the sample type."""
    for types, period_type, values, wanted in (
            (CPU, ('cpu', 'nanoseconds'), (3, 30000000), ['cpu: 30 ms', 'exactly: 30000000 nanoseconds', 'sampling interval: 10 ms']),
            (LOCK, ('contentions', 'count'), (1, 2500), ['delay: 2.5 us', 'sampling interval: 10000000 contentions']),
            (JAVA, ('', ''), (4, 1500), ['wait: 1.5 ms', 'exactly: 1500 microseconds']),
            ((('goroutine', 'count'),), ('goroutine', 'count'), (12,), ['goroutine: 12', 'exactly: 12 goroutine']),
            ((('io', 'bytes'),), ('', ''), (4096,), ['io: 4.0 KiB', 'exactly: 4096 bytes'])):
        path = write(test, 'units.pb', [(['leaf', 'main'], values, {})], types, 10000000, period_type)
        text = test.run('report', '--by', 'function,stack', path).stdout
        assert all(line in text.splitlines() for line in wanted), text
        assert 'blocks' not in text and 'malloc' not in text and 'sampling was off' not in text, text
        assert 'function, by itself' in text and 'stack, the innermost function first' in text, text
        text = test.run('diff', '--by', 'function', path, path).stdout
        assert 'blocks' not in text and 'malloc' not in text and 'chance:' not in text, text
        assert period_type[0] == '' or 'sampling interval' not in text, text
    path = write(test, 'none.pb', [(['leaf'], (1, 64), {})], HEAP, 0, ('', ''))
    assert 'sampling interval: not known' in test.run('report', path).stdout
    path = write(test, 'async.pb', [(['leaf'], (77777,), {})], ASYNC, 0, ('', ''))
    assert 'alloc_space: 76.0 KiB' in test.run('report', path).stdout


def case_negative(test):
    """A difference has no intervals, and its rows come by magnitude."""
    row = made_profile.row(['kept', 'main'], 64, 400, 524288)
    for types in (HEAP, CPU):
        rows = [(['less', 'main'], (-5, -5 * MIB), {}), (['gone', 'main'], (-3, -3 * MIB), {'pprof::base': 'true'}),
                (['more', 'main'], (2, 4 * MIB), {}), (['same', 'main'], (1, 9 * MIB), {}), (['same', 'main'], (-1, -9 * MIB), {}), row]
        path = write(test, 'difference.pb', rows, types)
        text = test.run('report', '--by', 'function', path).stdout
        names, lines = table(text, 'function that called malloc' if types == HEAP else 'function, by itself')
        assert [name for name in names if name != 'kept'] == ['less', 'more', 'gone', 'same'], text
        assert all(line.split()[-2] == line.split()[-3] == '-' for line in lines), text
        assert '-0.0%' not in text and 'a place without' not in text, text


def case_shapes(test):
    """What the formats of producers allow and salloc's files have not: each command reads it."""
    number, message, varint = made_profile.number, made_profile.message, made_profile.varint

    def bare(*strings, fields=b''):
        return fields + b''.join(message(6, text) for text in strings)
    one_type = message(1, number(1, 1) + number(2, 2))
    alloc = made_profile.profile([(['leaf', 'main'], (5,), {'bytes': 64, 'thread id': 7})], 0, ASYNC, period_type=('', ''))
    four = [('alloc_objects', 'count'), ('alloc_space', 'bytes'), ('inuse_objects', 'count'), ('inuse_space', 'bytes')]
    for name, data, wanted in (
            ('four', made_profile.profile([(['leaf', 'main'], (4, 4096, 3, 3072), {})], 524288, four), 'inuse_space: 3.0 KiB'),
            # drop_frames, keep_frames, two comments, and a field of a later version
            ('extras', alloc + number(7, 1) + number(8, 1) + message(13, varint(1) + varint(2)) + number(15, 1), 'exactly: 5 bytes'),
            ('members', b''.join(gzip.compress(alloc[i:i + 7]) for i in range(0, len(alloc), 7)), 'exactly: 5 bytes'),
            # a label with a unit; a location without mapping and function; one that is folded
            ('addresses', bare(b'', b'alloc_space', b'bytes', b'allocation', fields=one_type + message(
                2, message(1, varint(1)) + message(2, varint(9)) + message(3, number(1, 3) + number(3, 4096) + number(4, 2))) +
                message(4, number(1, 1) + number(3, 4096)) + message(4, number(1, 2) + number(5, 1))), 'exactly: 9 bytes'),
            ('first', bare(b'alloc_space', b'bytes', fields=message(1, number(2, 1)) + message(2, message(2, varint(5)))), 'alloc_space: 5 B'),
            ('nameless', message(1, b'') + message(2, number(2, 5)), 'exactly: 5')):
        path = out_of(test, name)
        with open(path, 'wb') as f:
            f.write(data)
        assert wanted in test.run('report', path).stdout, name
        for command in (['diff', path, path], ['flame', '-o', out_of(test, 'x.html'), path], ['convert', path, out_of(test, 'x.folded')]):
            assert test.run(*command).stderr == '', (name, command)
    cut = bare(b'', b'alloc_space', b'bytes', fields=one_type + message(2, b''))
    assert 'a sample without a value for each type' in test.run('report', write(test, 'cut', [], HEAP, pack=lambda _: cut), code=7).stderr


def samples_of(data):
    """The messages of samples in the bytes of a profile."""
    def varint(at):
        n = shift = 0
        while True:
            n |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                return n, at
    at, out = 0, b''
    while at < len(data):
        key, after = varint(at)
        n, after = varint(after)
        end = after + (n if key & 7 == 2 else 0)
        out += data[at:end] if key >> 3 == 2 else b''
        at = end
    return out


def case_files(test):
    """Members of gzip, nothing at all, no names, and a million samples."""
    rows = heap_of(4)
    whole = made_profile.profile(rows, 524288)

    def members(data):
        return gzip.compress(data[:100]) + gzip.compress(b'') + gzip.compress(data[100:])
    plain = test.run('report', write(test, 'plain.pb', rows, HEAP)).stdout
    assert test.run('report', write(test, 'members.pb.gz', rows, HEAP, pack=members)).stdout == plain
    bare = out_of(test, 'bare.pb')  # a type, and a sample without a stack; no period, mapping, function, time
    with open(bare, 'wb') as f:
        f.write(made_profile.message(1, made_profile.number(1, 1) + made_profile.number(2, 2)) +
                made_profile.message(2, made_profile.message(2, made_profile.varint(5))) +
                b''.join(made_profile.message(6, text) for text in (b'', b'samples', b'count')))
    for command in (['report', bare], ['diff', bare, bare], ['flame', '-o', out_of(test, 'bare.html'), bare]):
        test.run(*command)
    few = made_profile.profile([(['f%d' % (i % 97), 'g%d' % (i % 89), 'main'], (1, i), {}) for i in range(10000)], 1, CPU)
    many = out_of(test, 'many.pb')  # a message that comes again is one more sample
    with open(many, 'wb') as f:
        f.write(few + 99 * samples_of(few))
    start = time.monotonic()
    text = test.run('report', '--by', 'function', many).stdout
    seconds = time.monotonic() - start
    assert 'exactly: %d nanoseconds' % (100 * sum(range(10000))) in text
    print('a million samples: %.1f s' % seconds)
    assert seconds < 20, seconds


COMMANDS = (['report'], ['leaks'], ['diff', None], ['flame', '-o', '/dev/null'], ['stats'], ['trace', '-o', '/dev/null'],
            ['convert', '--format', 'collapsed', None, '/dev/null'])


def told(test, name, data, *wanted, commands=2):
    """The first commands say what a file is, by its beginning and whatever it is called."""
    path = out_of(test, name)
    if data is not None:
        with open(path, 'wb') as f:
            f.write(data)
    for command in COMMANDS[:commands]:
        command = [path if word is None else word for word in command]
        error = test.run(*command, *([] if path in command[1:] and command[0] != 'diff' else [path]), code=7).stderr
        assert error.count('\n') == 1 and all(text in error for text in wanted), (command, error)
    return error


def case_packed(test):
    """Cores and profiles that were packed, as systemd packs cores: by what, and who unpacks them."""
    core = b'\x7fELF\2\1\1' + bytes(9) + b'\4\0' + bytes(1 << 16)
    profile = made_profile.profile(heap_of(4), 524288)
    made = {'zstd': b'\x28\xb5\x2f\xfd', 'lz4': b'\x04\x22\x4d\x18', 'xz': b'\xfd7zXZ\0', 'bzip2': b'BZh91AY&SY', 'lzip': b'LZIP\1',
            'lzop': b'\x89LZO\0\r\n'}
    for command, head in made.items():
        data = {'core.x.1000.%s' % command: core, 'heap.%s' % command: profile}
        for name, plain in data.items():
            packed = head + bytes(64)
            if shutil.which(command):
                packed = subprocess.run([command, '-c'], input=plain, stdout=subprocess.PIPE, check=True).stdout
                assert packed.startswith(head), (command, packed[:16])
            error = told(test, name, packed, 'compressed by ' + command, "'%s -d' makes it readable" % command,
                         commands=len(COMMANDS) if command in ('zstd', 'xz') else 2)
            assert ('coredumpctl dump' in error) == name.startswith('core'), error
    told(test, 'pzstd', b'\x50\x2a\x4d\x18\4\0\0\0' + bytes(64), "'zstd -d'")
    told(test, 'legacy', b'\x02\x21\x4c\x18' + bytes(64), "'lz4 -d'")
    told(test, 'zip', b'PK\3\4' + bytes(64), "'unzip'")
    told(test, 'core.gz', gzip.compress(core), 'by gzip', "'gzip -d' makes it readable")
    fifo = subprocess.run(['sh', '-c', 'cat | "$0" report /dev/stdin', os.path.abspath(test.tool)], input=core, stderr=subprocess.PIPE,
                          check=False)
    assert fifo.returncode == 7 and b'from a file and not from a pipe' in fifo.stderr, fifo
    told(test, 'empty', b'', 'it is empty')
    # Too large for a profile: it is named by its beginning, which is all that is read.
    path = out_of(test, 'core.large.zst')
    with open(path, 'wb') as f:
        f.write(made['zstd'])
        f.truncate(1 << 40)
    told(test, 'core.large.zst', None, "'zstd -d' makes it readable")


def case_others(test):
    """Files of other tools are named, with a tool that reads or converts them."""
    for data, *wanted in (
            (b'heap profile: 1: 2 [ 1: 2] @ heapprofile\n', 'gperftools', 'go tool pprof -proto'),
            (b'heap_v2/524288\n  t*: 1: 2 [0: 0]\n', 'jemalloc', 'jeprof'),
            (b'--- contentionz 1 ---\ncycles/second = 1\n', 'contention profile', 'go tool pprof -proto'),
            (b'\0' * 8 + b'\3' + b'\0' * 7 + b'\0' * 8 + b'\x10\x27' + bytes(14), 'CPU profile of gperftools'),
            (b'PERFILE2' + bytes(96), 'Linux perf', 'perf_to_profile'), (b'FLR\0\0\2\0\0' + bytes(60), 'Java flight', 'jfrconv'),
            (b'JAVA PROFILE 1.0.2\0' + bytes(20), 'heap dump of Java'), (b'desc: --time-unit=B\ncmd: ls\n', 'massif', 'ms_print'),
            (b'\xef\xbb\xbf {\n "$schema": "https://www.speedscope.app/file-format-schema.json"}', 'file of speedscope'),
            (b'[{"name": "x"}]', 'file of JSON'), (b'{"traceEvents": []}', 'trace of events', 'Perfetto'),
            (b'<!DOCTYPE html>\n<p>', 'page of HTML'), (b'main;hold;malloc 12\nmain 3\n', 'collapsed stacks'),
            ('Dies ist für Menschen.\n'.encode(), 'a text')):
        told(test, 'other', data, *wanted)
        error = test.run('report', write(test, 'other.gz', [], HEAP, pack=lambda _, data=data: gzip.compress(data)), code=7).stderr
        assert all(text in error for text in wanted), error


REAL = {  # by which library a program writes which file, and what is said of it
    'je': ('libjemalloc.so.2', {'MALLOC_CONF': 'prof:true,prof_final:true,lg_prof_sample:10,prof_prefix:%s'}, 'heap profile of jemalloc'),
    'tc': ('libtcmalloc.so.4', {'HEAPPROFILE': '%s'}, "heap profile in gperftools' text"),
    'cpu': ('libprofiler.so.0', {'CPUPROFILE': '%s'}, 'CPU profile of gperftools'),
}


def case_real(test):
    """Files that jemalloc, gperftools and node write here; gperftools' also as pprof converts them."""
    found = 0
    if not shutil.which('perl'):
        sys.exit(77)
    for name, (library, variables, what) in REAL.items():
        path = next((os.path.join(d, library) for d in ('/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu', '/usr/lib64')
                     if os.path.exists(os.path.join(d, library))), None)
        if not path:
            print('no', library)
            continue
        env = {k: v % out_of(test, name) for k, v in variables.items()}
        subprocess.run(['perl', '-e', '@x = map { $_ x 3000 } 1..2000; $s += $_ * $_ for 1..2e6'], check=True,
                       env=dict(os.environ, LD_PRELOAD=path, **env), stderr=subprocess.DEVNULL)
        files = sorted((f for f in os.listdir(test.folder) if f.startswith(name) and os.path.getsize(os.path.join(test.folder, f))),
                       key=lambda f: -os.path.getsize(os.path.join(test.folder, f)))
        if not files:
            print('no file by', library)
            continue
        found += 1
        told(test, files[0], None, what)
        if name == 'je' or not shutil.which('go'):
            continue
        converted = out_of(test, 'converted.pb.gz')
        subprocess.run(['go', 'tool', 'pprof', '-proto', '-output=' + converted, out_of(test, files[0])], check=True,
                       env=dict(os.environ, HOME=test.folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for command in (['report'], ['diff', converted], ['flame', '-o', out_of(test, 'converted.html')]):
            text = test.run(*command, converted).stdout
            wanted = ('cpu: ', 'sampling interval: 10 ms') if name == 'cpu' else ('inuse_space: ', 'sampling interval: 1 B', 'MiB')
            assert command[0] != 'report' or all(word in text for word in wanted), text
    node = shutil.which('node') or shutil.which('nodejs')
    for option, what in (('heap', 'heap profile of V8'), ('cpu', 'CPU profile of V8')) if node else ():
        subprocess.run([node, '--%s-prof' % option, '--%s-prof-name' % option, option + '.json', '-e', '[].concat([1], [2])'], cwd=test.folder,
                       stderr=subprocess.DEVNULL, check=False)
        if os.path.exists(out_of(test, option + '.json')):
            found += 1
            told(test, option + '.json', None, what, 'speedscope')
    if not found:
        sys.exit(77)


def case_go(test):
    """Go's own: two heap profiles, pprof's difference and merge of them, CPU time."""
    if not shutil.which('go'):
        sys.exit(77)
    source, program = out_of(test, 'heap.go'), out_of(test, 'heap')
    with open(source, 'w', encoding='ascii') as f:
        f.write('''package main
import ("os"; "runtime"; "runtime/pprof")
var keep [][]byte
//go:noinline
func hold(n int) { for i := 0; i < n; i++ { keep = append(keep, make([]byte, 50000)) } }
func write(name string) { runtime.GC(); runtime.GC(); f, _ := os.Create(name); pprof.Lookup("heap").WriteTo(f, 0); f.Close() }
func main() {
    c, _ := os.Create(os.Args[3]); pprof.StartCPUProfile(c)
    hold(2000); write(os.Args[1]); for i := 500; i < 2000; i++ { keep[i] = nil }; write(os.Args[2])
    s := 0; for i := 0; i < 300000000; i++ { s += i % 7 }; keep[0][0] = byte(s)
    pprof.StopCPUProfile(); c.Close(); runtime.KeepAlive(keep) }
''')
    env = dict(os.environ, GOCACHE=out_of(test, 'cache'), HOME=test.folder, GO111MODULE='off')
    subprocess.run(['go', 'build', '-o', program, source], check=True, env=env)
    files = [out_of(test, name) for name in ('a.pb.gz', 'b.pb.gz', 'cpu.pb.gz')]
    subprocess.run([program, *files], check=True)
    text = test.run('diff', '--by', 'function', *files[:2]).stdout
    names, lines = table(text, 'function that called malloc')
    assert names[0] == 'main.hold', text
    below = lines[lines.index('  within chance:'):] if '  within chance:' in lines else []
    assert not any('main.hold' in line for line in below), text
    difference = out_of(test, 'difference.pb.gz')
    for option in ('-diff_base', '-base'):
        subprocess.run(['go', 'tool', 'pprof', '-proto', '-output=' + difference, option, files[0], files[1]], check=True, env=env,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        names, lines = table(test.run('report', '--by', 'function', difference).stdout, 'function that called malloc')
        assert names[0] == 'main.hold' and lines[0].strip().startswith('-'), lines
    subprocess.run(['go', 'tool', 'pprof', '-proto', '-output=' + difference, *files[:2]], check=True, env=env,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert table(test.run('report', '--by', 'function', difference).stdout, 'function that called malloc')[0][0] == 'main.hold'
    text = test.run('report', '--by', 'function', files[2]).stdout
    assert re.search(r'^exactly: \d+0000000 nanoseconds$', text, re.M) and 'sampling interval: 10 ms' in text, text


if __name__ == '__main__':
    run_case(globals(), sys.argv[-1], *sys.argv[1:-1])
