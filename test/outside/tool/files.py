#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profile files of a real program, read by sallocctl.

usage: files.py LIBRARY SALLOCCTL WORKER STATIC-WORKER HOSTILE-FILE CASE
The files come from the library's option `profile:`; proto.py, which shares no code with sallocctl, says what is in them.
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from profile import Test  # noqa: E402  # pylint: disable=wrong-import-order


def at_exit(test, name='heap.pb.gz', interval=16384, more=''):
    """The file that the worker writes when it ends."""
    path = os.path.join(test.folder, name)
    env = dict(os.environ, LD_PRELOAD=test.library, SALLOC_CONF=f'sample_interval:{interval},profile:{path}{more}')
    subprocess.run([test.worker, 'still'], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    return path


def case_hostile(test):
    """A file cut at every byte, and 20,000 times with bytes changed: read within its bounds or refused by name."""
    path = at_exit(test, 'few.pb', interval=4 << 20)
    assert os.path.getsize(path) < 60000, os.path.getsize(path)
    result = subprocess.run([test.hostile_file, path, '20000'], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            check=False, timeout=100, universal_newlines=True)
    assert result.returncode == 0, result
    print(result.stdout)


def main(library, tool, worker, static, hostile_file, case):
    with tempfile.TemporaryDirectory() as folder:
        test = Test(*map(os.path.abspath, (library, tool, worker, static)), folder)
        test.hostile_file = os.path.abspath(hostile_file)
        globals()['case_' + case](test)


if __name__ == '__main__':
    main(*sys.argv[1:])
