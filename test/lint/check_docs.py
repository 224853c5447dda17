#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Documents say what the sources say: every option is in doc/tuning.md with its default, every lock rank with its
text and in its order in doc/locking.md, every kind of line of the stats page in doc/stats.md, and every relative link
leads to a file (and heading) that exists. Metrics that documents name exist.
usage: check_docs.py ROOT [LIBRARY]
"""
import os
import re
import subprocess
import sys
import tempfile

import lint


def check_options(root, findings):
    options = re.findall(r'^SA_OPTION\((\w+), *(\w+),', lint.read(root, 'alloc/api/options/options.def'), re.M)
    text = lint.read(root, 'doc/tuning.md')
    if not options:
        findings.add('alloc/api/options/options.def', None, 'no options found')
    for key, _ in options:
        if not re.search(r'^\| *`%s` *\|' % key, text, re.M):
            findings.add('doc/tuning.md', None, 'no row for the option %s' % key)
    for key in re.findall(r'^\| *`(\w+)` *\|', text, re.M):
        if key not in dict(options):
            findings.add('doc/tuning.md', None, 'a row for %s, which is no option' % key)
    return len(options)


def check_ranks(root, findings):
    ranks = re.findall(r'^SA_LOCK_RANK\((\w+),\s*"([^"]*)"\)',
                       lint.read(root, 'alloc/os/lock_ranks.def'), re.M)
    rows = re.findall(r'^\| *([A-Z_]+) *\| *(.*?) *\|$', lint.read(root, 'doc/locking.md'), re.M)
    if not ranks:
        findings.add('alloc/os/lock_ranks.def', None, 'no ranks found')
    for number, rank in enumerate(ranks):
        if number >= len(rows) or rows[number] != rank:
            findings.add('doc/locking.md', None, 'row %d of the ranks should be "%s | %s"' %
                         (number + 1, *rank))
    if len(rows) > len(ranks):
        findings.add('doc/locking.md', None, 'rows for ranks that do not exist: %s' % rows[len(ranks):])
    return len(ranks)


METRIC_SETS = ('', 'HUGE_', 'CLASS_', 'CPU_')
KERNEL_PROPERTIES = {'heap_resident_bytes', 'heap_hugepage_bytes'}  # numeric properties only


def read_metrics(text):
    """Per set the metrics of a list: (name, kind, value, help)."""
    found = {name: [] for name in METRIC_SETS}
    for which, *metric in re.findall(r'^SA_(|HUGE_|CLASS_|CPU_)METRIC\((\w+),\s*(\w+),\s*(.*?),\s*"((?:[^"\\]|\\.)*)"\)$',
                                     text, re.M | re.S):
        found[which].append(metric)
    return found


def check_lines(path, text, findings):
    """A line of the page names a metric (m->name), where there is one, instead of repeating its value. Counts lines."""
    values = {}
    for metrics in read_metrics(text).values():
        for name, _, value, _ in metrics:
            fields = re.findall(r'\b[sh]->[\w.]+', value)
            if len(fields) == 1 and '(' not in value:
                values[fields[0]] = name
    lines = re.findall(r'^SA_(?:HUGE_)?(?:LINE|ROW|COUNT)(?:_IF|_BYTES)?\(.*?\)$', text, re.M | re.S)
    for line in lines:
        for field in re.findall(r'\b[sh]->[\w.]+', line):
            if field in values:
                findings.add(path, None, 'a line has %s, which is m->%s' % (field, values[field]))
    return len(lines)


def check_metrics(root, findings):
    """Metrics that documents name as `salloc.NAME` are in the source."""
    found = {name: [] for name in METRIC_SETS}
    lines = 0
    for path in ('stats/metrics.def', 'stats/metrics_huge.def'):
        text = lint.read(root, path)
        lines += check_lines(path, text, findings)
        for which, metrics in read_metrics(text).items():
            found[which] += metrics
    source = {name for metrics in found.values() for name, *_ in metrics}
    if len(source) < 50:
        findings.add('stats/metrics.def', None, 'only %d metrics found' % len(source))
    if lines < 100:
        findings.add('stats/metrics.def', None, 'only %d lines of the page found' % lines)
    for path in lint.source_files(root, r'\.md$'):
        for name in re.findall(r'`"?salloc\.(\w{3,})"?`', lint.read(root, path)):
            if name not in source | KERNEL_PROPERTIES:
                findings.add(path, None, 'names salloc.%s, which is no metric' % name)
    return len(source)


def slug(heading):
    """The name that a heading can be linked by."""
    return re.sub(r'[^\w\- ]', '', heading.strip().lower()).replace(' ', '-')


def check_links(root, findings):
    links = 0
    for path in lint.source_files(root, r'\.md$'):
        text = re.sub(r'^(```.*?^```|    .*?$)', lambda m: '\n' * m.group(0).count('\n'),
                      lint.read(root, path), flags=re.M | re.S)
        for match in re.finditer(r'\]\(([^)\s]+)\)', text):
            target, _, anchor = match.group(1).partition('#')
            line = text.count('\n', 0, match.start()) + 1
            if re.match(r'[a-z]+:', target):
                continue
            links += 1
            to = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
            if to.startswith('..') or not os.path.exists(os.path.join(root, to)):
                findings.add(path, line, 'the link leads nowhere: %s' % target)
            elif anchor and to.endswith('.md') and \
                    anchor not in [slug(h) for h in re.findall(r'^#+ (.*)$', lint.read(root, to), re.M)]:
                findings.add(path, line, 'no heading for #%s in %s' % (anchor, to))
    return links


def check_paths(root, findings):
    """Files that documents and comments name in full must exist."""
    for path in lint.source_files(root, r'\.(md|c|h|def|py|build)$'):
        text = lint.read(root, path)
        for match in re.finditer(r'(?<![\w/.-])((?:alloc|pagemap|stats|sampling|include|test|perf|doc)'
                                 r'/[\w./-]+\.(?:c|h|def|py|md|map|build|cc))\b', text):
            if not os.path.exists(os.path.join(root, match.group(1))):
                findings.add(path, text.count('\n', 0, match.start()) + 1,
                             'names %s, which does not exist' % match.group(1))


def line_kind(line):
    """The words of a line of the page, without figures: what tells one kind of line from another."""
    words = re.findall(r'[A-Za-z][A-Za-z/-]*', line.replace('MALLOC:', '').replace('TOTAL:', ''))
    return ' '.join(w.strip('-') for w in words if w not in ('MiB', 'inf', 'nan')).lower()


def check_limit(root, page, findings):
    """The limit of the document's page is the one that there is by default."""
    pattern = r'per cpu limit: (\d+) bytes'
    shown, real = (re.findall(pattern, text) for text in (lint.read(root, 'doc/stats.md'), page))
    if shown != real:
        findings.add('doc/stats.md', None, 'the limit of CPUs should be %s, not %s' % (real, shown))


