#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""When files are written: every so many seconds, as the heap grows, at signals. Each file is complete or not there,
also if the process is killed.

usage: output.py LIBRARY PROGRAM [VARIABLE=VALUE...]    (PROGRAM: output.c)
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

LIBRARY = os.path.abspath(sys.argv[1])
PROGRAM = os.path.abspath(sys.argv[2])
MORE = dict(word.split('=', 1) for word in sys.argv[3:])
PATIENCE = 30  # seconds until something must have happened that takes milliseconds
MIB = 1 << 20
# Python 3.12 and later warn at each os.fork() of a process with the library's thread (doc/compatibility.md).
UNWARNED = ['-W', 'ignore::DeprecationWarning']


def environment(conf):
    """Of a run under the library."""
    conf = ','.join(c for c in (MORE.get('SALLOC_CONF'), conf) if c)
    return {**os.environ, **MORE, 'LD_PRELOAD': LIBRARY, 'SALLOC_CONF': conf}


class Program:
    """A process of output.c."""

    def __init__(self, conf, **more):
        self.process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=environment(conf), text=True, **more)
        self.answer()

    def answer(self):
        """Waits until the program has done what it was told."""
        line = self.process.stdout.readline()
        if line != 'done\n':
            raise AssertionError(line + self.process.stderr.read())

    def tell(self, line):
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()

    def does(self, line):
        self.tell(line)
        self.answer()

    def end(self, line='return'):
        """Tells it to end. Its status, and what it said on stderr."""
        if line:
            self.tell(line)
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, re.sub(r'(?m)^profiling:.*\n', '', errors)  # of counters, for coverage


