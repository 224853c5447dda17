#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libsalloc.so defines exactly what it should: the names of salloc.map, and of salloc_* those that a public
header declares. All of this libc's malloc family is among them: a function left to libc's own heap crashes
as soon as a block crosses over.
usage: check_exports.py ROOT LIBRARY
"""
import re
import sys

import lint

# What glibc has under these names and does not belong to its heap.
NOT_THE_HEAP = {'freeaddrinfo', 'freeifaddrs', 'freelocale', '__freelocale', '__libc_freeres',
                '__libc_alloca_cutoff', '__malloc_hook', '__free_hook', '__realloc_hook',
                '__memalign_hook', '__malloc_initialize_hook', '__after_morecore_hook',
                # Debugging aids that are not called by programs, or went away.
                'malloc_get_state', 'malloc_set_state', 'mcheck', '__morecore'}
FAMILY = re.compile(r'^(__libc_|__posix_|__)?'
                    r'(malloc\w*|free|free_\w+|calloc|realloc\w*|cfree|memalign|aligned_alloc|'
                    r'posix_memalign|valloc|pvalloc|mallinfo2?|mallopt)$')


def map_names(text):
    """(names, patterns) of the global section of a linker version script."""
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.S)
    section = re.search(r'global:(.*?)local:', text, flags=re.S).group(1)
    names = [n.strip() for n in section.split(';') if n.strip()]
    return {n for n in names if '*' not in n}, {n for n in names if '*' in n}


def libc_path():
    for line in open('/proc/self/maps'):
        match = re.search(r'(/\S*/libc\.so\.6)$', line.strip())
        if match:
            return match.group(1)
    return None


def main(root, library):
    findings = lint.Findings()
    names, patterns = map_names(lint.read(root, 'alloc/api/salloc.map'))
    exported = set(lint.dynamic_symbols(library, undefined=False))
    declared = set()

    if patterns != {'salloc_*'}:
        findings.add('alloc/api/salloc.map', None, 'patterns other than salloc_*: %s' % patterns)
    for path in lint.source_files(root, r'^include/salloc/.*\.h$'):
        text = lint.without_comments(lint.read(root, path))
        declared |= set(re.findall(r'\b(salloc_\w+)\s*\(', text))
    for name in sorted(names - exported):
        findings.add(library, None, '%s is in salloc.map and not defined' % name)
    for name in sorted(declared - exported):
        findings.add(library, None, '%s is declared in a public header and not defined' % name)
    for name in sorted(exported - names - declared):
        findings.add(library, None, '%s is exported and neither in salloc.map nor declared' % name)
    libc = libc_path()
    family = {n for n in lint.dynamic_symbols(libc, undefined=False)
              if FAMILY.match(n) and n not in NOT_THE_HEAP} if libc else set()
    if libc and len(family) < 20:
        findings.add(libc, None, 'only %d functions of the malloc family seen' % len(family))
    for name in sorted(family - exported):
        findings.add(libc, None, '%s would come from libc\'s own heap' % name)
    findings.finish('%d exports, %d of libc\'s malloc family' % (len(exported), len(family)))


if __name__ == '__main__':
    main(*sys.argv[1:])
