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


def main(root):
    findings = lint.Findings()
    tool = lint.find_tool('clang-format-' + VERSION, 'clang-format')
    if not tool or not re.search(r'version %s\.' % VERSION, lint.output(tool, '--version')):
        lint.skip('no clang-format %s' % VERSION)
    files = lint.source_files(root, r'\.(c|h|cc|hpp)$')
    for path in files:
        result = lint.run(tool, '--dry-run', '-Werror', '--style=file', os.path.join(root, path))
        lines = re.findall(r'^[^\n]*?:(\d+):\d+: error', result.stdout, re.M)
        if result.returncode != 0:
            findings.add(path, lines[0] if lines else None,
                         '%d place(s) not formatted: clang-format -i %s' % (len(lines), path))
    findings.finish('format of %d files' % len(files))


if __name__ == '__main__':
    main(sys.argv[1])
