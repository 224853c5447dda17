#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All C files are as clang-format writes them with the repository's .clang-format.

Versions of clang-format differ in details, so only one is asked: 14, which Debian 12 has.
usage: check_format.py ROOT
"""
import os
import re
import sys

import lint

VERSION = '14'
BATCH = 50  # files for each process, whose start takes longer than a file


def main(root):
    findings = lint.Findings()
    tool = lint.find_tool('clang-format-' + VERSION, 'clang-format')
    if not tool or not re.search(r'version %s\.' % VERSION, lint.output(tool, '--version')):
        lint.skip('no clang-format %s' % VERSION)
    files = lint.source_files(root, r'\.(c|h|cc|hpp)$')
    for at in range(0, len(files), BATCH):
        result = lint.run(tool, '--dry-run', '-Werror', '--style=file',
                          *(os.path.join(root, path) for path in files[at:at + BATCH]))
        lines = {}
        for name, line in re.findall(r'^([^\n]*?):(\d+):\d+: error', result.stdout, re.M):
            lines.setdefault(os.path.relpath(name, root), []).append(line)
        for path, places in lines.items():
            findings.add(path, places[0], '%d place(s) not formatted: clang-format -i %s' % (len(places), path))
        if result.returncode != 0 and not lines:
            findings.add(files[at], None, 'clang-format fails on this file or the next: ' + result.stdout[-200:])
    findings.finish('format of %d files' % len(files))


if __name__ == '__main__':
    main(sys.argv[1])
