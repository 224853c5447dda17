#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manual pages (doc/manual.py) have each function and each type of the public headers, and each option
and metric. The formatter finds nothing wrong with a page, where it is installed.
usage: check_manual.py ROOT
"""
import os
import re
import sys
import tempfile

import lint


def main(root):
    findings = lint.Findings()
    script = os.path.join(root, 'doc/manual.py')
    pages = lint.output(sys.executable, script, root, '--list').split()
    declared, types = set(), set()
    for path in lint.source_files(root, r'^include/salloc/.*\.h$'):
        text = lint.without_comments(lint.read(root, path))
        declared |= set(re.findall(r'\b(salloc_\w+)\s*\(', text))
        types |= set(re.findall(r'^(?:struct|enum) (\w+) \{', text, re.M))
    for name in sorted(declared - {page[:-2] for page in pages}):
        findings.add('doc/manual.py', None, 'no page for %s: it has no comment of its own' % name)
    for name in sorted({page[:-2] for page in pages} - declared - {'salloc'}):
        findings.add('doc/manual.py', None, 'a page for %s, which no header declares' % name)
    with tempfile.TemporaryDirectory() as folder:
        lint.output(sys.executable, script, root, '0', folder)
        with open(os.path.join(folder, 'salloc.3'), encoding='utf-8') as f:
            library = f.read()
        with open(os.path.join(folder, 'salloc.7'), encoding='utf-8') as f:
            options = f.read()
        for name in sorted(types):
            if not re.search(r'\b%s \{' % name, library):
                findings.add('doc/manual.py', None, 'salloc.3 does not show %s' % name)
        keys = re.findall(r'^SA_OPTION\((\w+),', lint.read(root, 'alloc/api/options/options.def'), re.M)
        if re.findall(r'^\.B (\w+)$', options, re.M) != keys:
            findings.add('doc/manual.py', None, 'salloc.7 does not have the options in their order')
        metrics = sum(len(re.findall(r'^SA_\w*METRIC\(', lint.read(root, path), re.M))
                      for path in ('stats/metrics.def', 'stats/metrics_huge.def'))
        if len(re.findall(r'^\.IR \w+ \\ \((?:gauge|counter)\)$', options, re.M)) != metrics:
            findings.add('doc/manual.py', None, 'salloc.7 does not have the %d metrics' % metrics)
        groff = lint.find_tool('groff')
        for page in pages if groff else []:
            said = lint.run(groff, '-man', '-Tutf8', '-ww', '-z', os.path.join(folder, page)).stdout
            if said:
                findings.add(page, None, said.strip())
    findings.finish('%d pages' % len(pages))


if __name__ == '__main__':
    main(*sys.argv[1:])
