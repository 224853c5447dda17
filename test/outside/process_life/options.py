#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SALLOC_CONF from outside: what is not understood is one line on stderr; the stats file is written at
exit, for its owner alone, and links and what is no file stay what they are; what cannot be written is one line on
stderr; the program's own output and exit status never change; setuid programs ignore it.

usage: options.py LIBRARY PROGRAM [VARIABLE=VALUE...]    (PROGRAM: linked.c)
"""
import fcntl
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import unittest

LIBRARY = os.path.abspath(sys.argv[1])
PROGRAM = os.path.abspath(sys.argv[2])
OPTIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../../alloc/api/options/options.def')
with open(LIBRARY, 'rb') as library:
    COUNTED = b'__gcov_dump' in library.read()  # a build for coverage, whose counting crashes without memory
MORE = dict(word.split('=', 1) for word in sys.argv[3:])


def run(conf, status='5', word='out', **more):
    """Runs the program under the library with SALLOC_CONF; the completed process."""
    environment = dict(os.environ, LD_PRELOAD=LIBRARY, **MORE)
    environment.pop('SALLOC_CONF', None)
    if conf is not None:
        environment['SALLOC_CONF'] = conf
    try:
        done = subprocess.run([PROGRAM, status, word], env=environment, capture_output=True, text=True, check=False,
                              timeout=30, **more)
    except PermissionError as error:  # the build lies below a private folder, such as /root
        raise unittest.SkipTest('another user may not run %s' % PROGRAM) from error
    done.stderr = re.sub(r'(?m)^profiling:.*\n', '', done.stderr)  # of counters, in a build for coverage
    return done


class Options(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix='salloc-options-')
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def unchanged(self, done, status=5):
        self.assertEqual(done.stdout, 'out\n')
        self.assertEqual(done.returncode, status)

    def one_line(self, done, *words):
        self.assertEqual(done.stderr.count('\n'), 1, done.stderr)
        self.assertTrue(done.stderr.startswith('salloc: '), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_silent(self):
        for conf in (None, '', 'per_cpu:off', 'cpu_cache:64k,per_cpu:on', 'deepbind:on'):
            done = run(conf)
            self.unchanged(done)
            self.assertEqual(done.stderr, '', conf)

    def test_not_understood(self):
        for conf, word in (('nonsense:1', 'nonsense'), ('per_cpu:perhaps', 'per_cpu'),
                           ('cpu_cache:-1', 'cpu_cache'), ('cpu_cache:99999999999999999999', 'cpu_cache'),
                           ('justaword', 'justaword'), (':', ':'), ('hardenning:on', 'did you mean hardening?'),
                           ('cpu_cache:9223372036854775808', 'from 0 to 1g'), ('guarded_slots:16385', 'from 0 to 16k'),
                           ('\x1b[31m:1', '31m'), ('x' * 5000 + ':1', 'xxx')):
            done = run(conf)
            self.unchanged(done)
            self.one_line(done, word)
            self.assertNotIn('\x1b', done.stderr)

    def test_every_bad_item_is_told(self):
        """Also one that comes twice, and a key whose value another replaces; no more than so many, and their number."""
        done = run('a:b,cpu_cache:1t,a:b,per_cpu:on,junk:on,junk:off')
        self.unchanged(done)
        self.assertEqual([line.split(';')[0] for line in done.stderr.splitlines()],
                         ['salloc: SALLOC_CONF: unknown key: a:b',
                          'salloc: SALLOC_CONF: value not understood: cpu_cache:1t',
                          'salloc: SALLOC_CONF: unknown key: a:b',
                          'salloc: SALLOC_CONF: key given again: junk:off'])
        done = run(','.join(f'x{i}:y' for i in range(100)))
        self.unchanged(done)
        lines = done.stderr.splitlines()
        self.assertEqual((len(lines), lines[-1]), (9, 'salloc: SALLOC_CONF: 92 more are not right'))

    def test_help(self):
        with open(OPTIONS, encoding='ascii') as file:
            keys = re.findall(r'^SA_OPTION\((\w+), (\w+)', file.read(), re.M)
        done = run('help')
        self.unchanged(done)
        self.assertEqual(re.findall(r'^salloc: (\w+): .* \(.*; default \w+\)$', done.stderr, re.M), [k for k, _ in keys])

    def effective(self, conf):
        """The options that are in effect, as the page and as JSON show them."""
        pages = []
        for ending in ('.txt', '.json'):
            self.unchanged(run(f'{conf},stats:{self.path("page" + ending)}'))
            with open(self.path('page' + ending), encoding='ascii') as file:
                pages.append(file.read())
        text = dict(re.findall(r'^PARAMETER salloc_(\w+) (.*)$', pages[0], re.M))
        self.assertEqual(list(text), list(json.loads(pages[1])['options']))
        return text, json.loads(pages[1])['options']

    def test_effective_options(self):
        text, values = self.effective('hardening:on,cpu_cache:1m,soft_limit:3g,skip_subrelease_interval:60,hugepages:off')
        self.assertEqual((text['hardening'], values['hardening']), ('on', 'on'))
        self.assertEqual((text['cpu_cache'], values['cpu_cache']), ('1m', 1 << 20))
        self.assertEqual((text['soft_limit'], values['soft_limit']), ('3g', 3 << 30))
        self.assertEqual((text['skip_subrelease_interval'], values['skip_subrelease_interval']), ('0', 0))  # no effect
        self.assertEqual((text['hugepages'], values['hugepages']), ('off', 'off'))
        self.assertEqual((text['quarantine'], values['quarantine']), ('8m', 8 << 20))
        self.assertEqual((text['profile'], values['profile']), ('none', ''))
        self.assertEqual(text['stats'], self.path('page.txt'))
        # A mistyped one has no effect, and that can be seen.
        self.assertEqual(self.effective('hardenning:on')[0]['hardening'], self.effective('per_cpu:on')[0]['hardening'])

    def test_levels_leave_what_is_given(self):
        """A level of hardening changes the defaults of others, but not what the string gives, the default itself included."""
        for level, key, default in (('on', 'guarded_slots', '128'), ('on', 'guarded_sample', '50'),
                                    ('sampled', 'guarded_sample', '50')):
            text, _ = self.effective(f'hardening:{level},{key}:{default}')
            self.assertEqual(text[key], default)
            text, _ = self.effective(f'hardening:{level}')
            self.assertNotEqual(text[key], default)

    def test_bounds_are_those_of_the_functions(self):
        """Of every option that can also be set at run time, values at the bounds and beyond: both take them, or neither. 0 is
        left out for limits: for an option it is no limit, and the function refuses it."""
        for key, name, least in (('cpu_cache', 'max_per_cpu_cache_size', 0),
                                 ('skip_subrelease_interval', 'skip_subrelease_interval', 0),
                                 ('skip_subrelease_short_interval', 'skip_subrelease_short_interval', 0),
                                 ('skip_subrelease_long_interval', 'skip_subrelease_long_interval', 0),
                                 ('soft_limit', 'desired_usage_limit_bytes', 1 << 30),
                                 ('hard_limit', 'hard_usage_limit_bytes', 1 << 30),
                                 ('release_rate', 'background_release_rate', 0)):
            taken = []
            for value in (least, 1 << 31, 300, 301, 1 << 30, (1 << 30) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 2):
                if value < least:
                    continue
                by_option = run(f'{key}:{value}')
                done = run(None, word=f'tcmalloc.{name}={value}')
                failed, now = map(int, done.stdout.split())
                with self.subTest(key=key, value=value):
                    self.assertEqual(by_option.stderr == '', failed == 0, by_option.stderr)
                    if not failed:
                        self.assertEqual(now, 0 if key.startswith('skip_') else value)  # those have no effect
                    self.unchanged(by_option)
                taken.append(failed == 0)
            self.assertIn(True, taken)
            self.assertIn(False, taken)

    def test_ending_picks_the_format(self):
        for ending, check in (('json', lambda text: self.assertEqual(json.loads(text)['schema_version'], 1)),
                              ('openmetrics', lambda text: self.assertTrue(text.endswith('\n# EOF\n'))),
                              ('prom', lambda text: self.assertTrue(text.startswith('# TYPE '))),
                              ('txt', lambda text: self.assertTrue(text.startswith('See salloc/doc/stats.md')))):
            self.unchanged(run('stats:' + self.path('%e.' + ending)))
            name = os.path.basename(PROGRAM) + '.' + ending
            with open(self.path(name), encoding='ascii') as report:
                check(report.read())

    def test_others_still_apply(self):
        path = self.path('page')
        done = run('nonsense:1,stats:' + path)
        self.one_line(done, 'nonsense')
        self.assertTrue(os.path.exists(path))

    def test_stats(self):
        done = run('stats:' + self.path('page'), umask=0)
        self.unchanged(done)
        self.assertEqual(done.stderr, '')
        self.assertEqual(stat.S_IMODE(os.stat(self.path('page')).st_mode), 0o600)
        self.assertGreater(os.path.getsize(self.path('page')), 500)
        self.assertEqual(os.listdir(self.folder), ['page'])

    def test_profile_is_the_owners(self):
        done = run('profile:' + self.path('profile.txt'), umask=0)
        self.unchanged(done)
        self.assertEqual(stat.S_IMODE(os.stat(self.path('profile.txt')).st_mode), 0o600)

    def test_absurd_values(self):
        """Every key with every value that makes no sense, or too much: the program does what it does otherwise, and hears
        one line at most. A limit of a few bytes leaves it without memory, which it may say in its own way."""
        with open(OPTIONS, encoding='ascii') as file:
            keys = re.findall(r'^SA_OPTION\((\w+), (\w+)', file.read(), re.M)
        self.assertGreater(len(keys), 15)
        values = ['0', '1', '18446744073709551615', '18446744073709551616', '-1', '9223372036854775808', '16777215t',
                  '99999999g', '', ' ', '%', b'\xff\xfe\x80', '\x1b[31m', '\t\n', 'x' * 3000, '1' * 3000, 'on', 'off', ':::']
        for key, kind in keys:
            for value in values:
                text = key.encode() + b':' + (value if isinstance(value, bytes) else value.encode())
                environment = {b'LD_PRELOAD': LIBRARY.encode(), b'SALLOC_CONF': text}
                done = subprocess.run([PROGRAM, '5', 'out'], env=environment, capture_output=True, check=False,
                                      timeout=60, cwd=self.folder)
                with self.subTest(key=key, value=value):
                    self.assertLessEqual(done.stderr.count(b'\n'), 1, done.stderr)
                    self.assertTrue(not done.stderr or done.stderr.startswith(b'salloc: '), done.stderr)
                    self.assertNotRegex(done.stderr, rb'[\x00-\x09\x0b-\x1f\x7f]')
                    if 'limit' in key and kind == 'size':
                        self.assertTrue(done.returncode >= 0 or COUNTED, done.returncode)
                    else:
                        self.assertEqual((done.returncode, done.stdout), (5, b'out\n'))

    def test_process_number(self):
        done = run('stats:' + self.path('page.%p'), word='pid')
        self.assertEqual(done.returncode, 5)
        self.assertIn('page.' + done.stdout.strip(), os.listdir(self.folder))

    def test_symbolic_link(self):
        """A link to a file stays, and the file is replaced. One where the temporary file would be leads nowhere."""
        with open(self.path('before'), 'w', encoding='ascii') as file:
            file.write('before')
        os.symlink('before', self.path('link'))
        self.unchanged(run('stats:' + self.path('link')))
        self.assertEqual(os.readlink(self.path('link')), 'before')
        with open(self.path('before'), encoding='ascii') as file:
            self.assertGreater(len(file.read()), 500)
        with open(self.path('victim'), 'w', encoding='ascii') as file:
            file.write('precious')
        done = run('stats:page', word='links', cwd=self.folder)
        self.unchanged(done)
        self.assertEqual(os.readlink(self.path('page')), 'victim')

    def test_hard_link(self):
        """A hard link in the file's place is replaced; what it was linked to is not written."""
        with open(self.path('victim'), 'w', encoding='ascii') as file:
            file.write('precious')
        os.link(self.path('victim'), self.path('page'))
        self.unchanged(run('stats:' + self.path('page')))
        with open(self.path('victim'), encoding='ascii') as file:
            self.assertEqual(file.read(), 'precious')
        self.assertEqual(os.stat(self.path('victim')).st_nlink, 1)

    def test_pipe(self):
        """A pipe that nobody reads stays, and nobody waits for it."""
        os.mkfifo(self.path('page'))
        done = run('stats:' + self.path('page'))
        self.unchanged(done)
        self.one_line(done, self.path('page'))
        self.assertTrue(stat.S_ISFIFO(os.stat(self.path('page')).st_mode))

    @unittest.skipUnless(os.geteuid() == 0, 'needs root to be two users')
    def test_folder_of_others(self):
        """In a sticky folder, under the name of a file, and of a link, of another user."""
        os.chmod(self.folder, 0o1777)
        with open(self.path('file'), 'w', encoding='ascii') as file:
            file.write('theirs')
        os.symlink('/etc/passwd', self.path('link'))
        for name in ('file', 'link'):
            done = run('stats:' + self.path(name), user=65534)
            self.unchanged(done)
            self.one_line(done, self.path(name))
        with open(self.path('file'), encoding='ascii') as file:
            self.assertEqual(file.read(), 'theirs')
        self.assertEqual(os.readlink(self.path('link')), '/etc/passwd')
        self.assertEqual(sorted(os.listdir(self.folder)), ['file', 'link'])

    def test_replaced(self):
        with open(self.path('page'), 'w', encoding='ascii') as file:
            file.write('old')
        self.unchanged(run('stats:' + self.path('page')))
        with open(self.path('page'), encoding='ascii') as file:
            self.assertGreater(len(file.read()), 500)

    def test_unwritable(self):
        os.mkdir(self.path('directory'))
        for path in ('/nonexistent/page', '/proc/page', self.path('directory'), '/dev/full/page'):
            done = run('stats:' + path)
            self.unchanged(done)
            self.one_line(done, path)
        self.assertEqual(os.listdir(self.folder), ['directory'])

    def test_descriptors(self):
        """stderr gets the first lines of text, others all, in the format that an ending names."""
        for conf in ('stderr', '/dev/stderr', '/proc/self/fd/2', '/dev/fd/2', 'fd:2', 'fd:2.txt'):
            done = run('stats:' + conf, cwd=self.folder)
            self.unchanged(done)
            lines = done.stderr.splitlines()
            self.assertEqual(len(lines), 30, conf)
            self.assertRegex(lines[0], '^See salloc/doc/stats.md')
            self.assertRegex(lines[-1], '^salloc: [0-9]{2,} lines more')
        for conf in ('stdout', '/dev/stdout', 'fd:1'):
            done = run('stats:' + conf, cwd=self.folder)
            self.assertGreater(len(done.stdout.splitlines()), 200)
            self.assertEqual((done.returncode, done.stderr), (5, ''))
        self.assertEqual(json.loads(run('stats:fd:2.json', cwd=self.folder).stderr)['schema_version'], 1)
        self.assertEqual(os.listdir(self.folder), [])

    def test_programs_that_close_their_output(self):
        """The coreutils close stdout and stderr at exit, before handlers that were registered earlier."""
        for name, lines in (('stderr', 30), ('stdout', 200)):
            done = subprocess.run(['ls', self.folder], env={**os.environ, **MORE, 'LD_PRELOAD': LIBRARY,
                                                            'SALLOC_CONF': 'stats:' + name},
                                  check=True, capture_output=True, text=True)
            self.assertGreaterEqual((done.stdout + done.stderr).count('\n'), lines)

    def test_reader_is_gone(self):
        """No SIGPIPE that the program would not have had."""
        ends = os.pipe()
        os.close(ends[0])
        done = run(f'stats:fd:{ends[1]}', pass_fds=[ends[1]], restore_signals=True)
        self.unchanged(done)
        self.one_line(done, 'Broken pipe')
        os.close(ends[1])

    def test_devices_pipes_sockets(self):
        """What is no file gets the page, by its own name and by a link, and stays what it is."""
        os.mkfifo(self.path('pipe'))
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(self.path('socket'))
        listener.listen(2)
        for target in ('/dev/null', 'pipe', 'socket'):
            os.symlink(target, self.path('link'))
            for path in (os.path.join(self.folder, target), self.path('link')):
                reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if target == 'pipe' else -1
                if reader >= 0:
                    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 1 << 20)
                done = run('stats:' + path)
                self.unchanged(done)
                self.assertEqual(done.stderr, '')
                if target == 'socket':
                    reader = listener.accept()[0].detach()
                if reader >= 0:
                    self.assertRegex(os.read(reader, 1000), b'^See salloc/doc/stats.md')
                    os.close(reader)
            self.assertEqual(os.readlink(self.path('link')), target)
            os.unlink(self.path('link'))
        for kind, name in ((stat.S_ISFIFO, 'pipe'), (stat.S_ISSOCK, 'socket'), (stat.S_ISCHR, '/dev/null')):
            self.assertTrue(kind(os.lstat(os.path.join(self.folder, name)).st_mode), name)

    def test_profile_without_ending(self):
        """A device, a pipe and a descriptor have no ending: they get the table."""
        os.mkfifo(self.path('pipe'))
        reader = os.open(self.path('pipe'), os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 1 << 20)
        for path in (self.path('pipe'), '/dev/null'):
            done = run('profile:' + path)
            self.unchanged(done)
            self.assertEqual(done.stderr, '')
        self.assertIn(b' bytes', os.read(reader, 4000))
        os.close(reader)
        self.one_line(run('profile:' + self.path('file')), 'unknown ending')

    def test_links_to_devices(self):
        """A link to a device that is full, to a pipe that nobody reads, or to a descriptor stays."""
        os.mkfifo(self.path('pipe'))
        os.symlink('/dev/full', self.path('second'))
        for number, (target, word) in enumerate((('/dev/full', 'No space'), ('pipe', 'No reader'), ('second', 'No space'),
                                                 ('/proc/self/fd/2', 'lines more'), ('/proc/self/fd/1', ''))):
            link = self.path(f'link{number}')
            os.symlink(target, link)
            for errors in (subprocess.PIPE, 'a file'):  # where stderr leads to a file this is a link to a file
                with open(self.path('errors'), 'w+', encoding='ascii') as file:
                    environment = {**os.environ, **MORE, 'LD_PRELOAD': LIBRARY, 'SALLOC_CONF': 'stats:' + link}
                    done = subprocess.run([PROGRAM, '5', 'out'], env=environment, check=False, text=True,
                                          stdout=subprocess.PIPE, stderr=file if errors == 'a file' else errors)
                    file.seek(0)
                    done.stderr = done.stderr or file.read()
                self.assertTrue('out\n' in done.stdout and done.returncode == 5)
                self.assertIn(word, done.stderr)
                self.assertEqual(('See salloc/doc' in done.stdout, 'See salloc/doc' in done.stderr),
                                 (number == 4, number == 3))
                self.assertEqual(os.readlink(link), target)

    @unittest.skipUnless(os.geteuid() == 0, 'needs root to mount')
    def test_the_links_of_the_machine(self):
        """Root may replace what it likes in /dev; here one of its own, that only this test sees. The links stay, whether
        stderr is a pipe, a file or closed."""
        script = ('mount -t tmpfs none /dev && ln -s /proc/self/fd /dev/fd && ln -s fd/2 /dev/stderr && '
                  'ln -s /proc/self/fd/1 /dev/stdout && ln -s /proc/self/fd/0 /dev/stdin && '
                  'ln -s /dev/stderr /dev/log || exit 77; "$@"; '
                  'for i in fd stderr stdout stdin log; do readlink /dev/$i; done; ls /dev | wc -l')
        for name in ('stderr', 'stdout', 'stdin', 'fd/2', 'log'):
            for how in ('2>&1', '2>%s' % self.path('errors'), '2>&-', '>&- 2>%s' % self.path('errors')):
                done = subprocess.run(['unshare', '-m', 'sh', '-c', script, 'sh', 'sh', '-c', f'exec "$0" 5 out {how}',
                                       PROGRAM], env={**os.environ, **MORE, 'SALLOC_CONF': 'stats:/dev/' + name},
                                      check=False, capture_output=True, text=True)
                if not done.stdout:
                    self.skipTest('cannot mount: ' + done.stderr)
                self.assertEqual(done.stdout.split('\n')[-7:], ['/proc/self/fd', 'fd/2', '/proc/self/fd/1',
                                                                '/proc/self/fd/0', '/dev/stderr', '5', ''], (name, how))

    def test_relative_path(self):
        """Of the folder at the start."""
        os.mkdir(self.path('10%p'))
        os.mkdir(self.path('other'))
        for conf, name in (('stats:page', 'page'), ('profile:a.heap', 'a.heap'), ('stats:./x.%e.json', 'x.linked_program.json')):
            self.unchanged(run(conf, word=self.path('other'), cwd=self.path('10%p')))
            self.assertIn(name, os.listdir(self.path('10%p')))
        self.assertEqual(os.listdir(self.path('other')), [])

    def test_words(self):
        """What cannot be written is told with the program, its number and the reason; once, and at the start."""
        os.mkdir(self.path('folder'))
        for conf, reason in (('stats:/nonexistent/page', 'No such file or directory'),
                             ('profile:/nonexistent/a.heap', 'No such file or directory'),
                             ('stats:/dev/full/page', 'Not a directory'), ('stats:fd:77', 'Not a descriptor'),
                             ('stats:' + self.path('folder'), 'Is a directory')):
            for word in ('pid', 'kill'):
                done = run(conf, word=word)
                self.one_line(done, 'cannot write', reason)
                self.assertRegex(done.stderr, r'^salloc: linked_program\[%s\]: ' % (done.stdout.strip() or r'\d+'))
        self.assertEqual(os.listdir(self.folder), ['folder'])

    @unittest.skipUnless(os.geteuid() == 0, 'needs root to be another user')
    def test_not_allowed(self):
        """Told at the start: the program that is killed later has told it, too."""
        os.chmod(self.folder, 0o755)
        done = run('stats:' + self.path('page'), word='kill', user=65534)
        self.one_line(done, 'Permission denied')

    def test_trying_leaves_nothing(self):
        """A program that writes no page since it is killed leaves nothing, and touches nothing."""
        with open(self.path('page'), 'w', encoding='ascii') as file:
            file.write('old')
        for name in ('page', 'new'):
            done = run('stats:' + self.path(name) + ',profile:' + self.path('a.%n.pb.gz'), word='kill')
            self.assertEqual((done.returncode, done.stderr), (-15, ''))
        self.assertEqual(os.listdir(self.folder), ['page'])
        with open(self.path('page'), encoding='ascii') as file:
            self.assertEqual(file.read(), 'old')

    def test_exit_status(self):
        for status in (0, 1, 77):
            done = run('stats:' + self.path('page'), status=str(status))
            self.unchanged(done, status)
        done = run('stats:/nonexistent/page', word='kill')
        self.assertEqual(done.returncode, -15)

    @unittest.skipUnless(os.geteuid() == 0, 'needs root to make a setuid program')
    def test_setuid(self):
        """A copy of a program that is linked with the library, run by another user. (A preload would
        not do: the loader ignores it for setuid programs.)"""
        if os.statvfs(self.folder).f_flag & os.ST_NOSUID:
            self.skipTest('setuid has no effect here')
        copy = self.path('program')
        shutil.copy(PROGRAM, copy)
        os.chown(copy, 0, 0)
        os.chmod(copy, 0o4755)
        os.chmod(self.folder, 0o777)
        for secure in (False, True):
            page = self.path(f'page-{secure}')
            done = subprocess.run([copy, '0', 'out'], env={'SALLOC_CONF': 'nonsense:1,stats:' + page},
                                  check=False, capture_output=True, text=True, user=65534 if secure else 0)
            self.assertEqual('nonsense' in done.stderr, not secure)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(os.path.exists(page), not secure)
            # Nothing is guarded where reports would tell others what they must not know.
            done = subprocess.run([copy, '0', 'slots'], env={}, check=False, capture_output=True, text=True,
                                  user=65534 if secure else 0)
            self.assertEqual(done.stdout, '0\n' if secure else '72\n')


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0]], verbosity=1)
