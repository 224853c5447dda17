#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Symbol versions: a program that was linked with a library without them starts with this one. A program that needs a
function with a version does not start with such a library, and the loader says which version is missing.

usage: versions.py LIBRARY INCLUDE COMPILER...
"""
import os
import subprocess
import sys
import tempfile

# The library as it was before 0.2, as far as a linker and a loader can tell.
OLD_LIBRARY = """
#include <stddef.h>
const char *salloc_version(void) { return "0.1.0"; }
void *salloc_snapshot_profile(int type) { return type ? NULL : "old"; }
void salloc_profile_free(void *profile) { (void)profile; }
int salloc_set_option(const char *name, const char *value) { return name == value; }
"""

OLD_PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
const char *salloc_version(void);
void *salloc_snapshot_profile(int type);
void salloc_profile_free(void *profile);
int salloc_set_option(const char *name, const char *value);
int main(void)
{
    void *volatile p = malloc(100000), *profile = salloc_snapshot_profile(0);

    printf("%s %d %d", salloc_version(), profile != NULL, salloc_set_option("sample_interval", "64k"));
    salloc_profile_free(profile);
    free(p);
    return 0;
}
"""

NEW_PROGRAM = """
#include <salloc/salloc.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
    struct salloc_profile_info info = {.size = sizeof(info)};

    printf("%d %d", strcmp(salloc_version(), SALLOC_VERSION_STRING), salloc_profile_get_info(NULL, &info));
    return 0;
}
"""


def run(program, folder):
    return subprocess.run([program], env={**os.environ, 'LD_LIBRARY_PATH': folder, 'LC_ALL': 'C'}, timeout=20,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)


def main():
    library, include, *compiler = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        old, new = os.path.join(folder, 'old'), os.path.join(folder, 'new')
        os.mkdir(old)
        os.mkdir(new)
        os.symlink(library, os.path.join(new, 'libsalloc.so.0'))

        def build(source, to, *more):
            path = os.path.join(folder, 'source.c')
            with open(path, 'w', encoding='ascii') as f:
                f.write(source)
            subprocess.run([*compiler, path, '-o', to, '-I' + include, *more], check=True)
            return to

        stub = build(OLD_LIBRARY, os.path.join(old, 'libsalloc.so.0'), '-shared', '-fPIC', '-fno-builtin',
                     '-Wl,-soname,libsalloc.so.0')
        program = build(OLD_PROGRAM, os.path.join(folder, 'old_program'), stub)
        assert run(program, old).stdout == '0.1.0 1 0', run(program, old)
        result = run(program, new)
        assert result.returncode == 0 and result.stdout.endswith(' 1 0'), result
        assert not result.stdout.startswith('0.1.0 '), result

        program = build(NEW_PROGRAM, os.path.join(folder, 'new_program'), os.path.join(new, 'libsalloc.so.0'))
        assert run(program, new).stdout == '0 -1', run(program, new)
        result = run(program, old)
        assert result.returncode != 0 and 'SALLOC_0.2' in result.stdout, result
    print('an old program starts, a new one needs SALLOC_0.2')


main()
