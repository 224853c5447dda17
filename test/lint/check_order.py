#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The linker script of the shared library names only sections and objects that exist: a variable that gets a new name, or
a source that does, would otherwise lose its place without a word.
usage: check_order.py ROOT ARCHIVE
"""
import fnmatch
import os
import re
import sys

import lint

SCRIPT = 'alloc/cold.ld'


def sections(archive):
    """{section: objects that have it}"""
    found, member = {}, None
    for line in lint.output('readelf', '-SW', archive).splitlines():
        if line.startswith('File: '):
            member = re.sub(r'.*[(/]([^(/]+)\)$', r'\1', line)
        match = re.match(r'\s*\[ *\d+\] (\.[\w.]+)', line)
        if match:
            found.setdefault(match.group(1), set()).add(member)
    return found


def main(root, archive):
    findings = lint.Findings()
    found = sections(archive)
    objects = set().union(*found.values()) if found else set()
    count = 0
    if len(objects) < 100:
        findings.add(archive, None, 'only %d objects seen: this check looks at the wrong place' % len(objects))
    text = re.sub(r'/\*.*?\*/', lambda m: '\n' * m.group().count('\n'), lint.read(root, SCRIPT), flags=re.S)
    for number, line in enumerate(text.splitlines(), 1):
        for objects_of, names in re.findall(r'(\*\S*?)\(([^()]*)\)', line):
            own = objects_of.replace('*', '', 1)
            if own.endswith('.o') and not any(fnmatch.fnmatch(o, objects_of) for o in objects):
                findings.add(SCRIPT, number, 'no object is named %s' % own)
            for name in names.split():
                if not name.startswith('.bss.'):
                    continue
                count += 1
                of = [o for s, os_ in found.items() if fnmatch.fnmatch(s, name) or fnmatch.fnmatch(s, name + '.[0-9]*')
                      for o in os_ if fnmatch.fnmatch(o, objects_of)]
                if not of:
                    findings.add(SCRIPT, number, 'no object has %s' % name)
                elif not name.endswith('*') and len(set(of)) > 1:
                    findings.add(SCRIPT, number, '%s is in %s: name the one that is meant' % (name, ', '.join(sorted(set(of)))))
    findings.finish('%d sections of variables in %s' % (count, os.path.basename(SCRIPT)))


if __name__ == '__main__':
    main(*sys.argv[1:])
