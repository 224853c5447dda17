#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sallocctl stats against the page that the process itself writes.

usage: stats.py LIBRARY SALLOCCTL WORKER STATIC-WORKER CASE
The pages are equal, line by line, but for lines that depend on the moment, and those of which only the process itself
knows something (MOMENT). The buffer of the page that the process writes counts in its own metadata, and only then.
"""
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time

from profile import Worker, run_case

# Per second; RSS and address space; what the kernel says of page tables.
MOMENT = re.compile(r'allocs/s|^TOTAL: |Pagemap root resident|the kernel says|entry age|^(Live|Unmapped) span')
# With the buffer, in the page that the process writes.
WITH_BUFFER = re.compile(r'Bytes in malloc metadata$|Actual memory used \(|Virtual address space used|^MmapSysAllocator')
# The same of the other formats.
MOMENT_NAMES = {'process_resident_bytes', 'process_virtual_bytes', 'pagemap_root_resident_bytes', 'kernel_resident_bytes',
                'kernel_hugepage_bytes', 'time_ns'}
BUFFER_NAMES = {'metadata_bytes', 'metadata_other_bytes', 'physical_bytes', 'virtual_bytes', 'system_bytes'}


class StatsWorker(Worker):
    """A program that writes its page at SIGUSR1."""

    def __init__(self, test, command, preload=True, ending='txt', conf='', **more):
        self.page = os.path.join(test.folder, 'own_page.' + ending)
        super().__init__(test, command, preload, conf=',stats:%s,stats_signal:USR1%s' % (self.page, conf), **more)

    def own_page(self):
        if os.path.exists(self.page):
            os.remove(self.page)
        os.kill(self.pid, signal.SIGUSR1)
        for _ in range(400):
            if os.path.exists(self.page):
                with open(self.page, encoding='ascii') as f:
                    return f.read()
            time.sleep(0.02)
        raise AssertionError('the process writes no page')


def first_number(line):
    return int(re.search(r'\d+', line).group())


def same_text(outside, own, moment=MOMENT):
    # CPUs that the thread that writes may run on: the tool asks for those of the first thread.
    ours, theirs = (page.replace(' active\n', '\n').splitlines() for page in (outside, own))
    assert len(ours) == len(theirs) > 300, (len(ours), len(theirs))
    buffers = set()
    for mine, other in zip(ours, theirs):
        if WITH_BUFFER.search(other):
            assert re.sub(r'[\d.]+', '', mine).split() == re.sub(r'[\d.]+', '', other).split(), (mine, other)
            buffers.add(first_number(other) - first_number(mine))
        elif moment.search(other):
            assert re.sub(r'[\d.]+', '', mine).split() == re.sub(r'[\d.]+', '', other).split() or 'age' in other or \
                'span' in other, (mine, other)
        else:
            assert mine == other, (mine, other)
    assert len(buffers) == 1 and 0 <= buffers.pop() < 10 << 20, buffers


def case_still(test):
    worker = StatsWorker(test, [test.worker, 'still'])
    own = worker.own_page()
    same_text(test.run('stats', str(worker.pid)).stdout, own)
    os.kill(worker.pid, signal.SIGSTOP)
    stopped = test.run('stats', str(worker.pid)).stdout
    same_text(stopped, own)
    assert stopped.startswith('See salloc/doc/stats.md')
    worker.end()


def case_static(test):
    worker = StatsWorker(test, [test.static, 'still'], preload=False)
    own = worker.own_page()
    same_text(test.run('stats', str(worker.pid)).stdout, own)
    worker.end()


def case_modes(test):
    """Caches of threads; checks of the hardened mode; limits; another interval of sampling; no samples."""
    for conf in (',per_cpu:off', ',hardening:on,quarantine:1m', ',soft_limit:1g,hard_limit:2g,release_rate:1m',
                 ',sample_interval:0', ',mixed_spans:always', ',maintenance_thread:on', ',hugepages:always'):
        worker = StatsWorker(test, [test.worker, 'still'], conf=conf)
        own = worker.own_page()
        same_text(test.run('stats', str(worker.pid)).stdout, own)
        for key in re.findall(r',(\w+):', conf):
            assert '\nPARAMETER salloc_%s ' % key in own, key
        if 'per_cpu' in conf:
            assert 'caches are per thread: ' in own
        worker.end()


def case_core(test):
    """Of a core the kernel tells nothing, and rates are those up to the heap's last tick."""
    worker = StatsWorker(test, [test.worker, 'still'])
    own = worker.own_page()
    core = test.core(worker.pid)
    worker.end()
    page = test.run('stats', core).stdout
    same_text(page, own)


