#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every process pays at start, whether it allocates or not: pages of the library that the loader, and the
constructor, must touch. Data that is relocated and then made read-only fits on one page, and so does the
data that stays writable; relocations are few (a table of pointers to texts is better an array of texts); the
constructor and what it always calls lie with the symbol table in the first 64 KiB, which the kernel maps at
the first fault. And in memory: all code that most programs run lies before the descriptions of frames, the first of
which are those that a sample reads, in 128 KiB (alloc/cold.ld); as gcc makes it.
usage: check_start.py ROOT LIBRARY COMPILER
"""
import re
import sys

import lint

PAGE = 4096
RELOCATIONS = 130  # of addresses in the library itself; half of them are those of critical sections
NEAR = 64 << 10
ALL_CODE = 128 << 10
LAST_FRAME = 'sa_front_realloc'  # the last function of stack_sources (meson.build) from which a sample is taken
START_CODE = ['init_constructor', 'options_find', 'sa_options_given', 'sa_fork_register']


def segment(headers, kind, flags):
    """(address, size in the file) of the segment."""
    found = re.search(r'^\s*%s\s+0x\w+ 0x(\w+) 0x\w+ 0x(\w+) 0x\w+ %s ' % (kind, flags), headers, re.M)
    return int(found.group(1), 16), int(found.group(2), 16)


def check_data(findings, library):
    headers = lint.output('readelf', '-lW', library)
    at, size = segment(headers, 'LOAD', 'RW ')
    read_only, length = segment(headers, 'GNU_RELRO', 'R  ')
    end = read_only + length
    if end - read_only // PAGE * PAGE > PAGE:
        findings.add(library, None, '%d bytes of relocated data: more than a page' % length)
    if at + size - end > PAGE:
        findings.add(library, None, '%d bytes of writable data: more than a page' % (at + size - end))
    count = len(re.findall(r'_RELATIVE\b', lint.output('readelf', '-rW', library)))
    if count > RELOCATIONS:
        findings.add(library, None, '%d relocations, at most %d' % (count, RELOCATIONS))
    return count


def check_code(findings, library):
    symbols = {}
    for line in lint.output('nm', library).splitlines():
        fields = line.split()
        if len(fields) == 3:
            symbols.setdefault(fields[2], int(fields[0], 16))
    if 'init_constructor' not in symbols:
        findings.add(library, None, 'no constructor')
    for name in START_CODE:  # those that the compiler has left as functions
        if symbols.get(name, 0) >= NEAR:
            findings.add(library, None, '%s is at 0x%x: beyond the first 64 KiB' % (name, symbols[name]))


def frames_end(library):
    """The bytes of .eh_frame from its start to the end of what describes LAST_FRAME."""
    start = re.search(r'^0*(\w+) \w %s$' % LAST_FRAME, lint.output('nm', library), re.M).group(1)
    frame = re.search(r'^(\w+) (\w+) \w+ FDE cie=\w+ pc=0*%s\.\.' % start,
                      lint.output('readelf', '--debug-dump=frames', library), re.M)
    return int(frame.group(1), 16) + 4 + int(frame.group(2), 16)


def check_size(findings, library):
    sections = lint.output('readelf', '-SW', library)
    if not re.search(r'\.text_cold ', sections):
        return  # a linker that does not know the script
    at = int(re.search(r'\.eh_frame +\w+ +(\w+) ', sections).group(1), 16)
    if at + frames_end(library) > ALL_CODE:
        findings.add(library, None, '.eh_frame begins at 0x%x: code that most programs run, and what a sample reads, '
                     'no longer fits into 128 KiB' % at)


def main(root, library, compiler):
    findings = lint.Findings()
    del root
    count = check_data(findings, library)
    check_code(findings, library)
    if compiler == 'gcc':
        check_size(findings, library)
    findings.finish('start with %d relocations' % count)


if __name__ == '__main__':
    main(*sys.argv[1:])
