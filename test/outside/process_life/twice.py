#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two copies of the library in one process: one in the program, one preloaded, which serves nobody. Reports are those of
the first, and what is wrong is told once.

usage: twice.py LIBRARY PROGRAM [VARIABLE=VALUE...]    (PROGRAM: twice.c)
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

LIBRARY, PROGRAM = map(os.path.abspath, sys.argv[1:3])
MORE = dict(word.split('=', 1) for word in sys.argv[3:])


def run(conf, preload=LIBRARY):
    conf = ','.join(c for c in (MORE.get('SALLOC_CONF'), conf) if c)
    done = subprocess.run([PROGRAM, '20'], env={**os.environ, **MORE, 'LD_PRELOAD': preload, 'SALLOC_CONF': conf},
                          capture_output=True, text=True, check=False)
    done.stderr = re.sub(r'(?m)^profiling:.*\n', '', done.stderr)  # of counters, in a build for coverage
    return done


class Twice(unittest.TestCase):
    def test_reports_are_of_the_copy_that_serves(self):
        with tempfile.TemporaryDirectory() as folder:
            for preload in (LIBRARY, ''):
                page, profile = os.path.join(folder, 'page'), os.path.join(folder, 'a.txt')
                done = run(f'stats:{page},profile:{profile},sample_interval:1', preload)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (5, 'out\n', ''))
                with open(page, encoding='ascii') as file:
                    in_use = int(re.search(r'(\d+) .* Bytes in use by application', file.read()).group(1))
                with open(profile, encoding='ascii') as file:
                    sampled = int(re.search(r'^(\d+) bytes', file.read(), re.M).group(1))
                for value in (in_use, sampled):
                    self.assertGreater(value, 20 << 20)
                    self.assertLess(value, 25 << 20)

    def test_everything_is_said_once(self):
        for conf, lines in (('nonsense:1', 1), ('stats:/nonexistent/page', 1), ('profile:/nonexistent/a.txt', 1),
                            ('profile:a.xyz', 1), ('profile_signal:USR2', 1), ('stats:stderr', 30)):
            done = run(conf)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count('\n')), (5, 'out\n', lines), done.stderr)
        self.assertEqual(run('help').stderr, run('help', '').stderr)


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0]], verbosity=1)