def flat(value, path=''):
    """{path: number or text} of JSON."""
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    else:
        return {path: value}
    return {k: v for key, part in pairs for k, v in flat(part, '%s/%s' % (path, key)).items()}


def case_json(test):
    worker = StatsWorker(test, [test.worker, 'still'], ending='json')
    own, outside = flat(json.loads(worker.own_page())), flat(json.loads(test.run('stats', '--json', str(worker.pid)).stdout))
    assert own.keys() == outside.keys() and len(own) > 1000
    assert outside['/pid'] == worker.pid
    buffers = set()
    for key, value in own.items():
        name = key.split('/')[-1]
        if name in BUFFER_NAMES:
            buffers.add(value - outside[key])
        elif name not in MOMENT_NAMES:
            assert value == outside[key], key
    assert len(buffers) == 1, buffers
    worker.end()


def samples(text):
    return dict(line.rsplit(' ', 1) for line in text.splitlines() if not line.startswith('#'))


def case_metrics(test):
    """OpenMetrics, and Prometheus in a file: whole, readable by its collector, with its name as a label."""
    worker = StatsWorker(test, [test.worker, 'still'], ending='prom')
    own = worker.own_page()
    text = test.run('stats', '--openmetrics', str(worker.pid)).stdout
    assert text.endswith('# EOF\n')
    path = os.path.join(test.folder, 'other', 'own_page.prom')
    os.mkdir(os.path.dirname(path))
    old = os.umask(0o077)
    result = test.run('stats', '-o', path, str(worker.pid))
    os.umask(old)
    assert result.stdout == '' and stat.S_IMODE(os.stat(path).st_mode) == 0o644
    with open(path, encoding='ascii') as f:
        outside = f.read()
    assert [line for line in own.splitlines() if line.startswith('#')] == \
        [line for line in outside.splitlines() if line.startswith('#')]
    mine, theirs = samples(outside), samples(own)
    assert mine.keys() == theirs.keys() and all('file="own_page.prom"' in key for key in mine)
    for key, value in theirs.items():
        name = re.match(r'salloc_(?:hugepages_)?(\w+?)(?:_total)?[{ ]', key).group(1)
        if name not in MOMENT_NAMES | BUFFER_NAMES:
            assert mine[key] == value, key
    assert test.run('stats', '--prometheus', str(worker.pid)).stdout.count('file=') == 0
    worker.end()


def case_every(test):
    """A file is written anew until the process ends; it is whole at any time, and there is nothing beside it."""
    worker = StatsWorker(test, [test.worker, 'storm'], ready=b'ready')
    path = os.path.join(test.folder, 'every.openmetrics')
    writer = subprocess.Popen([test.tool, 'stats', '--every', '0.1s', '-o', path, str(worker.pid)], stderr=subprocess.PIPE,
                              universal_newlines=True)
    inodes, end = set(), time.time() + 3
    while time.time() < end and len(inodes) < 10:
        try:
            with open(path, encoding='ascii') as f:
                inodes.add(os.fstat(f.fileno()).st_ino)
                assert f.read().endswith('# EOF\n')
        except FileNotFoundError:
            pass
        time.sleep(0.03)
    worker.end()
    assert writer.wait(timeout=20) == 3, writer.stderr.read()
    writer.stderr.close()
    assert len(inodes) > 2 and [name for name in os.listdir(test.folder) if 'every' in name] == ['every.openmetrics']


def case_storm(test):
    """Of a process that allocates all the time, the numbers add up, and counters grow."""
    worker = StatsWorker(test, [test.worker, 'storm'], ready=b'ready')
    before = 0
    for _ in range(40):
        page = json.loads(test.run('stats', '--json', str(worker.pid)).stdout)
        gauges = page['gauges']
        assert gauges['virtual_bytes'] == gauges['physical_bytes'] + gauges['released_bytes']
        assert 10 << 20 < gauges['allocated_bytes'] < 1 << 30, gauges['allocated_bytes']
        assert page['counters']['allocations'] >= before
        before = page['counters']['allocations']
        assert page['hugepages']['gauges']['filler_hugepages'] > 0
    worker.end()


def case_errors(test):
    test.run('stats', '999999999', code=3)
    test.run('stats', str(os.getpid()), code=5)
    assert '--every needs -o' in test.run('stats', '--every', '1', '1', code=2).stderr
    assert 'name one format' in test.run('stats', '--json', '--openmetrics', '1', code=2).stderr
    worker = StatsWorker(test, [test.worker, 'still'])
    assert test.run('stats', '-o', '/nowhere/x.json', str(worker.pid), code=1).stderr
    worker.end()


if __name__ == '__main__':
    run_case(globals(), sys.argv[-1], *sys.argv[1:-1])
