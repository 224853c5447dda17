#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that end in .prom are what node_exporter's textfile collector reads: the text format of Prometheus 0.0.4, readable for
a user of its own, and no sample that two files have. Debian's prometheus-node-exporter shows every metric of two files with
its type, and "promtool check metrics" finds nothing; each is left out, and said so, where it is not installed.

usage: collector.py LIBRARY PROGRAM    (PROGRAM: everything.c)
"""
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import unittest
import urllib.request

LIBRARY = os.path.abspath(sys.argv[1])
PROGRAM = os.path.abspath(sys.argv[2])
EXPORTER = shutil.which('prometheus-node-exporter')
PROMTOOL = shutil.which('promtool')


def parse(test, text):
    """The families of a text, by the rules of the format: {name: type}, {(name, labels): value}."""
    test.assertTrue(text.endswith('\n'))
    types, samples, current, told = {}, {}, None, set()
    for line in text.splitlines():
        comment = re.fullmatch(r'# (HELP|TYPE) ([a-zA-Z_:][\w:]*) (.+)', line)
        if comment:
            word, name, value = comment.groups()
            test.assertNotIn((word, name), told, line)
            told.add((word, name))
            if word == 'TYPE':
                test.assertIn(value, ('counter', 'gauge'), line)
                types[name] = value
            current = name
            continue
        sample = re.fullmatch(r'([a-zA-Z_:][\w:]*)\{((?:[a-zA-Z_]\w*="[^"\\\n]*",?)+)\} (\d+(?:\.\d+)?)', line)
        test.assertTrue(sample, line)
        test.assertEqual(sample.group(1), current)
        labels = frozenset(re.findall(r'(\w+)="([^"]*)"', sample.group(2)))
        test.assertNotIn((current, labels), samples, line)
        samples[current, labels] = float(sample.group(3))
    for name, kind in types.items():
        test.assertIn(('HELP', name), told)
        test.assertEqual(name.endswith('_total'), kind == 'counter', name)
    return types, samples


def exported(folder):
    """What node_exporter says of a folder. It gets a socket that listens already, so no port can be taken."""
    with socket.socket() as listener:
        listener.bind(('127.0.0.1', 0))
        listener.listen(5)
        command = ('exec 3<&%d; LISTEN_PID=$$ LISTEN_FDS=1 exec %s --web.systemd-socket --collector.disable-defaults '
                   '--collector.textfile --collector.textfile.directory=%s' % (listener.fileno(), EXPORTER, folder))
        with subprocess.Popen(['sh', '-c', command], pass_fds=[listener.fileno()], stderr=subprocess.DEVNULL) as process:
            try:
                url = 'http://127.0.0.1:%d/metrics' % listener.getsockname()[1]
                with urllib.request.urlopen(url, timeout=60) as answer:
                    return answer.read().decode()
            finally:
                process.terminate()


class Collector(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix='salloc-collector-')
        cls.out = os.path.join(cls.folder, 'out')
        cls.prom = os.path.join(cls.folder, 'prom')
        os.mkdir(cls.out)
        os.mkdir(cls.prom)
        os.umask(0o022)
        conf = 'sample_interval:64k,stats:%s/%%e"%%p.prom' % cls.prom
        for command in ([PROGRAM, cls.out], ['/bin/true']):
            subprocess.run(command, env=dict(os.environ, LD_PRELOAD=LIBRARY, SALLOC_CONF=conf), timeout=60, check=True)
        cls.paths = [os.path.join(cls.prom, name) for name in sorted(os.listdir(cls.prom))]
        cls.texts = [cls.read(path) for path in cls.paths]

    @staticmethod
    def read(path):
        with open(path, encoding='ascii') as f:
            return f.read()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_mode_is_for_all_to_read_less_the_umask(self):
        for path in self.paths:
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o644, path)

    def test_files_follow_the_format_and_share_no_sample(self):
        self.assertEqual(len(self.texts), 2)
        types, samples = zip(*(parse(self, text) for text in self.texts))
        self.assertGreater(len(samples[0]), 500)
        self.assertEqual(types[0], types[1])
        self.assertFalse(set(samples[0]) & set(samples[1]))
        for path, of in zip(self.paths, samples):
            for _, labels in of:
                self.assertEqual(dict(labels)['file'], os.path.basename(path).replace('"', '_'))

    @unittest.skipUnless(PROMTOOL, 'promtool is not installed')
    def test_promtool_finds_nothing(self):
        for text in self.texts:
            done = subprocess.run([PROMTOOL, 'check', 'metrics'], input=text, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, '', ''))

    @unittest.skipUnless(EXPORTER, 'prometheus-node-exporter is not installed')
    def test_node_exporter_shows_every_metric_with_its_type(self):
        answer = exported(self.prom)
        self.assertRegex(answer, r'(?m)^node_textfile_scrape_error 0$')
        types = dict(re.findall(r'^# TYPE (\S+) (\S+)$', answer, re.M))
        shown = {}
        for name, labels, value in re.findall(r'^(salloc_\w+)\{(.*)\} (\S+)$', answer, re.M):
            shown[name, frozenset(re.findall(r'(\w+)="([^"]*)"', labels))] = float(value)
        wanted = {}
        for text in self.texts:
            of, samples = parse(self, text)
            wanted.update(samples)
            for name, kind in of.items():
                if any(sample == name for sample, _ in samples):
                    self.assertEqual(types.get(name), kind, name)
        # It fills in labels that only some samples of a family have: none have.
        self.assertEqual(shown, wanted)
        print('node_exporter shows %d samples of %d metrics' % (len(shown), len({name for name, _ in shown})))


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1], verbosity=2)
