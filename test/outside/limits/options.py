#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Limits by option: what is understood, and that anything else is one line on stderr and no limit.

usage: options.py LIBRARY PROGRAM    (PROGRAM: options.c)
"""
import os
import subprocess
import sys
import unittest

LIBRARY = os.path.abspath(sys.argv[1])
PROGRAM = os.path.abspath(sys.argv[2])


def limits(options):
    """((soft, hard), stderr) under an option string."""
    environment = dict(os.environ, LD_PRELOAD=LIBRARY, SALLOC_CONF=options)
    done = subprocess.run([PROGRAM], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                          text=True, check=True)
    return tuple(int(word) for word in done.stdout.split()), done.stderr


class Options(unittest.TestCase):
    def test_limits(self):
        self.assertEqual(limits(''), ((0, 0), ''))
        self.assertEqual(limits('soft_limit:100m'), ((100 << 20, 0), ''))
        self.assertEqual(limits('hard_limit:3g'), ((0, 3 << 30), ''))
        self.assertEqual(limits('soft_limit:0,hard_limit:0'), ((0, 0), ''))
        self.assertEqual(limits('hard_limit:64m,soft_limit:4g'), ((4 << 30, 64 << 20), ''))

    def test_cgroup(self):
        """What the limits are depends on where this runs; a limit that is named takes precedence."""
        for text in ('limit_from_cgroup:on', 'limit_from_cgroup:50', 'limit_from_cgroup:100%'):
            found, stderr = limits(text)
            self.assertEqual(stderr, '')
            self.assertLessEqual(found[0], found[1] or 1 << 62)
        self.assertEqual(limits('limit_from_cgroup:off'), ((0, 0), ''))
        self.assertEqual(limits('soft_limit:1g,limit_from_cgroup:on,hard_limit:2g'), ((1 << 30, 2 << 30), ''))

    def test_what_is_not_understood_sets_none(self):
        for text in ('soft_limit:-1', 'soft_limit:max', 'soft_limit:', 'soft_limit:99999999999999999999',
                     'soft_limit:10000000000g', 'hard_limit:1.5g', 'hard_limit:50%', 'limit_from_cgroup:1', 'limit_from_cgroup:101', 'limit_from_cgroup:x',
                     'limit_from_cgroup:%'):
            with self.subTest(text):
                found, stderr = limits(text)
                self.assertEqual(found, (0, 0))
                self.assertRegex(stderr, r'^salloc: SALLOC_CONF: .*\n$')
                self.assertEqual(stderr.count('\n'), 1)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
