#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A function or variable of the library that only its own file uses is static. A symbol may be global if another object
of the archive refers to it, if another source names it (tests, benchmarks, sallocctl, debug builds), or if assembler code
does, which link time optimization cannot see.
usage: check_static.py ROOT ARCHIVE
"""
import collections
import os
import re
import sys

import lint

# The entry points tail-call these. If they were static, the compiler could choose another calling convention for them.
ALLOWED = {'sa_entry_malloc', 'sa_entry_free'}


def symbols(archive):
    """{name: object that defines it}, {name: objects that refer to it}."""
    defined, used = {}, collections.defaultdict(set)
    for line in lint.output('nm', '-A', archive).splitlines():
        match = re.match(r'.*:([\w.]+)\.c\.o:[0-9a-f ]*([A-Za-z]) (sa_\w+)$', line)
        if not match:
            continue
        member, kind, name = match.groups()
        if kind == 'U':
            used[name].add(member)
        elif kind.isupper():
            defined[name] = member
    return defined, used


def is_for_assembler(text, name):
    """True if the name is in a string, or the source says that something unseen uses it."""
    return re.search(r'"[^"\n]*\b%s\b' % name, text) or \
        re.search(r'\b%s\b[^;{]*(__attribute__\(\(used\)\)|SA_OWN_NAME_OF)' % name, text)


def main(root, archive):
    findings = lint.Findings()
    defined, used = symbols(archive)
    names = collections.defaultdict(set)
    texts = {}
    for path in lint.source_files(root):
        if re.search(r'\.(c|cc|h|def|S|py)$', path):
            texts[path] = lint.read(root, path)
            for name in set(re.findall(r'\bsa_\w+', texts[path])):
                names[re.sub(r'^__(real|wrap)_', '', name)].add(path)
    if len(defined) < 300:
        findings.add(archive, None, 'only %d symbols seen: this check looks at the wrong place' % len(defined))
    for name, member in sorted(defined.items()):
        if used[name] - {member} or name in ALLOWED:
            continue
        own = [p for p in names[name] if p.endswith('.c') and re.sub(r'[/.]', '_', p) == member + '_c']
        others = [p for p in names[name] if p not in own and not (p.endswith('.h') and not p.startswith('test/'))]
        if own and not others and not is_for_assembler(texts[own[0]], name):
            findings.add(own[0], None, '%s is used in this file only: make it static' % name)
    findings.finish('%d symbols of %s' % (len(defined), os.path.basename(archive)))


if __name__ == '__main__':
    main(*sys.argv[1:])
