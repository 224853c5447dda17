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
    """Members of gzip, zstd, nothing at all, no names, and a million samples."""
    rows = heap_of(4)
    whole = made_profile.profile(rows, 524288)

    def members(data):
        return gzip.compress(data[:100]) + gzip.compress(b'') + gzip.compress(data[100:])
    plain = test.run('report', write(test, 'plain.pb', rows, HEAP)).stdout
    assert test.run('report', write(test, 'members.pb.gz', rows, HEAP, pack=members)).stdout == plain
    path = out_of(test, 'packed.pb.zst')
    with open(path, 'wb') as f:
        f.write(b'\x28\xb5\x2f\xfd' + whole)
    assert 'compressed by zstd' in test.run('report', path, code=7).stderr
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
