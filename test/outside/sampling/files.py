#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of profiles from outside: what cannot be written says why, is not there at all, and does the program no
harm; what is killed leaves nothing half done; links are replaced, not followed; options that are not
understood are one line on stderr.

usage: files.py LIBRARY PROGRAM [VARIABLE=VALUE...]    (PROGRAM: writer.c)
"""
import errno
import glob
import gzip
import os
import random
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

LIBRARY = os.path.abspath(sys.argv[1])
PROGRAM = os.path.abspath(sys.argv[2])
MORE = dict(word.split('=', 1) for word in sys.argv[3:])
ENDINGS = ['pb.gz', 'pb', 'heap', 'jeprof', 'collapsed', 'folded', 'txt']
KILLS = 150


def environment(conf):
    """Of a run under the library."""
    conf = ','.join(c for c in (MORE.get('SALLOC_CONF'), conf) if c)
    return {**os.environ, **MORE, 'LD_PRELOAD': LIBRARY, 'SALLOC_CONF': conf}


# In a build for coverage, the counters of a process that must not write files.
UNCOUNTED = {'GCOV_PREFIX': '/dev/null'}


def run(*words, conf='sample_interval:1', variables=None, **more):
    """Runs the program; the completed process."""
    try:
        done = subprocess.run([PROGRAM, *words], env={**environment(conf), **(variables or {})}, capture_output=True,
                              text=True, check=False, timeout=60, **more)
    except PermissionError as error:  # the build lies below a private folder, such as /root
        raise unittest.SkipTest('another user may not run %s' % PROGRAM) from error
    done.stderr = re.sub(r'(?m)^profiling:.*\n', '', done.stderr)  # of counters, see above
    return done


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix='salloc-files-')
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def left(self):
        return sorted(os.listdir(self.folder))

    def errors(self, *paths, **more):
        """What writing to each path gave; the program must end well, and say nothing."""
        done = run('write', *paths, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        return [int(line) for line in done.stdout.split()]

    def test_formats(self):
        done = self.errors(*(self.path('a.' + e) for e in ENDINGS), umask=0)
        self.assertEqual(done, [0] * len(ENDINGS))
        self.assertEqual(self.left(), sorted('a.' + e for e in ENDINGS))
        for name in self.left():
            self.assertEqual(stat.S_IMODE(os.stat(self.path(name)).st_mode), 0o600)
            self.assertGreater(os.path.getsize(self.path(name)), 40)

    def test_names(self):
        self.assertEqual(self.errors(*[self.path('%e.%n%%.heap')] * 3), [0, 0, 0])
        name = os.path.basename(PROGRAM)
        self.assertEqual(self.left(), [f'{name}.{n}%.heap' for n in (1, 2, 3)])

    def test_refused(self):
        os.mkdir(self.path('folder.heap'))
        os.mkfifo(self.path('fifo.heap'))
        before = self.left()
        for path, error in {
                '': errno.EINVAL, 'a': errno.EINVAL, 'heap': errno.EINVAL, self.path('a.Heap'): errno.EINVAL,
                self.path('a.heap/'): errno.EINVAL, self.path('%q.heap'): errno.EINVAL,
                self.path('a%.heap'): errno.EINVAL, self.path('%'): errno.EINVAL,
                self.path('%s%s%s%n.txt'): errno.EINVAL, self.path('none/a.heap'): errno.ENOENT,
                self.path('fifo.heap/a.txt'): errno.ENOTDIR, self.path('folder.heap'): errno.EISDIR,
                self.path('fifo.heap'): errno.ENXIO, self.path('x' * 300 + '.txt'): errno.ENAMETOOLONG,
                self.path('y/' * 2500 + '.txt'): errno.ENAMETOOLONG, self.path('%e' * 2000 + '.txt'):
                errno.ENAMETOOLONG, '/dev/null/a.txt': errno.ENOTDIR}.items():
            self.assertEqual(self.errors(path), [error], path[-40:])
        self.assertNotEqual(self.errors('/proc/a.heap', '/proc/self/a.txt'), [0, 0])
        self.assertEqual(self.left(), before)

    @unittest.skipIf(os.geteuid() != 0, 'needs root to run as another user')
    def test_not_allowed(self):
        os.chmod(self.folder, 0o755)
        self.assertEqual(self.errors(self.path('a.heap'), user=65534, variables=UNCOUNTED), [errno.EACCES])
        self.assertEqual(self.left(), [])

    def test_limit_of_size(self):
        """SIGXFSZ would end the program."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        paths = [self.path('a.' + e) for e in ENDINGS if 'ed' not in e]
        self.assertEqual(self.errors(*paths, preexec_fn=limit, variables=UNCOUNTED), [errno.EFBIG] * len(paths))
        self.assertEqual(self.left(), [])

    def test_full_disk(self):
        script = (f'mount -t tmpfs -o size=4k none {self.folder} && dd if=/dev/zero of={self.folder}/fill '
                  f'bs=4k count=1 2>/dev/null && "$@"; status=$?; ls -A {self.folder} >&2; exit $status')
        if subprocess.run(['unshare', '-m', 'sh', '-c', script, 'sh', 'true'], check=False,
                          capture_output=True).returncode:
            self.skipTest('cannot mount a small file system')
        paths = [self.path('a.' + e) for e in ENDINGS]
        done = subprocess.run(['unshare', '-m', 'sh', '-c', script, 'sh', 'env', 'LD_PRELOAD=' + LIBRARY,
                               'SALLOC_CONF=sample_interval:1', PROGRAM, 'write', *paths], check=False,
                              capture_output=True, text=True)
        self.assertEqual(done.stdout.split(), [str(errno.ENOSPC)] * len(paths))
        self.assertEqual((done.returncode, done.stderr.split()), (0, ['fill']))

    def test_links(self):
        """Links to files, to folders and to nothing stay. A file is replaced where it is, and a folder is refused."""
        os.mkdir(self.path('folder'))
        for target in ('victim', 'folder', 'nothing'):
            for ending in ENDINGS:
                link = self.path('a.' + ending)
                os.symlink(self.path(target), link)
                if target == 'victim':
                    with open(self.path('victim'), 'w', encoding='ascii') as file:
                        file.write('old')
                self.assertEqual(self.errors(link), [errno.EISDIR if target == 'folder' else 0])
                self.assertEqual(os.readlink(link), self.path(target))
                if target != 'folder':
                    self.assertGreater(os.path.getsize(link), 40)
                    os.unlink(self.path(target))
                os.unlink(link)
        self.assertEqual(self.left(), ['folder'])
        self.assertEqual(os.listdir(self.path('folder')), [])

    @unittest.skipIf(os.geteuid() != 0, 'needs root to make a link of another user')
    def test_link_of_another(self):
        """Who may make links must not choose what is replaced."""
        with open(self.path('victim'), 'w', encoding='ascii') as file:
            file.write('precious')
        for ending in ENDINGS:
            os.symlink(self.path('victim'), self.path('a.' + ending))
            os.lchown(self.path('a.' + ending), 65534, 65534)
            self.assertNotEqual(self.errors(self.path('a.' + ending)), [0])
            os.unlink(self.path('a.' + ending))
        with open(self.path('victim'), encoding='ascii') as file:
            self.assertEqual(file.read(), 'precious')
        self.assertEqual(self.left(), ['victim'])

    def killed(self, pattern):
        """Kills writers at any moment, and says what is left of them."""
        rng = random.Random(4)
        for _ in range(KILLS):
            with subprocess.Popen([PROGRAM, 'loop', self.path(pattern)], stdout=subprocess.PIPE,
                                  env=environment('sample_interval:1')) as process:
                process.stdout.readline()
                time.sleep(rng.random() / 50)
                process.kill()
        for name in glob.glob(self.path('a*.pb.gz')):
            with gzip.open(name) as file:
                self.assertGreater(len(file.read()), 1000)
        return self.left()

    def test_killed(self):
        """Where nothing is replaced nothing is left but complete files."""
        for name in self.killed('a%p.%n.pb.gz'):
            self.assertRegex(name, r'^a\d+\.\d+\.pb\.gz$')

    def test_killed_replacing(self):
        """A file that replaces another must have a name of its own for an instant."""
        left = [name for name in self.killed('a.pb.gz') if name != 'a.pb.gz']
        self.assertLess(len(left), KILLS / 10)
        for name in left:
            self.assertRegex(name, r'^\.salloc\.\d+\.\d+\.tmp$')
            with gzip.open(self.path(name)) as file:
                self.assertGreater(len(file.read()), 1000)


