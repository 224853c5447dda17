#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every header compiles alone, and twice in one file, without warnings. Public headers also as C99 without
any extension, and as C++11 where there is a compiler for it. Those for C++ alone compile as C++17.
usage: check_headers.py ROOT COMPILER...
"""
import concurrent.futures
import os
import re
import sys
import tempfile

import lint

COMMON = ['-fsyntax-only', '-Wall', '-Wextra', '-Werror']
PRIVATE = ['-x', 'c', '-std=gnu11', '-D_GNU_SOURCE', '-DSALLOC_VERSION="0"', '-Wundef', '-Wshadow',
           '-Wstrict-prototypes']
C99 = ['-x', 'c', '-std=c99', '-pedantic-errors', '-Wstrict-prototypes', '-Wc++-compat']
CXX11 = ['-x', 'c++', '-std=c++11', '-pedantic-errors']
CXX17 = ['-x', 'c++', '-std=c++17', '-pedantic-errors', '-Wshadow']


def jobs(root, compiler, cxx):
    for path in lint.source_files(root, r'\.h$'):
        # Parts of another header, one for each architecture, refuse to be included on their own.
        if re.search(r'#error "include ', lint.read(root, path)):
            continue
        yield path, 'gnu11', compiler + PRIVATE
        if path.startswith('include/'):
            yield path, 'C99', compiler + C99
            if cxx:
                yield path, 'C++11', [cxx] + CXX11
    for path in lint.source_files(root, r'\.hpp$'):
        if cxx:
            yield path, 'C++17', [cxx] + CXX17


def compile_alone(root, scratch, path, standard, command):
    name = os.path.join(scratch, '%s.%s.c' % (path.replace('/', '_'), standard))
    with open(name, 'w', encoding='utf-8') as f:
        f.write('#include "%s"\n#include "%s"\n' % (path, path))
    return lint.run(*command, *COMMON, '-I', root, '-I', os.path.join(root, 'include'), name)


def main(root, *compiler):
    findings = lint.Findings()
    cxx = lint.find_tool('c++', 'g++', 'clang++')
    count = 0
    with tempfile.TemporaryDirectory() as scratch, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        running = [(path, standard, pool.submit(compile_alone, root, scratch, path, standard, command))
                   for path, standard, command in jobs(root, list(compiler), cxx)]
        for path, standard, job in running:
            count += 1
            result = job.result()
            if result.returncode != 0:
                findings.add(path, None, 'does not compile alone as %s:\n%s' % (standard, result.stdout))
    if not cxx:
        print('no C++ compiler: public headers were not tried as C++11')
    findings.finish('%d compilations of headers' % count)


if __name__ == '__main__':
    main(*sys.argv[1:])
