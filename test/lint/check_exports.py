#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libsalloc.so defines exactly what it should: the names of salloc.map with a version, those of base_names.list
without one. Public headers declare all of salloc_*. All of this libc's malloc family is among them: a function left to libc's own heap crashes
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
    """The names of the global section of a linker version script."""
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.S)
    section = re.search(r'global:(.*?)local:', text, flags=re.S).group(1)
    return {n.strip() for n in section.split(';') if n.strip()}


def versions(library):
    """{name: its version, or ''} of the exported symbols."""
    found = {}
    for line in lint.output('nm', '-D', '--defined-only', library).splitlines():
        name, _, version = line.split()[-1].partition('@')
        if not name.startswith('SALLOC_'):  # the version itself
            found[name] = version.lstrip('@')
    return found


def libc_path():
    for line in open('/proc/self/maps'):
        match = re.search(r'(/\S*/libc\.so\.6)$', line.strip())
        if match:
            return match.group(1)
    return None


def main(root, library):
    findings = lint.Findings()
    versioned = map_names(lint.read(root, 'alloc/api/salloc.map'))
    base = set(re.sub(r'#.*', '', lint.read(root, 'alloc/api/base_names.list')).split())
    names = versioned | base
    exported = versions(library)
    declared = set()

    for path in lint.source_files(root, r'^include/salloc/.*\.h$'):
        text = lint.without_comments(lint.read(root, path))
        declared |= set(re.findall(r'\b(salloc_\w+)\s*\(', text))
    for name in sorted(names - set(exported)):
        findings.add(library, None, '%s is in salloc.map or base_names.list and not defined' % name)
    for name in sorted(declared - set(exported)):
        findings.add(library, None, '%s is declared in a public header and not defined' % name)
    for name, version in sorted(exported.items()):
        if name not in names:
            findings.add(library, None, '%s is exported and neither in salloc.map nor in base_names.list' % name)
        elif name.startswith('salloc_') and name not in declared and name != 'salloc_abort_message':
            findings.add(library, None, '%s is exported and in no public header' % name)
        elif bool(version) != (name in versioned):
            findings.add(library, None, '%s has the version "%s"' % (name, version))
    libc = libc_path()
    family = {n for n in lint.dynamic_symbols(libc, undefined=False)
              if FAMILY.match(n) and n not in NOT_THE_HEAP} if libc else set()
    if libc and len(family) < 20:
        findings.add(libc, None, 'only %d functions of the malloc family seen' % len(family))
    for name in sorted(family - set(exported)):
        findings.add(libc, None, '%s would come from libc\'s own heap' % name)
    findings.finish('%d exports, %d of libc\'s malloc family' % (len(exported), len(family)))


if __name__ == '__main__':
    main(*sys.argv[1:])
