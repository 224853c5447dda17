#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reports of a program that used every part of the allocator: the page has every line of layout.txt in its order and
adds up; JSON and OpenMetrics are what their readers expect, add up, and say the same as the page to the byte; numeric
properties say the same again.

usage: stats.py LIBRARY PROGRAM [VARIABLE=VALUE...]    (PROGRAM: everything.c)
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

LIBRARY = os.path.abspath(sys.argv[1])
PROGRAM = os.path.abspath(sys.argv[2])
MORE = dict(word.split('=', 1) for word in sys.argv[3:])
LAYOUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'layout.txt')
ROUNDS = 100


def shape(line):
    """A line without its figures and without the blanks that only align it."""
    line = re.sub(r'\d+(?:\.\d+)?(?:e[+-]?\d+)?', '#', line.strip())
    line = re.sub(r'unallocated active$', 'unallocated', re.sub(r'\s+', ' ', line))
    return re.sub(r' ?([][()<>=,;:~*]) ?', r'\1', line)


def sections(text):
    """Rows of the page by their text: {what: bytes or number}."""
    rows = {}
    for line in text.splitlines():
        match = re.match(r'(?:MALLOC|TOTAL): [ +=]?\s*(\d+)\s+(?:\(\s*[\d.]+ MiB\) )?([A-Z].*|per-CPU.*)$', line)
        if match:
            rows[match.group(2)] = int(match.group(1))
    rows['system'] = int(re.search(r'^MmapSysAllocator: (\d+) bytes', text, re.M).group(1))
    return rows


def parse_openmetrics(test, text):
    """The families of a text, checked against the rules of OpenMetrics 1.0 as far as they concern gauges, counters and
    info: {family: (type, unit, {labels: value})}."""
    lines = text.split('\n')
    test.assertEqual(lines[-2:], ['# EOF', ''])
    families, current, seen = {}, None, set()
    for line in lines[:-2]:
        meta = re.fullmatch(r'# (TYPE|UNIT|HELP) ([a-zA-Z_:][\w:]*) (.*)', line)
        if meta:
            word, name, value = meta.groups()
            if name != current:
                test.assertNotIn(name, families, 'families must not be interleaved')
                families[name] = {'samples': {}}
                current = name
            test.assertFalse(families[name]['samples'], 'metadata comes before the samples: ' + line)
            test.assertNotIn(word, families[name], line)
            families[name][word] = value
            continue
        sample = re.fullmatch(r'([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)', line)
        test.assertTrue(sample, line)
        name, labels, value = sample.groups()
        family = families[current]
        suffix = {'counter': '_total', 'info': '_info', 'gauge': ''}[family['TYPE']]
        test.assertEqual(name, current + suffix)
        pairs = re.findall(r'([a-zA-Z_]\w*)="([^"\\\n]*)"', labels or '')
        test.assertEqual(','.join('%s="%s"' % pair for pair in pairs), labels or '')
        test.assertEqual(len({key for key, _ in pairs}), len(pairs))
        test.assertNotIn((name, labels), seen)
        seen.add((name, labels))
        test.assertRegex(value, r'^\d+(\.\d+)?$')
        family['samples'][labels or ''] = float(value) if '.' in value else int(value)
    for name, family in families.items():
        test.assertTrue(family.get('HELP'), name)
        unit = next((u for u in ('bytes', 'ratio', 'seconds') if name.endswith('_' + u)), None)
        test.assertEqual(family.get('UNIT'), unit, name)
        test.assertFalse(name.endswith(('_total', '_info', '_count', '_sum', '_bucket', '_created')), name)
        if family['TYPE'] == 'info':
            test.assertEqual(list(family['samples'].values()), [1])
    return families


