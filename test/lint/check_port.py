#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A new architecture needs system calls and critical sections, and nothing else, to compile: all sources that tell
architectures apart compile for riscv64, which salloc does not support, with stand-ins for those two.
usage: check_port.py ROOT
"""
import concurrent.futures
import os
import re
import sys
import tempfile

import lint

TOLD_APART = re.compile(r'^ *# *(?:if|elif).*\b__(?:x86_64|aarch64)__', re.M)
# Headers that are copied with a stand-in at the place of their #error.
STAND_INS = {
    'alloc/base/syscall.h': ''.join('long sa_syscall%d(long number%s);\n' % (n, ', long' * n) for n in range(7)),
    'alloc/os/percpu.h': '#include "test/lint/port/percpu_plain.h"\n',
}
FLAGS = ['-std=gnu11', '-O2', '-fPIC', '-Wall', '-Wextra', '-Werror', '-Wno-missing-field-initializers', '-D_GNU_SOURCE',
         '-DSALLOC_VERSION="0"', '-fvisibility=hidden', '-ftls-model=initial-exec']


def chosen(root):
    """The sources that tell architectures apart, and for each header that does one source that includes it."""
    sources = {path: lint.read(root, path) for path in lint.source_files(root, r'^(alloc|pagemap|stats|sampling)/.*\.c$')}
    found = {path for path, text in sources.items() if TOLD_APART.search(text)}
    for header in lint.source_files(root, r'^(alloc|pagemap|stats|sampling)/.*\.h$'):
        if TOLD_APART.search(lint.read(root, header)):
            found.update([path for path, text in sources.items() if '#include "%s"' % header in text][:1])
    return sorted(found)


def main(root):
    findings = lint.Findings()
    compiler = lint.find_tool('riscv64-linux-gnu-gcc')
    if not compiler:
        lint.skip('no compiler for riscv64')
    sources = chosen(root)
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(2) as pool:
        for path, stand_in in STAND_INS.items():
            text, count = re.subn(r'^#error "(?:no|salloc has).*\n', lambda m: stand_in, lint.read(root, path), flags=re.M)
            if count != 1:
                findings.add(path, None, 'there should be one #error for other architectures')
            target = os.path.join(scratch, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, 'w', encoding='utf-8') as file:
                file.write(text)

        def compile_one(source):
            target = os.path.join(scratch, source.replace('/', '_') + '.o')
            return lint.run(compiler, *FLAGS, '-I', scratch, '-I', root, '-I', os.path.join(root, 'include'), '-c', source,
                            '-o', target, cwd=root)

        for source, result in zip(sources, pool.map(compile_one, sources)):
            if result.returncode != 0:
                findings.add(source, None, 'does not compile for riscv64:\n' + result.stdout)
    if len(sources) < 5:
        findings.add(root, None, 'only %d sources tell architectures apart' % len(sources))
    findings.finish('%d files for riscv64' % len(sources))


if __name__ == '__main__':
    main(os.path.abspath(sys.argv[1]))
