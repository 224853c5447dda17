#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs storm.c with a time limit. If it says that it is stuck, or does not end, prints the stacks of all its
threads and children, kills them and fails.

usage: storm.py LIBRARY PROGRAM FOLDER MODE [VARIABLE=VALUE...]    MODE: prof, or usr2

SALLOC_TEST_SECONDS: how long the storm lasts. SALLOC_CONF is added to.
"""
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

LIBRARY, PROGRAM, FOLDER, MODE = sys.argv[1:5]
MORE = dict(word.split('=', 1) for word in sys.argv[5:])
LIMIT = float(os.environ.get('SALLOC_TEST_SECONDS') or 10) + 90


def family(pid):
    """A process and all its descendants."""
    found = [pid]
    for path in glob.glob(f'/proc/{pid}/task/*/children'):
        try:
            with open(path, encoding='ascii') as file:
                for child in file.read().split():
                    found += family(int(child))
        except OSError:
            pass
    return found


def report(pid):
    """The stacks of everything that hangs."""
    for each in family(pid):
        print(f'--- process {each}', flush=True)
        if shutil.which('gdb'):
            subprocess.run(['gdb', '-q', '-batch', '-p', str(each), '-ex', 'thread apply all bt 30'],
                           stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=120)


def end(process):
    """Everything that was started, by number."""
    for each in family(process.pid):
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:
            pass


def main():
    with tempfile.TemporaryDirectory(prefix='salloc-storm-') as scratch:
        conf = [MORE.pop('SALLOC_CONF', ''), 'sample_interval:1k']
        if MODE == 'usr2':
            conf += [f'profile:{scratch}/signal.%p.%n.pb.gz', 'profile_signal:USR2',
                     'profile_type:' + ('lifetime' if 'per_cpu' in conf[0] else 'heap')]
        env = dict(os.environ, LD_PRELOAD=LIBRARY, SALLOC_CONF=','.join(c for c in conf if c), **MORE)
        stuck = []
        # pylint: disable-next=consider-using-with
        process = subprocess.Popen([PROGRAM, FOLDER, scratch] + (['usr2'] if MODE == 'usr2' else []),
                                   env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

        def late(why):
            stuck.append(why)
            report(process.pid)
            end(process)

        timer = threading.Timer(LIMIT, late, ['it does not end'])
        timer.start()
        for line in process.stdout:
            print(line, end='', flush=True)
            if line.startswith('stuck:') and not stuck:
                late(line)
            elif line.startswith('salloc:'):
                stuck.append(line)
        status = process.wait()
        timer.cancel()
        left = sorted(os.listdir(scratch))
        print(f'{len(left)} files')
        temporary = [name for name in left if 'tmp' in name]
        if stuck or status or temporary:
            print(f'failed: {stuck or ""} status {status}, temporary files: {temporary}')
            return 1
        if MODE == 'usr2' and len(left) < 3:
            print('no profiles were written')
            return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
