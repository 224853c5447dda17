#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SALLOC_CONF=report:PATH: reports are appended to a file of the owner's alone, also where stderr is closed; what is not a
file, and what a link points to, is left alone.

usage: report_file.py LIBRARY PROGRAM
PROGRAM frees a block of the size that its argument says twice.
"""
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile


def check(condition, text):
    if not condition:
        sys.exit(text)


def run(library, program, path, stderr=None):
    """What the program wrote to stderr."""
    def prepare():
        if stderr == 'closed':
            os.close(2)
    environment = dict(os.environ, LD_PRELOAD=os.path.abspath(library), SALLOC_CONF='report:' + path)
    done = subprocess.run([program, '64'], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, preexec_fn=prepare, timeout=20, check=False)
    check(done.returncode == -signal.SIGABRT, f'report:{path}: ended with {done.returncode}')
    return done.stderr


def main():
    library, program = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'report')
        said = run(library, program, path)
        with open(path, 'rb') as file:
            check(file.read() == said and said.count(b'\n') > 3, 'the file is not what stderr was told')
        check(stat.S_IMODE(os.stat(path).st_mode) == 0o600, 'others may read the file')
        check(run(library, program, path, stderr='closed') == b'', 'there was a stderr')
        with open(path, 'rb') as file:
            text = file.read()
        check(text.startswith(said) and text.count(b'salloc: double free: ') == 2, 'the second report was not appended')

        run(library, program, os.path.join(folder, 'of.%p'))
        check(len([name for name in os.listdir(folder) if name.startswith('of.')]) == 1, '%p was not expanded')

        os.symlink(os.path.join(folder, 'target'), os.path.join(folder, 'link'))
        os.mkfifo(os.path.join(folder, 'pipe'))
        os.mkdir(os.path.join(folder, 'folder'))
        for name in ['link', 'pipe', 'folder', 'missing/report', '/dev/full', '/dev/tty']:
            said = run(library, program, os.path.join(folder, name))
            check(said.startswith(b'salloc: double free: '), f'{name}: nothing on stderr')
        check(not os.path.exists(os.path.join(folder, 'target')), 'a link was followed')
    print('all reports are where they should be')


if __name__ == '__main__':
    main()
