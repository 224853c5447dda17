#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library calls nothing of libc's but what imports.allow lists: a function that allocates would
recurse, and one that is new in libc would keep the library from loading.

Each line of the list: symbol, the object files that may refer to it (or *), reason.
usage: check_imports.py ROOT LIBRARY ARCHIVE
"""
import re
import sys

import lint

# Put there by the compiler and the linker, whatever the source says.
TOOLCHAIN = {'_GLOBAL_OFFSET_TABLE_', '_ITM_deregisterTMCloneTable', '_ITM_registerTMCloneTable',
             '__cxa_finalize', '__gmon_start__'}


def read_allowed(root, findings):
    allowed = {}
    for number, line in enumerate(lint.read(root, 'test/lint/imports.allow').splitlines(), 1):
        fields = line.split(None, 2)
        if not fields or line.startswith('#'):
            continue
        if len(fields) < 3:
            findings.add('test/lint/imports.allow', number, 'wants a symbol, files and a reason')
            continue
        allowed[fields[0]] = set(fields[1].split(','))
    return allowed


def references(archive):
    """{symbol: files of the archive that leave it undefined}, less what the archive itself defines."""
    used, defined = {}, set()
    for line in lint.output('nm', '-A', archive).splitlines():
        match = re.match(r'.*:([\w.]+)\.o:[0-9a-f ]*([A-Za-z]) (\S+)$', line)
        if not match:
            continue
        member, kind, name = match.groups()
        if kind in 'Uwv':
            used.setdefault(name, set()).add(member)
        else:
            defined.add(name)
    return {n: m for n, m in used.items() if n not in defined}


def main(root, library, archive):
    findings = lint.Findings()
    allowed = read_allowed(root, findings)
    imports = set(lint.dynamic_symbols(library, undefined=True)) - TOOLCHAIN
    used = references(archive)

    for name in sorted(imports - set(allowed)):
        findings.add(library, None, 'imports %s (from %s), which imports.allow does not list' %
                     (name, ', '.join(sorted(used.get(name, {'?'})))))
    for name in sorted(used):
        files = allowed.get(name, {'*'})
        for member in sorted(used[name]): # named after the path, alloc_os_sys.c
            if '*' not in files and not any(member.endswith('_' + f) for f in files):
                findings.add(member, None, 'refers to %s, which is for %s only' %
                             (name, ', '.join(sorted(files))))
    findings.finish('%d imports' % len(imports))


if __name__ == '__main__':
    main(*sys.argv[1:])