class Case(unittest.TestCase):
    """A test with a folder."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix='salloc-output-')
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def left(self):
        return sorted(os.listdir(self.folder))

    def text(self, name):
        with open(self.path(name), encoding='ascii') as file:
            return file.read()

    def bytes(self, name):
        """In use, as a table says."""
        return int(re.search(r'^(\d+) bytes', self.text(name), re.M).group(1))

    def until(self, what, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end, (what, self.left()))
            time.sleep(0.005)


class Times(Case):
    """Files in the life of a process."""

    def test_every(self):
        """A number for each file, and one more at the end; each is complete when it appears."""
        began = time.monotonic()
        program = Program(f'profile:{self.path("a.%n.txt")},profile_every:1,sample_interval:1')
        program.does('+ 4')
        for n in (1, 2):
            self.until(n, lambda name=f'a.{n}.txt': os.path.exists(self.path(name)))
            self.assertGreaterEqual(time.monotonic() - began, n)
            self.assertGreater(self.bytes(f'a.{n}.txt'), 4 * MIB)
        self.assertEqual(program.end(), (3, ''))
        self.assertLessEqual(set(f'a.{n}.txt' for n in (1, 2, 3)), set(self.left()))

    def test_every_page_survives_a_kill(self):
        """The same file, replaced. SIGKILL leaves the last complete one."""
        program = Program(f'stats:{self.path("page")},stats_every:1')
        self.until('page', lambda: self.left() == ['page'])
        first = os.stat(self.path('page')).st_ino
        self.until('replaced', lambda: os.stat(self.path('page')).st_ino != first)
        program.process.kill()
        self.assertEqual(program.end(None), (-signal.SIGKILL, ''))
        self.assertIn('PARAMETER salloc_stats_every 1\n', self.text('page'))

    def test_growth(self):
        """A file for each new high. Memory that comes back is no new high."""
        program = Program(f'profile:{self.path("g.%n.txt")},profile_growth:32m,sample_interval:64k')
        program.does('+ 20')
        time.sleep(0.2)
        self.assertEqual(self.left(), [])
        program.does('+ 20')
        self.until(1, lambda: self.left() == ['g.1.txt'])
        self.assertGreater(self.bytes('g.1.txt'), 25 * MIB)  # an estimate of 32 to 40 MiB, from 500 samples and more
        program.does('-')
        program.does('+ 40')
        time.sleep(0.2)
        self.assertEqual(self.left(), ['g.1.txt'])
        program.does('+ 40')
        self.until(2, lambda: self.left() == ['g.1.txt', 'g.2.txt'])
        self.assertGreater(self.bytes('g.2.txt'), 50 * MIB)
        self.assertEqual(program.end('_exit'), (3, ''))
        self.assertEqual(self.left(), ['g.1.txt', 'g.2.txt'])

    def test_signals(self):
        """One for the page, one for the profile, or the same for both."""
        program = Program(f'stats:{self.path("%n.page")},stats_signal:USR1,profile:{self.path("%n.txt")},profile_signal:USR2')
        program.process.send_signal(signal.SIGUSR1)
        self.until('page', lambda: self.left() == ['1.page'])
        program.process.send_signal(signal.SIGUSR2)
        self.until('profile', lambda: self.left() == ['1.page', '2.txt'])
        self.assertEqual(program.end('_exit'), (3, ''))
        program = Program(f'stats:{self.path("b.page")},stats_signal:HUP,profile:{self.path("b.txt")},profile_signal:HUP')
        program.process.send_signal(signal.SIGHUP)
        self.until('both', lambda: self.left() == ['1.page', '2.txt', 'b.page', 'b.txt'])
        self.assertEqual(program.end('_exit'), (3, ''))

    def replacing(self, name, how, then):
        """stderr, and what the page says, of a process that gives a signal another handler or action."""
        script = f'import os, signal, time\nsignal.signal(signal.{name}, {how})\n{then}\n'
        run = subprocess.run([sys.executable, '-c', script], stderr=subprocess.PIPE, text=True, check=False, timeout=PATIENCE,
                             env=environment(f'stats:{self.path("page")},stats_signal:USR1,'
                                             f'profile:{self.path("p.txt")},profile_signal:RTMIN+7'))
        self.assertEqual(run.returncode, 0)
        return run.stderr, re.findall(r'^PARAMETER salloc_(?:stats|profile)_signal (.*)', self.text('page'), re.M)

    def test_signals_that_the_program_takes(self):
        """A line on stderr, once for each, and on the page. Handlers, and actions."""
        says = ('salloc: {}: the program has its own handler of this signal; nothing is written at it unless that one calls '
                'salloc\'s\n')
        page, profile = says.format('stats_signal:USR1'), says.format('profile_signal:41')
        self.assertEqual(self.replacing('SIGUSR2', 'lambda *a: None', ''), ('', ['USR1', '41']))
        for how in ('lambda *a: None', 'signal.SIG_IGN', 'signal.SIG_DFL'):
            self.assertEqual(self.replacing('SIGUSR1', how, ''), (page, ['USR1, replaced by the program', '41']))
            self.assertEqual(self.replacing('SIGRTMIN + 7', how, ''), (profile, ['USR1', '41, replaced by the program']))
        # While it runs, and in a child of fork.
        for then in ('time.sleep(3)\nos.kill(os.getpid(), signal.SIGKILL)', 'time.sleep(3)\nos._exit(0)'):
            script = f'import os, signal, time\nif os.fork():\n os.wait(); os._exit(0)\nsignal.signal(signal.SIGUSR2, print)\n{then}'
            run = subprocess.run([sys.executable, *UNWARNED, '-c', script], stderr=subprocess.PIPE, text=True, check=True,
                                 env=environment(f'profile:{self.path("p.txt")},profile_signal:USR2'), timeout=PATIENCE)
            self.assertEqual(run.stderr, says.format('profile_signal:USR2'))

    def test_children(self):
        """A child of fork writes, too."""
        script = f'import os, time\nif os.fork() == 0: time.sleep({PATIENCE})\nelse: os.wait()\n'
        with subprocess.Popen([sys.executable, *UNWARNED, '-c', script],
                              env=environment(f'stats:{self.path("%p")},stats_every:1')) as process:
            self.until('two', lambda: len(self.left()) == 2)
            for pid in self.left():
                os.kill(int(pid), signal.SIGKILL)
        self.assertIn(str(process.pid), self.left())

    def test_several(self):
        """Files of different formats and types. Those of one type have the same numbers."""
        program = Program(f'profile:{self.path("a.%n.txt")},profile:{self.path("b.%n.heap")},profile:{self.path("c.%n.txt")},'
                          'profile_type:allocation,profile:a.xyz,profile_signal:USR2,sample_interval:64k')
        program.does('+ 16')
        program.process.send_signal(signal.SIGUSR2)
        self.until(3, lambda: len(self.left()) == 3)
        program.does('-')
        status, errors = program.end()
        self.assertEqual((status, errors.count('\n')), (3, 1), errors)
        self.assertIn('a.xyz', errors)
        self.assertEqual(self.left(), [f'{name}.txt' for name in ('a.1', 'a.4')] + [f'{name}.heap' for name in ('b.2', 'b.5')]
                         + [f'{name}.txt' for name in ('c.3', 'c.6')])
        for number in (1, 4):
            in_use = re.match(r'heap profile: +\d+: +(\d+) ', self.text(f'b.{number + 1}.heap')).group(1)
            self.assertEqual(self.bytes(f'a.{number}.txt'), int(in_use))
            self.assertIn('\nallocations profile: ', self.text(f'c.{number + 2}.txt'))
        self.assertGreater(self.bytes('c.3.txt'), 10 * MIB)
        self.assertLess(self.bytes('c.6.txt'), MIB)

    def test_without_a_path(self):
        for key, of in (('stats_signal:USR1', 'stats'), ('stats_every:1', 'stats'), ('profile_every:1', 'profile'),
                        ('profile_growth:1m', 'profile')):
            program = Program(key)
            if 'signal' in key:
                program.process.send_signal(signal.SIGUSR1)
            program.does('+ 4')
            name = key.split(':', maxsplit=1)[0]
            self.assertEqual(program.end(), (3, f'salloc: SALLOC_CONF: {name} without {of}: nothing is written\n'))

    def test_errors_are_told_once(self):
        os.mkdir(self.path('gone'))
        program = Program(f'stats:{self.path("gone/page")},stats_every:1')
        self.until('page', lambda: os.path.exists(self.path('gone/page')))
        shutil.rmtree(self.path('gone'))
        time.sleep(2.5)
        status, errors = program.end()
        self.assertEqual((status, errors.count('\n')), (3, 1), errors)
        self.assertIn('No such file', errors)


class Processes(Case):
    """Which process writes to which file."""

    def files(self, *words, **more):
        """Runs a command under the library. The files it left, with N for each PID."""
        more.setdefault('env', environment(f'profile:{self.path("a.txt")}'))
        done = subprocess.run(words, check=False, timeout=PATIENCE, capture_output=True, text=True, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        return sorted(re.sub(r'\.\d+\.', '.N.', name) for name in self.left())

    def test_a_later_run_replaces(self):
        for _ in range(3):
            before = self.left() and os.stat(self.path('a.txt')).st_ino
            self.assertEqual(self.files('ls', '/'), ['a.txt'])
            self.assertNotEqual(os.stat(self.path('a.txt')).st_ino, before)

    def test_shell(self):
        """What a shell starts. What it executes in its own place has its PID, and its file. Some shells leave by _exit."""
        files = self.files('/bin/sh', '-c', 'ls /; sort /dev/null; true')
        self.assertEqual([name for name in files if name != 'a.txt'], ['a.ls.N.txt', 'a.sort.N.txt'])
        self.assertEqual(self.files('/bin/sh', '-c', 'exec ls /'), ['a.ls.N.txt', 'a.sort.N.txt', 'a.txt'])

    def test_timeout(self):
        self.assertEqual(self.files('timeout', '20', 'sort', '/dev/null'), ['a.sort.N.txt', 'a.txt'])
        self.assertEqual(self.files('timeout', '20', 'sort', '/dev/null',
                                    env=environment(f'profile:{self.path("%e.txt")}')),
                         ['a.sort.N.txt', 'a.txt', 'sort.sort.N.txt', 'timeout.txt'])

    @unittest.skipUnless(shutil.which('make'), 'no make')
    def test_make(self):
        with open(self.path('makefile'), 'w', encoding='ascii') as file:
            file.write('all:\n\tsort /dev/null\n\tls / | sort\n')
        self.assertEqual([name for name in self.files('make', '-C', self.folder) if '.sh.' not in name],
                         ['a.ls.N.txt', 'a.sort.N.txt', 'a.sort.N.txt', 'a.txt', 'makefile'])

    def test_fork(self):
        files = self.files(sys.executable, '-S', '-c', 'import os\nif os.fork(): os.wait()\n')
        self.assertRegex(' '.join(files), r'^a\.python\S*\.txt a\.txt$')

    def test_pid(self):
        conf = environment(f'profile:{self.path("%p.txt")}')
        self.assertEqual(len(self.files('timeout', '20', 'sort', '/dev/null', env=conf)), 2)
        self.assertTrue(all(re.fullmatch(r'\d+\.txt', name) for name in self.left()), self.left())

    def test_a_parent_with_other_options_or_without_the_library(self):
        script = f'SALLOC_CONF=profile:{self.path("b.txt")} sort /dev/null; true'
        self.assertIn('b.txt', self.files('/bin/sh', '-c', script))
        without = {k: v for k, v in environment(f'profile:{self.path("c.txt")}').items() if k != 'LD_PRELOAD'}
        self.assertEqual(self.files('/bin/sh', '-c', f'LD_PRELOAD={LIBRARY} sort /dev/null; true', env=without)[-1],
                         'c.txt')

    def test_page(self):
        conf = environment(f'stats:{self.path("page.prom")}')
        self.assertEqual(self.files('timeout', '20', 'sort', '/dev/null', env=conf),
                         ['page.prom', 'page.sort.N.prom'])


class Ends(Case):
    """Files at the end of a process, for each way to end."""

    def conf(self, more=''):
        return f'profile:{self.path("%p.txt")},stats:{self.path("%p.page")},sample_interval:64k{more}'

    def ends(self, how, status, *files, more='', blocks=True):
        """Ends a process in one way. Compares its status and the files that it leaves."""
        program = Program(self.conf(more))
        if blocks:
            program.does('+ 16')
        if isinstance(how, str):
            done = program.end(how)
        else:
            program.process.send_signal(how)
            done = program.end(None)
        self.assertEqual(done, (status, ''), how)
        self.assertEqual(self.left(), [f'{program.process.pid}.{name}' for name in files], how)
        for name in self.left():
            if name.endswith('.txt'):
                self.assertGreater(self.bytes(name), 10 * MIB)
            else:
                self.assertIn('PARAMETER salloc_map_names', self.text(name))
            os.unlink(self.path(name))

    def test_calls(self):
        for how in ('return', 'exit', 'quick_exit'):
            self.ends(how, 3, 'page', 'txt')
        self.ends('_exit', 3)
        self.ends('abort', -signal.SIGABRT)
        self.ends(signal.SIGTERM, -signal.SIGTERM)

    def test_signals(self):
        on = ',exit_signals:on'
        for how in ('return', 'quick_exit'):
            self.ends(how, 3, 'page', 'txt', more=on)
        self.ends('abort', -signal.SIGABRT, 'page', 'txt', more=on)
        for number in (signal.SIGTERM, signal.SIGABRT):
            self.ends(number, -number, 'page', 'txt', more=on)
        for number in (signal.SIGINT, signal.SIGKILL, signal.SIGHUP):
            self.ends(number, -number, more=on)

    def test_signals_that_the_program_ignores(self):
        program = Program(self.conf(',exit_signals:on'), preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))
        program.process.send_signal(signal.SIGTERM)
        program.does('+ 1')
        self.assertEqual(program.end('_exit'), (3, ''))
        self.assertEqual(self.left(), [])

    def test_child_of_vfork(self):
        """It ends by the signal; its parent goes on, and is served when it gets one."""
        program = Program(self.conf(',exit_signals:on'))
        program.does('vfork')
        self.assertEqual(self.left(), [])
        program.process.send_signal(signal.SIGTERM)
        self.assertEqual(program.end(None), (-signal.SIGTERM, ''))
        self.assertEqual(len(self.left()), 2)

    def test_in_the_middle(self):
        """A signal that interrupts malloc and free. Each end is that of the signal, and each file is complete."""
        for n in range(40):
            program = Program(self.conf(',exit_signals:on'))
            program.does('loop')
            time.sleep(n / 4000)
            began = time.monotonic()
            program.process.send_signal(signal.SIGTERM)
            self.assertEqual(program.end(None), (-signal.SIGTERM, ''))
            self.assertLess(time.monotonic() - began, 4)  # less than the time after which a signal waits no more
        self.assertEqual(len(self.left()), 80)
        for name in self.left():
            self.assertRegex(self.text(name), r'(?s)^salloc.*\n$' if name.endswith('.txt') else 'PARAMETER salloc_map_names')

    def test_quick_exit_in_the_middle(self):
        """A handler that has interrupted malloc or free may find locks held: then nothing is written."""
        written = 0
        for n in range(40):
            program = Program(self.conf())
            program.does('loop')
            time.sleep(n / 4000)
            program.process.send_signal(signal.SIGUSR1)
            status, errors = program.end(None)
            self.assertEqual(status, 3)
            written += not errors
            self.assertIn(errors, ('', 'salloc: exit inside of malloc: no profile and no stats page are written\n'))
            self.assertEqual(len(self.left()), 2 * written)

    def test_child_of_fork(self):
        script = ('import os, signal, sys\nif os.fork() == 0: os.kill(os.getpid(), signal.SIGTERM)\n'
                  'sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\n')
        done = subprocess.run([sys.executable, *UNWARNED, '-c', script], env=environment(self.conf(',exit_signals:on')),
                              check=False, timeout=PATIENCE, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (256 - signal.SIGTERM, ''))
        self.assertEqual(len(self.left()), 4)

    def test_without_a_path(self):
        program = Program('exit_signals:on')
        program.process.send_signal(signal.SIGTERM)
        self.assertEqual(program.end(None), (-signal.SIGTERM, 'salloc: SALLOC_CONF: exit_signals without stats or '
                                                              'profile: nothing is written\n'))


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0]], verbosity=1)