class Reports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix='salloc-stats-')
        names = open(os.path.join(cls.folder, 'names'), 'w')
        names.write('\n'.join(['generic.current_allocated_bytes', 'tcmalloc.experiment.SALLOC_PER_CPU',
                               'tcmalloc.experiment.SALLOC_NONE', 'tcmalloc.required_bytes',
                               'generic.peak_memory_usage', 'salloc.samples_taken', 'salloc.nothing',
                               'tcmalloc.nothing', 'salloc.', '.']))
        names.close()
        environment = dict(os.environ, LD_PRELOAD=LIBRARY, SALLOC_CONF='sample_interval:64k', **MORE)
        done = subprocess.run([PROGRAM, cls.folder], env=environment, stdout=subprocess.PIPE, timeout=60,
                              text=True, check=False)
        assert done.returncode == 0, done.stdout
        cls.texts = [cls.read('text.%d' % i) for i in range(ROUNDS)]
        cls.page = cls.texts[-1]
        cls.json = json.loads(cls.read('json.%d' % (ROUNDS - 1)))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def read(cls, name):
        with open(os.path.join(cls.folder, name), encoding='ascii') as f:
            return f.read()

    def test_page_has_every_line_in_order(self):
        page = [shape(line) for line in self.page.splitlines()]
        at = 0
        with open(LAYOUT, encoding='ascii') as f:
            layout = f.read().splitlines()[3:]
        for line in layout:
            try:
                at = page.index(shape(line), at) + 1
            except ValueError:
                self.fail('not on the page, or not in its place: ' + line)

    def test_json_is_versioned_and_has_integers_only(self):
        j = self.json
        self.assertEqual((j['schema'], j['schema_version']), ('salloc stats', 1))
        self.assertRegex(j['version'], r'^\d+\.\d+\.\d+$')
        groups = [j['gauges'], j['counters'], j['experiments']]
        for item in j['classes'] + j['cpus'] + [j['hugepages']]:
            groups += [item['gauges'], item['counters']]
        for group in groups:
            for name, value in group.items():
                self.assertIs(type(value), int, name)
                self.assertGreaterEqual(value, 0, name)
        self.assertFalse(set(j['gauges']) & set(j['counters']))

    def test_json_adds_up(self):
        g = self.json['gauges']
        self.assertEqual(g['physical_bytes'],
                         sum(g[name + '_bytes'] for name in (
                             'allocated', 'page_heap_free', 'central_free', 'cpu_free', 'transfer_free',
                             'thread_free', 'quarantine', 'metadata', 'metadata_unallocated',
                             'metadata_unavailable')))
        self.assertEqual(g['virtual_bytes'], g['physical_bytes'] + g['released_bytes'])
        self.assertEqual(g['virtual_bytes'], g['system_bytes'])
        classes = self.json['classes']
        for tier in ('cpu', 'transfer'):
            total = sum(c['gauges'][tier + '_objects'] * c['size_bytes'] for c in classes)
            self.assertEqual(total, g[tier + '_free_bytes'] + (g['thread_free_bytes'] if tier == 'cpu' else 0))
        for c in classes:
            self.assertEqual(sum(c['spans_by_used_objects']), c['gauges']['spans'])
            self.assertEqual(c['counters']['spans_requested'] - c['counters']['spans_returned'],
                             c['gauges']['spans'])
        cached = sum(c['gauges']['cached_bytes'] for c in self.json['cpus'])
        self.assertEqual(cached, g['cpu_free_bytes'] + g['thread_free_bytes'])
        used = sum(c['gauges']['used_objects'] * c['size_bytes'] for c in classes)
        self.assertEqual(used + g['large_bytes'], g['allocated_bytes'])

    def test_page_names_the_classes_with_most_fragmentation(self):
        classes = [(c['gauges']['fragmentation_bytes'], c['size_bytes']) for c in self.json['classes']]
        most = sorted((c for c in classes if c[0]), key=lambda c: (-c[0], c[1]))[:5]
        self.assertEqual(len(most), 5)
        self.assertIn('\nMALLOC: %d bytes would go back if blocks lay as densely as possible; most among blocks of %s\n' % (
            self.json['gauges']['fragmentation_bytes'], ', '.join('%d bytes: %d' % (size, b) for b, size in most)), self.page)

    def test_parts_of_the_hugepage_heap_add_up(self):
        h = self.json['hugepages']['gauges']
        self.assertEqual(h['filler_full'] + h['filler_partial'] + h['filler_released'], h['filler_hugepages'])
        self.assertEqual(h['filler_used_bytes'] + h['filler_free_bytes'] + h['filler_unmapped_bytes'],
                         h['filler_hugepages'] << 21)
        self.assertLessEqual(h['filler_intact_bytes'], h['filler_used_bytes'])
        self.assertEqual(h['region_used_bytes'] + h['region_free_bytes'] + h['region_unmapped_bytes'],
                         h['region_hugepages'] << 21)
        self.assertEqual(h['address_in_use_hugepages'] + h['address_free_hugepages'],
                         h['address_requested_hugepages'])
        self.assertEqual(h['filler_hugepages'] + h['region_hugepages'] + h['cache_hugepages'] +
                         (h['large_used_bytes'] >> 21), h['address_in_use_hugepages'])
        used = int(re.search(r'^HugePageFiller: (\d+) used pages in subreleased', self.page, re.M).group(1))
        broken, part = re.search(r'^HugePageFiller: (\d+) hugepages partially released, ([\d.]+) released', self.page,
                                 re.M).groups()
        # The part is rounded to four digits.
        self.assertLessEqual(used + (float(part) - 5e-5) * int(broken) * 256, int(broken) * 256)

    def test_parts_of_the_page_heap_add_up(self):
        self.in_one_quiet_round(self.check_page_heap)

    def check_page_heap(self, i):
        page, g = self.texts[i], json.loads(self.read('json.%d' % i))['gauges']
        sampled = re.search(r'^PageHeap: \d+ sizes; +([\d.]+) MiB free; +([\d.]+) MiB unmapped', page, re.M)
        huge = re.search(r'^HugePageAware: \d+ sizes; +([\d.]+) MiB free; +([\d.]+) MiB unmapped', page, re.M)
        empty = g['sample_quarantine_empty_bytes']  # is free, but in use to the heaps
        backed = g['sample_quarantine_bytes'] - empty
        reserved = g['reserved_bytes']  # is not the heaps'
        for column, bytes_of in ((1, sections(page)['Bytes in page heap freelist'] - backed),
                                 (2, sections(page)['Bytes released to OS (aka unmapped)'] - reserved - empty)):
            # Both figures are rounded to a tenth.
            self.assertAlmostEqual(float(sampled.group(column)) + float(huge.group(column)), bytes_of / 2**20,
                                   delta=0.11)

    def test_counters_never_decrease(self):
        before = None
        for i in range(ROUNDS):
            now = json.loads(self.read('json.%d' % i))
            # A CPU may have been used for the first time in between.
            cpus = {cpu['cpu']: cpu for cpu in now['cpus']}
            for a, b in zip([before, before['hugepages']] + before['classes'] + before['cpus'],
                            [now, now['hugepages']] + now['classes'] +
                            [cpus[cpu['cpu']] for cpu in before['cpus']]) if before else ():
                for name, value in b['counters'].items():
                    self.assertGreaterEqual(value, a['counters'][name], name)
            before = now

    def test_openmetrics_follows_the_rules(self):
        families = parse_openmetrics(self, self.read('prom.%d' % (ROUNDS - 1)))
        j = self.json
        for kind, group in (('gauge', 'gauges'), ('counter', 'counters')):
            of_type = {name for name, f in families.items() if f['TYPE'] == kind}
            for name in j[group]:
                self.assertIn('salloc_' + name, of_type)
                of_type.remove('salloc_' + name)
            for what, item in (('class', j['classes'][0]), ('cpu', j['cpus'][0]), ('hugepages', j['hugepages'])):
                for name in item[group]:
                    of_type.remove('salloc_%s_%s' % (what, name))
            self.assertEqual(of_type, {'salloc_realized_fragmentation_ratio'} if kind == 'gauge' else set())
        self.assertEqual(len(families['salloc_cpu_cached_bytes']['samples']), len(j['cpus']))
        self.assertGreater(len(families['salloc_class_spans']['samples']), 5)

    def quiet_rounds(self):
        """Rounds whose pages before and after are the same. Memory may still have moved to and fro in between."""
        rounds = [i for i in range(1, ROUNDS - 1) if sections(self.texts[i]) == sections(self.texts[i + 1])]
        self.assertTrue(rounds, 'the heap never came to rest')
        return rounds

    def in_one_quiet_round(self, check):
        """Holds in one quiet round at least. What does not read the same numbers differs in every round."""
        failures = []
        for i in self.quiet_rounds():
            try:
                check(i)
                return
            except AssertionError as e:
                failures.append('round %d: %s' % (i, e))
        self.fail('\n'.join(failures[:3]))

    def test_all_formats_say_the_same(self):
        self.in_one_quiet_round(self.check_round)

    def check_round(self, i):
        rows = sections(self.texts[i])
        j = json.loads(self.read('json.%d' % i))
        flat = dict(j['gauges'], **j['counters'])
        families = parse_openmetrics(self, self.read('prom.%d' % i))
        for row, name in (('Bytes in use by application', 'allocated_bytes'),
                          ('Bytes in page heap freelist', 'page_heap_free_bytes'),
                          ('Bytes in central cache freelist', 'central_free_bytes'),
                          ('Bytes in per-CPU cache freelist', 'cpu_free_bytes'),
                          ('Bytes in transfer cache freelist', 'transfer_free_bytes'),
                          ('Bytes in thread cache freelists', 'thread_free_bytes'),
                          ('Bytes in malloc metadata', 'metadata_bytes'),
                          ('Bytes in malloc metadata Arena unallocated', 'metadata_unallocated_bytes'),
                          ('Bytes in malloc metadata Arena unavailable', 'metadata_unavailable_bytes'),
                          ('Actual memory used (physical + swap)', 'physical_bytes'),
                          ('Bytes released to OS (aka unmapped)', 'released_bytes'),
                          ('Virtual address space used', 'virtual_bytes'),
                          ('system', 'system_bytes'),
                          ('Spans in use', 'spans_in_use'), ('Spans created', 'spans_made'),
                          ('Stack traces in use', 'stack_traces_in_use'),
                          ('Stack traces created', 'stack_traces_made'),
                          ('Table buckets in use', 'call_stacks'),
                          ('Pagemap bytes used', 'pagemap_bytes'),
                          ('Pagemap root resident bytes', 'pagemap_root_resident_bytes'),
                          ('per-CPU slab bytes used', 'slab_bytes'),
                          ('Actual memory used at peak', 'peak_physical_bytes'),
                          ('Estimated in-use at peak', 'peak_allocated_bytes'),
                          ('Tcmalloc page size', 'page_bytes'),
                          ('Tcmalloc hugepage size', 'hugepage_bytes'),
                          ('Kernel page size', 'kernel_page_bytes'),
                          ('Bytes mapped (virtual memory used)', 'process_virtual_bytes')):
            self.assertEqual(rows[row], flat[name], row)
            self.assertEqual(list(families['salloc_' + name]['samples'].values()), [flat[name]], name)
        for c in j['classes']:
            label = 'class="%d",size="%d"' % (c['class'], c['size_bytes'])
            line = re.search(r'^class +%d \[ +%d bytes \] : +(\d+) objs; .*; +(\d+) live pages; spans: +(\d+) ret / +(\d+) req'
                             % (c['class'], c['size_bytes']), self.texts[i], re.M)
            free = sum(c['gauges'][tier + '_objects'] for tier in ('cpu', 'transfer', 'central'))
            self.assertEqual([int(n) for n in line.groups()],
                             [free, c['gauges']['pages'], c['counters']['spans_returned'],
                              c['counters']['spans_requested']])
            samples = families['salloc_class_spans']['samples']
            self.assertEqual(samples.get(label, 0), c['gauges']['spans'])

    def test_properties_say_the_same(self):
        values = {}
        for line in self.read('properties').splitlines():
            name, *value = line.split()
            values[name] = value
        for name in ('tcmalloc.experiment.SALLOC_NONE', 'salloc.nothing', 'tcmalloc.nothing', 'salloc.', '.'):
            self.assertEqual(values[name][0], 'missing', name)
        j = self.json
        self.assertEqual(int(values['tcmalloc.experiment.SALLOC_PER_CPU'][0]), j['experiments']['SALLOC_PER_CPU'])
        self.assertEqual(int(values['generic.peak_memory_usage'][0]), j['gauges']['peak_physical_bytes'])
        # Writing the files may have been sampled.
        self.assertGreaterEqual(int(values['salloc.samples_taken'][0]), j['counters']['samples_taken'])
        self.assertLess(int(values['salloc.samples_taken'][0]), j['counters']['samples_taken'] + 100)
        # The buffer of a report was in use for the one, and that of a file for the other.
        self.assertLess(abs(int(values['generic.current_allocated_bytes'][0]) - j['gauges']['allocated_bytes']),
                        1 << 20)
        self.assertLessEqual(int(values['tcmalloc.required_bytes'][0]), j['gauges']['physical_bytes'])

    def test_malloc_info_adds_up(self):
        info = xml.etree.ElementTree.fromstring(self.read('info'))
        sizes = [{key: int(value) for key, value in size.attrib.items()} for size in info.iter('size')]
        self.assertGreater(len(sizes), 10)
        for size in sizes:
            self.assertEqual(size['total'], size['count'] * size['to'])
            self.assertLess(size['from'], size['to'])
        total = {t.get('type'): (int(t.get('count')), int(t.get('size'))) for t in info.iter('total')}
        self.assertEqual(sum(size['count'] for size in sizes), total['fast'][0] + total['rest'][0])
        self.assertLessEqual(sum(size['total'] for size in sizes), total['fast'][1] + total['rest'][1])
        system, space = int(info.find('system').get('size')), int(info.find('aspace').get('size'))
        self.assertLess(total['fast'][1] + total['rest'][1] + total['mmap'][1], system)
        self.assertLessEqual(system, space)
        self.assertLess(abs(space - self.json['gauges']['virtual_bytes']), 40 << 20)  # metadata are not in it

    def test_peak_is_between_use_and_address_space(self):
        g = self.json['gauges']
        self.assertGreaterEqual(g['peak_physical_bytes'], g['allocated_bytes'])
        self.assertLessEqual(g['peak_physical_bytes'], g['virtual_bytes'])
        # Some 2,000 samples at the peak estimate what was in use with a standard deviation of 1/sqrt(2000), 2.2 %. What
        # was in use is at most what was used, and in this program more than half of it.
        self.assertLess(g['peak_allocated_bytes'], 1.15 * g['peak_physical_bytes'])
        self.assertGreater(g['peak_allocated_bytes'], 0.5 * g['peak_physical_bytes'])


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1], verbosity=2)
