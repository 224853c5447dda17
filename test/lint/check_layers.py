#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Includes go down only: a folder is a layer, and a file may include its own layer and lower ones.

Also that every include in quotes is a full path from the root of the repository, to a file that exists.
usage: check_layers.py ROOT
"""
import os
import re
import sys

import lint

# From the ground up (doc/design.md). A file belongs to the longest prefix.
LAYERS = [
    'include/',
    'alloc/base/',
    'alloc/os/',
    'alloc/output/',
    'alloc/hot/',
    'alloc/policy/',
    'pagemap/',
    'alloc/fork/',
    'alloc/page_heap/account/',
    'alloc/page_heap/plain/',
    'alloc/page_heap/huge/',
    'alloc/page_heap/',
    'alloc/middle/',
    'sampling/estimate/',
    'sampling/stack/',
    'sampling/profile/',
    'sampling/symbolize/',
    'sampling/record/',
    'sampling/guard/',
    'sampling/sampler/',
    'sampling/snapshot/',
    'sampling/export/',
    'alloc/cpu_cache/',
    'alloc/hardening/',
    'alloc/maintain/',
    'alloc/front/',
    'alloc/start/',
    'stats/',
    'alloc/api/',
    'alloc/api/options/',
    'alloc/api/control/',
    'alloc/api/interposers/',
    'alloc/api/entry/',
    'alloc/api/process/',
    'tool/base/',
    'tool/target/',
    'tool/layout/',
    'tool/heap/',
    'tool/samples/',
    'tool/file/',
    'tool/symbol/',
    'tool/reading/',
    'tool/stats/',
    'tool/leaks/',
    'tool/report/',
    'tool/diff/',
    'tool/page/',
    'tool/run/',
    'tool/top/',
    'tool/serve/',
    'tool/command/',
]
ABOVE = ['perf/', 'test/', 'doc/examples/']  # may include everything, nobody may include them

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)


def layer_of(path):
    number = max((n for n, prefix in enumerate(LAYERS) if path.startswith(prefix)),
                 key=lambda n: len(LAYERS[n]), default=None)
    if number is not None:
        return number
    for prefix in ABOVE:
        if path.startswith(prefix):
            return len(LAYERS)
    return None


def main(root):
    findings = lint.Findings()
    edges = 0
    for path in lint.source_files(root, lint.C_FILE):
        text = re.sub(r'/\*.*?\*/', lambda m: '\n' * m.group(0).count('\n'), lint.read(root, path),
                      flags=re.S)
        layer = layer_of(path)
        if layer is None:
            findings.add(path, 1, 'is in no layer: add its folder to check_layers.py')
            continue
        for match in INCLUDE.finditer(text):
            line = text.count('\n', 0, match.start(2)) + 1
            quote, target = match.groups()
            exists = os.path.isfile(os.path.join(root, target))
            if quote == '<':
                if exists:
                    findings.add(path, line, '<%s> is a file of ours: use quotes' % target)
                if path.startswith('include/') and target not in ('stddef.h', 'stdint.h', 'salloc/profile.h'):
                    findings.add(path, line, 'public headers need nothing but stddef.h, stdint.h and each other')
                continue
            if not exists:
                findings.add(path, line, '"%s" is not a path from the root of the repository' % target)
                continue
            edges += 1
            to = layer_of(target)
            if to is None or to > layer:
                findings.add(path, line, 'includes "%s", which is on a higher layer' % target)
            elif to == len(LAYERS) and path.split('/')[0] != target.split('/')[0]:
                findings.add(path, line, 'includes "%s" of another folder' % target)
    if edges < 100:
        findings.add(root, None, 'only %d includes seen: this check looks at the wrong place' % edges)
    findings.finish('layers, %d includes' % edges)


if __name__ == '__main__':
    main(sys.argv[1])
