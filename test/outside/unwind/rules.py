#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gives the program RULES (rules.c) what readelf reads in the unwind tables of some libraries.

usage: rules.py RULES   Exit status 77: there is no readelf.
"""
import re
import shutil
import subprocess
import sys

SKIPPED = 77


def rows(library):
    """Lines 'address cfa rbp return-address' for each row of each function's table."""
    text = subprocess.run(['readelf', '--debug-dump=frames-interp', library], capture_output=True,
                          text=True, check=False).stdout  # it complains about missing debug information
    columns, function = None, False
    for line in text.splitlines():
        words = line.split()
        if not words or words[0] == 'LOC':
            columns = words
        elif ' CIE ' in line or ' FDE ' in line:
            function = ' FDE ' in line
        elif function and re.fullmatch('[0-9a-f]{16}', words[0]) and len(words) == len(columns):
            row = dict(zip(columns, words))
            yield ' '.join((words[0], row['CFA'], row.get('rbp', 'u'), row.get('ra', 'u')))


def main(program):
    if not shutil.which('readelf'):
        print('readelf is not installed')
        sys.exit(SKIPPED)
    libraries = set()
    for user in (program, shutil.which('perl'), shutil.which('clang')):
        if user:
            listed = subprocess.run(['ldd', user], capture_output=True, text=True, check=False).stdout
            libraries.update(re.findall(r'(/\S+/(?:libc|ld-linux-x86-64|libperl|libstdc\+\+)\.so\S*)', listed))
    failed = not libraries
    for library in sorted(libraries):
        text = '\n'.join(rows(library)) + '\n'
        failed |= subprocess.run([program, library], input=text.encode(), check=False).returncode != 0
    sys.exit(failed)


if __name__ == '__main__':
    main(sys.argv[1])
