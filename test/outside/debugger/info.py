#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands salloc info, heap and stats on blocks of every kind, in a process and in its core: what they say of each
pointer, and that nothing is called in the program; and salloc report. Also with a library without symbols, and without one.

usage: info.py LIBRARY PROGRAM [VARIABLE=VALUE...]    (PROGRAM: blocks.c)
Status 77: there is no gdb here, or it may not trace."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

LIBRARY, PROGRAM = map(os.path.abspath, sys.argv[1:3])
VARIABLES = sys.argv[3:]
SCRIPT = os.path.realpath(LIBRARY) + '-gdb.py'
HARDENED = bool(subprocess.run([PROGRAM], env={'LD_PRELOAD': LIBRARY, 'SALLOC_CONF': 'stats:/dev/stderr'}, check=False,
                               capture_output=True).stderr.count(b'hardened'))
NAMES = ['live', 'live+1', 'freed', 'several', 'several+4000', 'large', 'large+1500000', 'large_freed', 'foreign', 'main',
         '0', '-1', 'many[0]', 'many[1]']


def gdb(arguments, commands, conf='sample_interval:0', library=LIBRARY):
    """What gdb says to each command, in a list."""
    line = ['gdb', '-nx', '-q', '-batch', '-iex', 'set auto-load safe-path /', '-ex', 'set startup-with-shell off',
            '-ex', 'set pagination off', '-ex', 'set confirm off', '-ex', 'set width 0']
    for variable in ['LD_PRELOAD=' + library, 'SALLOC_CONF=' + conf] + VARIABLES:
        line += ['-ex', 'set environment ' + variable.replace('=', ' ', 1)]
    for command in commands:
        line += ['-ex', 'echo \\n@@@\\n', '-ex', command]
    environment = {name: value for name, value in os.environ.items() if name not in ('LD_PRELOAD', 'SALLOC_CONF')}
    done = subprocess.run(line + arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, timeout=120)
    if 'ptrace: Operation not permitted' in done.stdout or 'Could not trace the inferior' in done.stdout:
        print('skipped: gdb may not trace here')
        os._exit(77)
    return [part.strip() for part in done.stdout.split('\n@@@\n')[1:]]


def ask(conf, core=None, **more):
    """What is said of each of NAMES, and of heap and stats."""
    commands = ['salloc info ' + name for name in NAMES] + ['salloc heap', 'salloc stats']
    if core and os.path.exists(core):
        said = gdb([PROGRAM, core], commands, conf, **more)
    else:
        before = ['break ready', 'run'] + (['generate-core-file ' + core] if core else [])
        said = gdb([PROGRAM], before + commands, conf, **more)[len(before):]
    return dict(zip(NAMES + ['heap', 'stats'], said)), said


class Info(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix='salloc-gdb-')
        self.addCleanup(shutil.rmtree, self.folder)

    def says(self, said, name, pattern):
        self.assertRegex(said[name], re.compile(pattern, re.S), name)

    def plain(self, said):
        self.says(said, 'live', 'start of a live block of size class')
        self.says(said, 'live+1', '1 bytes into a live block .*block: 0x')
        self.says(said, 'freed', 'free' if not HARDENED else 'it may also have been freed')
        self.says(said, 'several', 'start of a live block .* bytes')
        self.says(said, 'several+4000', '4000 bytes into a live block')
        self.says(said, 'large', 'start of a live large block .*requested: 3000000')
        self.says(said, 'large+1500000', '1500000 bytes into a live large block .*requested: 3000000')
        self.says(said, 'large_freed', 'free: in pages')
        for name in 'foreign', 'main', '0', '-1':
            self.says(said, name, 'foreign')
        self.says(said, 'many[1]', 'start of a live block')
        if not HARDENED:
            self.says(said, 'many[0]', 'start of a free block .*in (its span|the cache of|the transfer cache)')
            # 2000 of 752 bytes are live, of a class of 768.
            self.says(said, 'heap', r'\n *\d+ +768 +2000 ')
        self.says(said, 'heap', 'large: 1 blocks, 3000000 bytes requested')
        self.says(said, 'stats', 'caches: .*pages of spans in use: ')

    def test_plain_blocks_live_and_from_a_core(self):
        core = os.path.join(self.folder, 'core')
        process, _ = ask('sample_interval:0,sample_quarantine:0', core)
        self.plain(process)
        self.assertTrue(os.path.exists(core))
        dead, _ = ask('', core)
        self.plain(dead)
        self.assertEqual(process, dead)

    @unittest.skipIf(HARDENED, 'blocks of this size are not as they are asked for')
    def test_sampled_blocks_have_sizes_and_stacks(self):
        core = os.path.join(self.folder, 'core')
        process, _ = ask('sample_interval:1,guarded_sample:0', core)
        dead, _ = ask('', core)
        for said in process, dead:
            self.says(said, 'live', r'start of a live block of size class.*requested: 100 bytes.*allocated by thread.*'
                                    r'allocate \+?.*main')
            self.says(said, 'large', r'start of a live large block.*requested: 3000000.*allocated by thread.*allocate.*main')
            # Its pages are kept, with its history, or not: that is random.
            self.says(said, 'freed', r'freed block \(200 bytes requested\).*freed by thread.*main|free: in pages')
            self.says(said, 'heap', r'sampled: \d+ blocks')
        self.assertEqual(process, dead)

    @unittest.skipIf(HARDENED, 'blocks of this size are not as they are asked for')
    def test_guarded_blocks_live_and_freed(self):
        said, _ = ask('sample_interval:1,guarded_sample:1,guarded_slots:4096')
        self.says(said, 'live', r'start of a live guarded block \(100 bytes requested\).*allocated by thread.*allocate.*main')
        self.says(said, 'live+1', r'1 bytes into a live guarded block')
        self.says(said, 'freed', r'start of a freed guarded block \(200 bytes requested\).*freed by thread.*main')

    @unittest.skipUnless(shutil.which('strip'), 'no strip')
    def test_library_without_symbols(self):
        library = os.path.join(self.folder, 'libsalloc.so')
        subprocess.run(['strip', '-o', library, LIBRARY], check=True)
        shutil.copy(SCRIPT, library + '-gdb.py')
        said, _ = ask('sample_interval:0,sample_quarantine:0', library=library)
        self.plain(said)

    def test_report(self):
        core = os.path.join(self.folder, 'core')
        said = gdb([PROGRAM], ['break ready', 'run', 'salloc report', 'print ((void (*)(void *)) free)(large_freed)',
                               'salloc report', 'generate-core-file ' + core])
        self.assertEqual(said[2], 'There is no report.')
        self.assertRegex(said[4], r'^salloc: double free: 0x[0-9a-f]+ .*\nsalloc:   in process \d+')
        self.assertEqual(gdb([PROGRAM, core], ['salloc report']), [said[4]])

    def test_errors_are_lines(self):
        said = gdb([PROGRAM], ['source ' + SCRIPT, 'salloc info live', 'break main', 'break ready', 'run', 'continue', 'salloc info', 'salloc info nothing'])
        self.assertIn('There is no process, and no core.', said[1])
        self.assertIn('usage: salloc info EXPRESSION', said[6])
        self.assertIn('No symbol "nothing" in current context.', said[7])
        for text in said:
            self.assertNotIn('Traceback', text)
        without = os.path.join(self.folder, 'none.so')
        said = gdb([PROGRAM], ['source ' + SCRIPT, 'break main', 'run', 'salloc heap'], library=without)
        self.assertIn('salloc is not in this program', said[3])


if __name__ == '__main__':
    if not shutil.which('gdb'):
        print('skipped: there is no gdb')
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