class Options(Files):
    """SALLOC_CONF."""

    def one_line(self, conf, *words):
        done = run('exit', '5', conf=conf)
        self.assertEqual((done.returncode, done.stdout), (5, ''))
        self.assertEqual(done.stderr.count('\n'), 1, (conf, done.stderr))
        self.assertTrue(done.stderr.startswith('salloc: '), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_descriptors(self):
        """The table on stderr, of which it gets the first lines; other formats by the ending."""
        done = run('exit', '5', conf='sample_interval:1,profile:stderr')
        self.assertEqual((done.returncode, done.stdout), (5, ''))
        self.assertRegex(done.stderr, '^salloc .*\nheap profile')
        done = subprocess.run(['ls', '-l', '/'], check=True, text=True, env=environment('sample_interval:1,profile:stderr'),
                              capture_output=True)  # has more stacks, and closes stderr
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 30)
        self.assertRegex(lines[1], '^heap profile')
        self.assertRegex(lines[-1], '^salloc: [0-9]+ lines more')
        for name, beginning in (('stdout', 'salloc'), ('fd:1.heap', 'heap profile:')):
            done = run('exit', '5', conf='sample_interval:1,profile:' + name)
            self.assertTrue(done.stdout.startswith(beginning), done.stdout[:80])
            self.assertEqual((done.returncode, done.stderr), (5, ''))
        done = subprocess.run([PROGRAM, 'write', '/proc/self/fd/1', 'fd:77', 'fd:1.pb'], check=True, text=True,
                              env=environment('sample_interval:1'), capture_output=True, errors='replace')
        self.assertTrue(done.stdout.startswith('salloc'))
        self.assertIn(f'\n0\n{errno.EBADF}\n', done.stdout)

    def test_not_understood(self):
        path = self.path('a.heap')
        for conf, word in (('profile:', 'profile'), ('profile:a.xyz', 'a.xyz'), ('profile:%z.heap', '%z'),
                           (f'profile:{path}%.heap', 'profile'), ('profile:' + 'x' * 9000 + '.heap', 'xxx'),
                           (f'profile:{path},profile_type:heaps', 'heaps'),
                           (f'profile:{path},profile_type:', 'profile_type'),
                           (f'profile:{path},profile_signal:USR9', 'USR9'),
                           (f'profile:{path},profile_signal:', 'profile_signal'),
                           (f'profile:{path},profile_signal:KILL', 'KILL'),
                           (f'profile:{path},profile_signal:9', '9'),
                           (f'profile:{path},profile_signal:0', '0'),
                           (f'profile:{path},profile_signal:11', '11'),
                           (f'profile:{path},profile_signal:-1', '-1'),
                           (f'profile:{path},profile_signal:1000', '1000'),
                           (f'profile:{path},profile_signal:32', '32'),
                           ('profile_signal:USR2', 'profile_signal'), ('sample_interval:-1', 'sample_interval'),
                           ('sample_interval:x', 'sample_interval'),
                           ('profile:/nonexistent/a.heap', '/nonexistent'),
                           (f'profile:{self.folder}/none/a.pb.gz', 'none')):
            self.one_line(conf, word)

    def test_at_exit(self):
        for kind in ('heap', 'peak', 'fragmentation', 'allocation', 'lifetime'):
            for interval in ('1', '512k', '0'):
                done = run('exit', '3', conf=f'profile:{self.path("%e")}.{kind}.{interval}.pb.gz,'
                           f'profile_type:{kind},sample_interval:{interval}')
                self.assertEqual((done.returncode, done.stdout, done.stderr), (3, '', ''))
                with gzip.open(self.path(f'sampling_writer.{kind}.{interval}.pb.gz')) as file:
                    self.assertGreater(len(file.read()), 100)
        self.assertEqual(len(self.left()), 15)

    def test_signal(self):
        """Many signals, of which some come together; a last file at the end."""
        with subprocess.Popen([PROGRAM, 'wait', '1'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=environment(f'profile:{self.path("s.%n")}.txt,profile_signal:SIGUSR1'),
                              text=True) as process:
            self.assertEqual(process.stdout.readline(), 'ready\n')
            for n in range(50):
                process.send_signal(signal.SIGUSR1)
                time.sleep(0 if n % 2 else 0.01)
            self.assertEqual(process.stdout.read(), 'done\n')
        self.assertEqual(process.returncode, 0)
        count = len(self.left())
        self.assertGreaterEqual(count, 10)
        self.assertEqual(self.left(), sorted(f's.{n + 1}.txt' for n in range(count)))

    @staticmethod
    def has_thread(pid, name):
        """Whether there is a thread of the name, which it gives itself once it runs."""
        end = time.monotonic() + 20
        while time.monotonic() < end:
            for task in os.listdir(f'/proc/{pid}/task'):
                with open(f'/proc/{pid}/task/{task}/comm', encoding='ascii') as file:
                    if file.read() == name + '\n':
                        return True
            time.sleep(0.01)
        return False

    def test_signal_that_is_blocked(self):
        """Programs that wait for signals with sigwait block them in all threads: the library's own takes this one, and
        no call of the program's ends."""
        for name, number in (('USR1', signal.SIGUSR1), ('SIGHUP', signal.SIGHUP), ('RTMIN+3', signal.SIGRTMIN + 3),
                             ('SIGRTMAX-1', signal.SIGRTMAX - 1), ('17', 17)):
            with subprocess.Popen([PROGRAM, 'blocked', '2'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  env=environment(f'profile:{self.path(name)}.%n.txt,profile_signal:{name}'),
                                  text=True) as process:
                self.assertEqual(process.stdout.readline(), 'ready\n')
                self.assertTrue(self.has_thread(process.pid, 'salloc-output'))
                process.send_signal(number)
                self.assertEqual(process.stdout.read(), 'done\n')
            self.assertEqual(process.returncode, 0)
            self.assertEqual(len([n for n in self.left() if n.startswith(name + '.')]), 2, name)

    def test_signal_without_profile(self):
        """A mistake in the options does not make the signal deadly."""
        for conf, more in (('', 'without profile'), (',profile:a.xyz', 'ending')):
            with subprocess.Popen([PROGRAM, 'wait', '0.3'], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env=environment('profile_signal:USR1' + conf), text=True) as process:
                self.assertEqual(process.stdout.readline(), 'ready\n')
                process.send_signal(signal.SIGUSR1)
                self.assertEqual(process.stdout.read(), 'done\n')
                self.assertIn(more, process.stderr.read())
            self.assertEqual(process.returncode, 0)

    def test_programs_started(self):
        """Each program has its file, those started by exec in the middle too."""
        conf = f'profile:{self.path("%e.%p")}.heap,profile_type:lifetime,sample_interval:1'
        done = subprocess.run(['/bin/sh', '-c', '/bin/ls / >&2; exec /bin/sort /dev/null'], check=False,
                              env=environment(conf), capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, ''))
        names = [name.split('.')[0] for name in self.left()]
        self.assertIn('ls', names)
        self.assertIn('sort', names)

    def test_little_memory(self):
        """With less address space than sampling wants the program works as without."""
        for mib in (60, 80, 120, 200, 400):
            def limit(bytes_=mib << 20):
                resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_))
            program = ['/bin/sh', '-c', 'for i in 1 2 3; do ls -lR /etc 2>/dev/null | sort | tail -5; done']
            plain = subprocess.run(program, check=False, capture_output=True, preexec_fn=limit)
            done = subprocess.run(program, check=False, capture_output=True, preexec_fn=limit,
                                  env=environment('sample_interval:1'))
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, plain.stdout, plain.stderr))

    @unittest.skipUnless(os.geteuid() == 0, 'needs root to make a setuid program')
    def test_setuid(self):
        """The variable means nothing to programs that run with another's rights."""
        if os.statvfs(self.folder).f_flag & os.ST_NOSUID:
            self.skipTest('setuid has no effect here')
        copy = self.path('program')
        shutil.copy(PROGRAM, copy)
        os.chmod(copy, 0o4755)
        os.chmod(self.folder, 0o777)
        for user, expected in ((0, True), (65534, False)):
            path = self.path(f'profile-{user}.heap')
            subprocess.run([copy, 'exit', '0'], env={'SALLOC_CONF': 'profile:' + path}, check=True, user=user)
            self.assertEqual(os.path.exists(path), expected)


# The tests of files are Files' only.
for _name in [n for n in vars(Files) if n.startswith('test_')]:
    setattr(Options, _name, None)

if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0]], verbosity=1)
