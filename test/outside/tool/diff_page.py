#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of `sallocctl diff --html` in a browser, against the text of `sallocctl diff`.

usage: diff_page.py LIBRARY SALLOCCTL WORKER STATIC-WORKER CHURN CASE
"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import browser  # noqa: E402  # pylint: disable=wrong-import-position
import made_profile  # noqa: E402  # pylint: disable=wrong-import-position
from diff import FOUND, RISK, ask, at_most, churn, profile, tables  # noqa: E402  # pylint: disable=wrong-import-position
from files import out_of  # noqa: E402  # pylint: disable=wrong-import-position
from page import check_quiet, make  # noqa: E402  # pylint: disable=wrong-import-position
from profile import run_case  # noqa: E402  # pylint: disable=wrong-import-order,wrong-import-position

# Rows of the page's table, as the text has them: before, after, change, ends, gone, new, name, and whether it is a change.
ROWS = '''
    table.shown = 1e9, table.render(), [...document.querySelectorAll("#table tbody tr:not(.chance-line)")].map(row => {
        const of = (name) => row.querySelector("." + name).textContent;
        return [of("before"), of("after"), of("change"), of("interval"), of("gone"), of("come"),
                row.querySelector("button").title, row.className]; })'''


def text_rows(lines):
    """Rows of a table of the text, with whether each is a change."""
    number = r'([+-]?[\d.]+(?: [KMGT]?i?B)?|-|unknown)'
    certain, rows = True, []
    for line in lines:
        if line == FOUND:
            certain = False
            continue
        found = re.match(r'\s*' + r'\s+'.join([number] * 7) + r'\s+(.*)', line)
        if found:
            rows.append((*found.groups(), certain))
    return rows


def page_rows(tab):
    rows = []
    for before, after, change, interval, gone, come, name, kind in tab.js(ROWS):
        ends = interval.split(' to ') if ' to ' in interval else (change, change) if interval == 'exact' else ('-', '-')
        if ' ' in ends[1] and ' ' not in ends[0]:
            ends[0] += ' ' + ends[1].split(' ')[1]
        rows.append((*(n.replace(',', '') for n in (before, after, change, *ends, gone, come)), name, kind in ('more', 'less')))
    return rows


def compare(test, tab, before, after, metric, tables_of=('functions', 'lines', 'sizes')):
    """The rows of all tables, and the total."""
    text = test.run('diff', '-m', metric, '-n', '0', before, after).stdout
    ours = list(tables(text).values())
    plain = metric == 'resident_space'
    wanted = {'functions total': ours[1], 'functions flat': ours[0], 'lines total': ours[3], 'lines flat': ours[2]}
    wanted.update(('sizes total', lines) for title, lines in tables(text).items() if title.startswith('size'))
    for name, lines in wanted.items():
        rows_of, part = name.split()
        if rows_of not in tables_of:
            continue
        tab.js('document.querySelector("[data-rows=%s]").click(); document.querySelector("[data-part=%s]").click()' % (rows_of, part))
        theirs, found = text_rows(lines), page_rows(tab)
        assert theirs, (metric, name, lines[:5])
        if plain:  # the page has no intervals of these
            theirs, found = [(*r[:3], r[7]) for r in theirs], [(*r[:3], r[7]) for r in found]
        elif metric.startswith('alloc_'):  # of one process no change of these is judged
            theirs, found = [r[:8] for r in theirs], [r[:8] for r in found]
        missing = [row for row in theirs if row not in found]
        assert not missing, (metric, name, missing[:4], found[:20])
    total = re.search(r'^exactly: ([+-]\d+) \w+(?: \((\S+) to (\S+)\))?', text, re.M).groups()
    value, ends = tab.js('(() => { const c = comparison.changeOf(all, true); '
                         'return [c.value, c.interval && [fixed(c.interval.low, 0), fixed(c.interval.high, 0)]]; })()')
    assert value == int(total[0]), (value, total)
    if not plain:
        assert [int(n) for n in ends] == [int(total[1]), int(total[2])], (ends, total)
        counts = re.search(r'samples: (\d+) in both, (\d+) gone, (\d+) new', text)
        said = tab.js('element("missed").textContent').replace(',', '')
        wide = re.search(r'samples: (\d+) before, (\d+) after', text)
        assert not wide or said.startswith('Samples: %s before %s after' % wide.groups()), (said, text)
        assert not counts or said.startswith('Samples: %s in both %s gone %s new' % counts.groups()), (said, counts)


def show(tab, metric):
    tab.js('(() => { const s = element("metric"); s.value = profile.metrics.findIndex((m) => m.name === "%s"); '
           's.dispatchEvent(new Event("change")); })()' % metric)


