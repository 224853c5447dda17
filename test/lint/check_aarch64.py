#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The whole library compiles and assembles for aarch64, without warnings, and its critical sections are
there: each descriptor with its abort handler, after the signature that the kernel wants.
usage: check_aarch64.py ROOT
"""
import concurrent.futures
import glob
import os
import re
import sys
import tempfile

import lint

CROSS = 'aarch64-linux-gnu-'
SIGNATURE = '00bc28d4'  # brk #0x45e0, as bytes in memory
FLAGS = ['-std=gnu11', '-O2', '-fPIC', '-Wall', '-Wextra', '-Werror', '-Wno-missing-field-initializers',
         '-D_GNU_SOURCE', '-DSALLOC_VERSION="0"', '-fvisibility=hidden', '-ftls-model=initial-exec',
         '-fno-builtin-malloc', '-fno-builtin-calloc', '-fno-builtin-realloc', '-fno-builtin-free']


def borrow_hwloc(scratch):
    """hwloc's headers do not depend on the architecture; those of this machine's libc, beside them, do."""
    for base in ['/usr/include', '/usr/local/include'] + glob.glob('/usr/include/*-linux-gnu*'):
        for path in glob.glob(base + '/hwloc.h') + glob.glob(base + '/hwloc/**/*.h', recursive=True):
            target = os.path.join(scratch, os.path.relpath(path, base))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if not os.path.lexists(target):
                os.symlink(path, target)
    if not os.path.exists(os.path.join(scratch, 'hwloc.h')):
        lint.skip('no headers of hwloc')


def section_bytes(tool, path, section):
    """Sizes of all sections of the name in an object file."""
    text = lint.output(tool, '-SW', path)
    return [int(m.group(1), 16) for m in re.finditer(
        r'\] %s\s+\w+\s+\w+ \w+ (\w+)' % re.escape(section), text)]


def main(root):
    findings = lint.Findings()
    compiler, readelf = lint.find_tool(CROSS + 'gcc'), lint.find_tool(CROSS + 'readelf', 'readelf')
    if not compiler or not readelf:
        lint.skip('no compiler for aarch64')
    sources = lint.source_files(root, r'^(alloc|pagemap|stats|sampling)/.*\.c$')
    descriptors = 0
    with tempfile.TemporaryDirectory() as scratch, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        borrow_hwloc(scratch)

        def compile_one(source):
            target = os.path.join(scratch, source.replace('/', '_') + '.o')
            return target, lint.run(compiler, *FLAGS, '-I', root, '-I', os.path.join(root, 'include'), '-I', scratch, '-c', source, '-o', target,
                                    cwd=root)

        for source, (target, result) in zip(sources, pool.map(compile_one, sources)):
            if result.returncode != 0:
                findings.add(source, None, 'does not compile for aarch64:\n' + result.stdout)
                continue
            here = sum(section_bytes(readelf, target, '__rseq_cs')) // 32
            descriptors += here
            aborts = lint.output(CROSS + 'objdump', '-s', '-j', '.text.sa_rseq_abort', target) if here else ''
            words = re.findall(r'[0-9a-f]{8}', ' '.join(
                line[:45] for line in re.findall(r'^ [0-9a-f]+ (.*)$', aborts, re.M)))
            if words.count(SIGNATURE) != here:
                findings.add(source, None, '%d critical sections, %d signatures' %
                             (here, words.count(SIGNATURE)))
    if descriptors == 0:
        findings.add(root, None, 'no critical section was found')
    findings.finish('%d files, %d critical sections for aarch64' % (len(sources), descriptors))


if __name__ == '__main__':
    main(os.path.abspath(sys.argv[1]))
