#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages with a time line, in a browser: of `sallocctl flame --every`, and of `run --html --every`.

usage: timeline.py LIBRARY SALLOCCTL WORKER STATIC-WORKER CHURN CASE
"""
import json
import math
import os
import random
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import browser  # noqa: E402  # pylint: disable=wrong-import-position
import made_profile  # noqa: E402  # pylint: disable=wrong-import-position
from diff import ask, churn, profile  # noqa: E402  # pylint: disable=wrong-import-position
from files import at_exit, out_of  # noqa: E402  # pylint: disable=wrong-import-position
from page import HOSTILE, check_quiet, compare_tables, cpu_of, data_of, exactly  # noqa: E402  # pylint: disable=wrong-import-position
from profile import INTERVAL, Profile, Worker, run_case  # noqa: E402  # pylint: disable=wrong-import-order,wrong-import-position


def open_page(test, page):
    tab = browser.Browser()
    test.tabs.append(tab)
    tab.open(page)
    check_quiet(tab, page)
    return tab


def moments(page):
    """How many moments a page has, and seconds from the first to the last."""
    times = json.loads(data_of(page))['moments']['times']
    return len(times), (times[-1] - times[0]) / 1000


def case_agree(test):
    """At each moment, numbers and intervals are those of a profile of that moment."""
    worker, page = Worker(test, [test.worker, 'still']), out_of(test, 'page.html')
    result = test.run('flame', '--every', '0.3s', '--for', '1', '-o', page, str(worker.pid))
    assert result.stdout == result.stderr == '', result
    assert moments(page)[0] in (2, 3, 4), moments(page)
    path, tab = profile(test, worker, 'x.pb.gz'), open_page(test, page)
    for i, metric in enumerate(('inuse_objects', 'inuse_space')):
        tab.js('element("metric").value = %d; element("metric").dispatchEvent(new Event("change"))' % i)
        for moment in (0, moments(page)[0] - 1):
            tab.js('showMoment(%d)' % moment)
            own, value = Profile(path), tab.js('all.value')
            if metric == 'inuse_space':
                assert value == own.totals()[metric]
                compare_tables(test, tab, path, metric)
            else:  # the file rounds each row up or down to whole blocks
                assert abs(value - own.totals()[metric]) < len(own.samples), (value, own.totals())
            ends = tab.js('''(() => { const i = intervalOf(all, profile.unseenWeight(state.metric, state.filter));
                return [fixed(i.low, 0), fixed(i.high, 0), fixed(all.samples, 0)]; })()''')
            assert tuple(ends) == exactly(test, path, '-m', metric), (ends, exactly(test, path, '-m', metric))
    # While much changes: the sums of the line are those of the moments.
    worker = churn(test, 1, 16384)
    with subprocess.Popen([test.tool, 'flame', '--every', '0.2', '--for', '3', '-o', page, str(worker.pid)]) as process:
        while process.poll() is None:
            ask(worker, b'grow')
            time.sleep(0.1)
        assert process.returncode == 0
    assert moments(page)[0] >= 5, moments(page)
    tab = open_page(test, page)
    differ = tab.js('''moments.times.map((_, at) => {
        showMoment(at);
        const line = timeLine.totals[at], bands = timeLine.bands.of.map((_, i) => timeLine.series[at].value(i));
        const ends = intervalOf(all, profile.unseenWeight(state.metric, state.filter));
        const near = (a, b) => Math.abs(a - b) <= 1e-6 * Math.abs(b) + 1e-6;
        return near(line.value, all.value) && near(line.low, ends.low) && near(line.high, ends.high) &&
            line.samples === all.samples && near(bands.reduce((a, b) => a + b, 0), all.value); })''')
    assert differ == [True] * moments(page)[0], differ
    totals = tab.js('moments.times.map((_, at) => timeLine.totals[at].value)')
    assert len(set(totals)) > 2, totals
    # It shows the moment with the most first.
    tab.open(page)
    assert tab.js('state.moment') == totals.index(max(totals))


def case_keys(test):
    """The slider, by keys, mouse and as screen readers know it; bands have intervals, and follow the zoom and the filters."""
    worker, page = Worker(test, [test.worker, 'storm'], interval=65536), out_of(test, 'page.html')
    test.run('flame', '--every', '0.1', '--for', '1.5', '-o', page, str(worker.pid))
    worker.end()
    count, tab = moments(page)[0], open_page(test, page)
    assert count > 4
    found = dict(tab.accessible())
    assert found.get('slider') == 'Moment', found
    tab.js('element("slider").focus()')
    for key, wanted in (('Home', 0), ('ArrowRight', 1), ('ArrowUp', 2), ('ArrowLeft', 1), ('PageUp', min(11, count - 1)), ('End', count - 1),
                        ('ArrowRight', count - 1), ('PageDown', max(0, count - 11)), ('Home', 0), ('ArrowDown', 0)):
        tab.key(key)
        assert tab.js('[state.moment, Number(element("slider").getAttribute("aria-valuenow"))]') == [wanted, wanted], (key, wanted)
    tab.key('End')
    said = tab.js('element("slider").getAttribute("aria-valuetext")')
    amount = r'[\d.]+ [KMG]iB \([\d.]+ [KMG]iB to [\d.]+ [KMG]iB\)'
    assert re.match(r'[\d.]+ s: %s\. Largest: \w+ %s; ' % (amount, amount), said), said
    rows = tab.js('[...document.querySelectorAll("#bands li")].map(li => li.textContent)')
    assert len(rows) >= 2 and all(re.search(r'[\d.]+ (B|[KMG]iB) \((exact|.* to [\d.]+ (B|[KMG]iB))\)$', row) for row in rows), rows
    assert any(role == 'button' and name and name in rows[0] for role, name in tab.accessible())
    # The mouse: in the middle of the line.
    x, y, width = tab.js('(() => { const r = element("slider").getBoundingClientRect(); return [r.left, r.top + r.height / 2, r.width]; })()')
    tab.click(x + width / 2, y)
    assert 0 < tab.js('state.moment') < count - 1
    said = tab.js('[element("tip").hidden, element("tip").textContent]')
    assert not said[0] and ' to ' in said[1], said
    # A band zooms; its node is then the whole.
    tab.js('document.querySelector("#bands button").click()')
    assert tab.js('state.zoom') > 0
    sums = tab.js('timeLine.bands.of.map((_, i) => timeLine.series[state.moment].value(i)).reduce((a, b) => a + b, 0)')
    assert sums == tab.js('tree.value(state.zoom)')
    path = tab.js('tree.path(state.zoom).map(node => tree.name(node))')
    tab.js('showMoment(0)')
    assert tab.js('tree.path(state.zoom).map(node => tree.name(node))') == path
    tab.key('Escape')
    tab.js('setSize(1, 4096)')
    assert tab.js('timeLine.totals[state.moment].value') == tab.js('all.value') > 0
    assert not tab.complaints(), tab.complaints()


def case_bounded(test):
    """More readings than a page has moments: they are as far apart, and the last ones are there."""
    worker, page = Worker(test, [test.worker, 'still'], interval=1 << 20), out_of(test, 'page.html')
    for _ in range(3):  # a reading takes some milliseconds, of which a busy machine makes many
        start = time.monotonic()
        test.run('flame', '--every', '0.004', '--for', '8', '-o', page, str(worker.pid))
        passed = time.monotonic() - start
        count, seconds = moments(page)
        assert count <= 240 and seconds > 6, (count, seconds, passed)
        if 115 < count:
            break
    times = json.loads(data_of(page))['moments']['times']
    assert os.path.getsize(page) < 2 << 20


def in_use(path, period):
    """What an event trace saw in use after each event, by its labels."""
    own, live, blocks, sums = Profile(path), 0, {}, []
    for _, _, labels in own.samples:
        labels = {key: value[0] if isinstance(value, tuple) else value for key, value in labels.items()}
        size, handle = labels['bytes'], labels['alloc_handle']
        p = -math.expm1(size * math.log1p(-1 / period)) if period > 1 else 1
        if 'deallocation_time' not in labels:
            blocks[handle] = size / (p if p <= 0.99 else 1)
            live += blocks[handle]
        elif handle in blocks:
            live -= blocks.pop(handle)
        else:
            continue
        sums.append(live)
    return sums


def case_events(test):
    """An event trace: each event is a moment, and where there are too many, no peak is lost."""
    for interval, more in ((1 << 17, False), (4096, True)):
        path, page = at_exit(test, 'e.pb.gz', interval, ',profile_type:events,event_bytes:16m'), out_of(test, 'page.html')
        assert test.run('flame', '-o', page, path).stdout == ''
        sums, tab = in_use(path, interval), open_page(test, page)
        totals, rows = tab.js('moments.times.map((_, at) => timeLine.totals[at].value)'), tab.js('profile.rowCount')
        assert len(totals) == (2000 if more else len(sums)) and (len(sums) > 4000) == more, (len(totals), len(sums))
        if not more:
            assert all(abs(a - b) <= rows for a, b in zip(totals, sums))
        assert abs(max(totals) - max(sums)) <= rows and abs(totals[-1] - sums[-1]) <= rows, (max(totals), max(sums), totals[-1], sums[-1])
        assert tab.js('moments.times.every((time, at) => !at || time >= moments.times[at - 1])')
        tab.js('showMoment(%d)' % (len(totals) // 2))
        assert tab.js('all.value') == totals[len(totals) // 2]
        if more:  # 30 ms where nothing else runs
            moment = min(cpu_of(tab, tab.js, 'showMoment(%d), flame.context.getImageData(0, 0, 1, 1).data[0]' % (100 * i)) for i in range(12))
            print('a moment is shown after %.0f ms of CPU' % moment)
            assert moment < 100
        said = tab.js('element("missed").textContent')
        assert said.startswith('What the trace saw allocated and not freed.'), said
        low, high = tab.js('(() => { const t = timeLine.totals.at(-1); return [t.low, t.high]; })()')
        assert low <= 20000 * 1500 + 40 * 700000 and high >= totals[-1], (low, high)
    assert 'inuse_space' in test.run('flame', '-m', 'allocated_space', '-o', page, path, code=2).stderr


def case_hostile(test):
    """Traces with any numbers, and names that are HTML: pages of them, and of two compared, complain of nothing and run nothing."""
    types, chance = (('allocated_objects', 'count'), ('allocated_space', 'bytes'), ('deallocated_objects', 'count'),
                     ('deallocated_space', 'bytes')), random.Random(5)
    paths = [out_of(test, name) for name in ('a.pb', 'b.pb')]
    pages = [out_of(test, name) for name in ('line.html', 'diff.html')]
    tab = browser.Browser()
    test.tabs.append(tab)
    for period in (65536, 0, -1, 1, 1 << 62):
        for path in paths:
            rows = []
            for i in range(60):
                labels = {'alloc_handle': chance.choice((1, 2, 3, i + 1, -7, 0)) if i else 1, 'allocation_time': chance.choice((0, -1, 1 << 62)),
                          'bytes': chance.choice((0, -5, 64, 1 << 20, 1 << 62, -1 << 63)), 'thread': chance.choice(HOSTILE) or 'x'}
                if chance.random() < 0.4:
                    labels['deallocation_time'] = chance.choice((1, -1, 1 << 62))
                rows.append(([chance.choice(HOSTILE), 'main'], tuple(chance.choice((0, 1, -1, 5, 1 << 62)) for _ in types), labels))
            with open(path, 'wb') as f:
                f.write(made_profile.profile(rows, period, types))
        test.run('flame', '-o', pages[0], paths[0])
        test.run('diff', '--html', pages[1], *paths)
        for page in pages:
            tab.open(page)
            tab.picture()
            check_quiet(tab, page)
            assert tab.js('typeof window.ran') == 'undefined'


def run_page(test, page, *program, every='0.1', more=()):
    result = subprocess.run([test.tool, 'run', '-l', test.library, '--html', page, '--every', every, '-c', 'sample_interval:%d' % INTERVAL, *more,
                             '--', *program], stderr=subprocess.PIPE, check=False, universal_newlines=True, env=dict(os.environ, PYTHONMALLOC='malloc'))
    return result.returncode, result.stderr


GROW = '''
import os, sys, time
kept = []
for i in range(8):
    kept.append([bytes(1000 + i) for i in range(1000)])
    time.sleep(0.1)
%s
'''


def case_run(test):
    """A program from its start to its end, however it ends; one that is short has a page without a line."""
    page = out_of(test, 'page.html')
    code, text = run_page(test, page, sys.executable, '-c', GROW % 'sys.exit(9)')
    found = re.fullmatch(r'sallocctl: (\S+) shows the heap of (\S+) at (\d+) moments\n', text)
    assert code == 9 and found and found.group(1) == page and int(found.group(3)) == moments(page)[0] > 3, (code, text)
    tab = open_page(test, page)
    totals = tab.js('moments.times.map((_, at) => timeLine.totals[at].value)')
    assert max(totals) > totals[0] + (4 << 20), totals
    assert {'bytes_new', 'PyBytes_FromStringAndSize', '_PyBytes_FromSize'} & set(tab.js('profile.names')), 'no names'
    code, text = run_page(test, page, sys.executable, '-c', GROW % 'os.kill(os.getpid(), 9)')
    assert code == -9 and 'moments' in text, (code, text)
    code, text = run_page(test, page, 'true', every='60')
    assert code == 0 and 'moments' not in text, (code, text)
    # Another program in its place: the line begins with it.
    os.remove(page)
    code, text = run_page(test, page, 'sh', '-c', 'sleep 0.5; exec "$0" -c "$1"', sys.executable, GROW % '')
    assert code == 0 and 'moments' in text, (code, text)
    names = json.loads(data_of(page))
    assert names['program'].startswith('python') and not [n for n in names['libraries'] if os.path.basename(n) in ('dash', 'sh')], names['libraries']
    for arguments in (['--every', '1', '--', 'true'], ['--html', page, '--every', '1', '-t', 'peak', '--', 'true'],
                      ['--html', page, '--every', '0', '--', 'true']):
        assert test.run('run', '-l', test.library, *arguments, code=2).stderr
    worker = Worker(test, [test.worker, 'still'])
    for arguments in (['--every', '1'], ['--for', '1']):
        assert 'time line' in test.run('flame', '-o', page, *arguments, str(worker.pid), code=2).stderr
    assert 'time line' in test.run('flame', '-o', page, '--every', '1', '--for', '1', page, code=2).stderr
    assert test.run('flame', '-o', page, '--every', '1', '--for', '1', '4194304', code=3).stderr
    # A process that ends before the time is over.
    with subprocess.Popen([test.tool, 'flame', '--every', '0.1', '--for', '60', '-o', page, str(worker.pid)]) as process:
        time.sleep(1)
        worker.end()
        assert process.wait(timeout=30) == 0
    assert moments(page)[0] > 2


def main(library, tool, worker, static, churn_program, case):
    if not browser.name():
        sys.exit(77)
    tabs = []
    try:
        run_case(globals(), case, library, tool, worker, static, churn=os.path.abspath(churn_program), tabs=tabs)
    finally:
        for tab in tabs:
            tab.close()


if __name__ == '__main__':
    main(*sys.argv[1:])
