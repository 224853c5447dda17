#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A static program that does not call dlopen links without a warning, and runs with all defaults and with
the option that asks for hwloc.

usage: static_link.py ARCHIVE COMPILER...
"""
import os
import subprocess
import sys
import tempfile

PROGRAM = """
#include <stdlib.h>
int main(void)
{
    void *volatile p = malloc(100);
    free(p);
    return !p;
}
"""


def main():
    archive, *compiler = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, 'p.c'), os.path.join(folder, 'p')
        with open(source, 'w') as f:
            f.write(PROGRAM)
        subprocess.run([*compiler, '-static', '-Wl,--fatal-warnings', source, archive, '-lpthread', '-o', program],
                       check=True)
        for conf in '', 'llc_domains:on', 'hardening:on', 'control:on':
            out = subprocess.run([program], env={**os.environ, 'SALLOC_CONF': conf}, check=True, timeout=20,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
            assert not out, out
    print('links without a warning, and runs')


main()