def check_defaults(root, page, findings):
    """The defaults in doc/tuning.md are the values of a page without such options. 'none': no default."""
    values = dict(re.findall(r'^PARAMETER salloc_(\w+) (.*)$', page, re.M))
    for key, default in re.findall(r'^\| *`(\w+)` *\| *`?([^`|]*?)`? *\|', lint.read(root, 'doc/tuning.md'), re.M):
        if values.get('hardening') != 'on' and key in values and key != 'stats' and values[key] != (default or 'none'):
            findings.add('doc/tuning.md', None, 'the default of %s should be %s' % (key, values[key]))


def check_page(root, library, findings):
    """A real page, of a program under the library, with caches per CPU and per thread."""
    document = line_kind(lint.read(root, 'doc/stats.md').replace('`', ' '))
    kinds = {}
    with tempfile.TemporaryDirectory() as folder:
        for per_cpu in ('on', 'off'):
            page = os.path.join(folder, per_cpu)
            env = dict(os.environ, LD_PRELOAD=os.path.abspath(library),
                       SALLOC_CONF='stats:%s,per_cpu:%s' % (page, per_cpu))
            subprocess.run(['/bin/true'], env=env, check=True)
            if per_cpu == 'on':
                text = open(page, encoding='ascii').read()
                check_limit(root, text, findings)
                check_defaults(root, text, findings)
            for line in open(page, encoding='ascii'):
                line = re.sub(r'(caches are per thread): .*|(PARAMETER salloc)_\w+ .*', r'\1\2', line.strip())
                kinds.setdefault(line_kind(line), line)
    kinds.pop('', None)
    for kind, line in kinds.items():
        if kind not in document:
            findings.add('doc/stats.md', None, 'does not show the line "%s"' % line)
    return len(kinds)


def main(root, library=None):
    findings = lint.Findings()
    options, ranks = check_options(root, findings), check_ranks(root, findings)
    links = check_links(root, findings)
    check_paths(root, findings)
    metrics = check_metrics(root, findings)
    kinds = check_page(root, library, findings) if library else 0
    findings.finish('%d options, %d lock ranks, %d links, %d metrics, %d kinds of lines of the stats page' %
                    (options, ranks, links, metrics, kinds))


if __name__ == '__main__':
    main(*sys.argv[1:])