def case_agree(test):
    """Numbers and colours are those of the text; screen readers have them; keys, search and filters work."""
    tab, worker = browser.Browser(), churn(test, 1, 4096)
    test.tabs.append(tab)
    before = profile(test, worker, 'a.pb.gz')
    for _ in range(20):
        ask(worker, b'grow')
    after, page = profile(test, worker, 'b.pb.gz'), out_of(test, 'page.html')
    result = test.run('diff', '--html', page, before, after)
    assert result.stdout == result.stderr == '', result
    tab.open(page)
    check_quiet(tab, page)
    for metric in ('inuse_space', 'inuse_objects', 'alloc_space', 'alloc_objects', 'resident_space'):
        show(tab, metric)
        compare(test, tab, before, after, metric)
    show(tab, 'inuse_space')
    tab.js('document.querySelector("[data-rows=functions]").click(); document.querySelector("[data-part=total]").click()')
    assert tab.js('comparison.directionOfNode(tree, 0)') == 0
    grown = '''(() => { for (let n = 1; n < tree.nodeCount; n++) if (tree.name(n) === "grown_function") return n; })()'''
    assert tab.js('comparison.directionOfNode(tree, %s)' % grown) == 1
    said = tab.js('describe(%s)' % grown)
    assert re.match(r'grown_function: \+[\d.]+ MiB: from [\d.]+ MiB to [\d.]+ MiB, 95 % interval \+.* to \+.* MiB, '
                    r'[\d,]+ samples gone, [\d,]+ new, chance does not explain it$', said), said
    tab.js('focusOn(%s)' % grown)
    found = tab.accessible()
    assert ('treeitem', said) in found, [item for item in found if item[0] == 'treeitem']
    cells = [name for role, name in found if role in ('cell', 'gridcell')]
    row = next(r for r in text_rows(tables(test.run('diff', before, after).stdout)['function, with all that it calls'])
               if r[7] == 'grown_function')
    assert row[8] and all(part in cells for part in row[:3]), (row, cells[:30])
    assert any('Within chance' == name for _, name in found)
    assert 'chance does not explain it' in tab.js('[...element("tip").children].map(e => e.textContent).join()')
    # What is wide: what both have, or the change.
    both = tab.js('tree.value(0)')
    tab.js('element("width").value = "change"; element("width").dispatchEvent(new Event("change"))')
    change = tab.js('tree.value(0)')
    assert 0 < change < both and change >= abs(tab.js('comparison.changeOf(all).value'))
    tab.js('element("search").value = "grown"; element("search").dispatchEvent(new Event("input"))')
    assert re.match(r'1 function: \+[\d.]+ MiB, 95 % interval', tab.js('element("found").textContent'))
    # The other way round it is less; a profile and itself have no colour.
    test.run('diff', '--html', page, after, before)
    tab.open(page)
    assert tab.js('comparison.directionOfNode(tree, %s)' % grown) == -1
    test.run('diff', '--html', page, before, before)
    tab.open(page)
    assert colours(tab) == (0, 0)
    for arguments in (['--html', page, before], ['--html', page, '-m', 'nothing', before, after]):
        assert test.run('diff', *arguments, code=2).stderr, arguments
    check_quiet(tab, page)


def colours(tab):
    """How many rows of all tables, and how many frames of both orders, are called changes."""
    return tuple(tab.js('''(() => {
        let rows = 0, frames = 0;
        for (const list of [functionRows(profile, stackSums), lineRows(profile, stackSums), sizeRows(profile, state.metric, state.filter)])
            for (const row of list)
                for (const pair of [row.sums(), row.flatSums()])
                    rows += pair && comparison.directionOfRow(pair) ? 1 : 0;
        for (let node = 1; node < tree.nodeCount; node++)
            frames += comparison.directionOfNode(tree, node) ? 1 : 0;
        return [rows, frames]; })()'''))


def case_steady(test, runs=60):
    """Where all blocks are replaced and none is more, 95 % of pages have no colour in tables, and 95 % none in the graph."""
    tab, page, rows, frames = browser.Browser(), out_of(test, 'page.html'), 0, 0
    test.tabs.append(tab)
    for run in range(runs):
        worker = churn(test, run + 1, 8192)
        before = profile(test, worker, 'a.pb.gz')
        ask(worker, b'turn')
        test.run('diff', '--html', page, before, profile(test, worker, 'b.pb.gz'))
        worker.end()
        tab.open(page)
        found = colours(tab)
        rows, frames = rows + bool(found[0]), frames + bool(found[1])
    for alarms in (rows, frames):
        assert not alarms or 1 - at_most(alarms - 1, runs, 0.05) >= RISK, (rows, frames)
    print(f'rows in {rows}, frames in {frames} of {runs}')


def case_made(test):
    """Two builds of a program, other intervals, and functions that one of them lacks; names that are HTML."""
    def rows(period, sizes):
        return [made_profile.row([name, 'main'], size, n * 65536 // period, period) for name, size, n in sizes]
    sizes = [('kept', 64, 400), ('<b>gone</b>', 64, 300), ('large', 1 << 20, 6)]
    before = make(test, rows(65536, sizes), 65536, 'a.pb')
    after = out_of(test, 'b.pb')
    with open(after, 'wb') as f:
        f.write(made_profile.profile(rows(16384, [sizes[0], ('new</script>', 64, 200), ('large', 1 << 20, 1)]), 16384,
                                     libraries=('/other/made', '/other/libmade.so')))
    tab, page = browser.Browser(), out_of(test, 'page.html')
    test.tabs.append(tab)
    test.run('diff', '--html', page, before, after)
    tab.open(page)
    check_quiet(tab, page)
    for metric in ('inuse_space', 'inuse_objects'):
        show(tab, metric)
        compare(test, tab, before, after, metric, ('functions', 'sizes'))
    directions = tab.js('''Object.fromEntries([...Array(tree.nodeCount).keys()].slice(1).map((n) =>
        [tree.name(n), comparison.directionOfNode(tree, n)]))''')
    assert (directions['kept'], directions['<b>gone</b>'], directions['new</script>'], directions['large']) == (0, -1, 1, -1), directions
    assert tab.js('tree.children(0).length') == 1  # main, wherever the builds lie


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
