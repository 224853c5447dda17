#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is installed is found: the library by 'sallocctl run', with and without the link of the development package, and all
of it by the system's loader and pkg-config, also where meson takes lib64 for the folder of libraries.

usage: installed.py SALLOCCTL LIBRARY LIBDIR ROOT
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOL, LIBRARY, LIBDIR, ROOT = sys.argv[1:5]


class Installed(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def place(self, libdir, names):
        """A tree with the command and the library, whose first name is the file. Returns the command's path."""
        tool = os.path.join(self.folder, 'usr/bin/sallocctl')
        place = os.path.normpath(os.path.join(self.folder, 'usr', libdir))
        for folder in (os.path.dirname(tool), place):
            os.makedirs(folder, exist_ok=True)
        shutil.copy(TOOL, tool)
        shutil.copy(LIBRARY, os.path.join(place, names[0]))
        for name in names[1:]:
            os.symlink(names[0], os.path.join(place, name))
        return tool

    def test_run(self):
        for libdir in (LIBDIR, 'lib', 'lib64', 'bin', '.'):
            for names in (('libsalloc.so.0.2.0', 'libsalloc.so.0'), ('libsalloc.so.0',), ('libsalloc.so',),
                          ('libsalloc.so.0.2.0', 'libsalloc.so.0', 'libsalloc.so')):
                with self.subTest(libdir=libdir, names=names):
                    tool = self.place(libdir, names)
                    run = subprocess.run([tool, 'run', '--', 'cat', '/proc/self/maps'], stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT, text=True, check=False)
                    self.assertEqual(run.returncode, 0, run.stdout)
                    self.assertIn(os.path.join(os.path.normpath(os.path.join(self.folder, 'usr', libdir)), names[0]), run.stdout)
                    shutil.rmtree(os.path.join(self.folder, 'usr'))

    def test_run_without(self):
        tool = self.place('elsewhere', ('libsalloc.so.0',))
        run = subprocess.run([tool, 'run', '--', 'true'], stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual((run.returncode, run.stderr),
                         (126, 'sallocctl: libsalloc.so.0 is not to be found; name it with --library\n'))

    @unittest.skipUnless(shutil.which('meson'), 'no meson')
    def test_libdir(self):
        """lib64, which meson takes where it cannot ask dpkg-dev, is no folder of a Debian's."""
        for compiler, prefix in (('gcc', '/usr'), ('clang', '/usr/local')):
            if not shutil.which(compiler):
                continue
            libc = subprocess.run([compiler, '-print-file-name=libc.so'], stdout=subprocess.PIPE, text=True, check=True).stdout
            name = os.path.basename(os.path.dirname(libc))
            build = os.path.join(self.folder, compiler + prefix.replace('/', '-'))
            run = subprocess.run(['meson', 'setup', '--prefix', prefix, '--libdir', 'lib64', '-Dtests=false', '-Dperf=disabled',
                                  '-Dtool=disabled', '-Dhwloc=disabled', build], cwd=ROOT, env={**os.environ, 'CC': compiler},
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            self.assertEqual(run.returncode, 0, run.stdout)
            where = os.path.join(prefix, 'lib', name) if '-linux-gnu' in name else os.path.join(prefix, 'lib64')
            to = json.loads(subprocess.run(['meson', 'introspect', '--installed', build], stdout=subprocess.PIPE,
                                           check=True).stdout).values()
            for file in ('libsalloc.so.0.2.0', 'libsalloc.a', 'pkgconfig/salloc.pc'):
                self.assertIn(os.path.join(where, file), to)
            with open(os.path.join(build, 'salloc.pc'), encoding='utf-8') as f:
                self.assertIn(f'libdir={where}\n', f.read())


unittest.main(argv=sys.argv[:1], verbosity=2)
