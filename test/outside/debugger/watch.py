#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What gdb does by single steps ends in a program on the library: a software watchpoint, `record full` with `finish`,
and `until`.

usage: watch.py LIBRARY PROGRAM    (PROGRAM: watched.c)
Status 77: there is no gdb here, or it may not trace."""
import shutil
import subprocess
import sys

SECONDS = 150  # a watchpoint takes 5 s of processor time
SCRIPTS = {
    'a software watchpoint': (['set can-use-hw-watchpoints 0', 'break work if i == 3', 'run', 'delete',
                               'watch counter if counter == 10', 'continue'], 'New value = 10'),
    'until': (['break work if i == 3', 'run', 'delete', 'break main', 'until work', 'next', 'next', 'stepi 3000',
               'delete', 'continue'], 'counter 10'),
    'record full': (['break work if i == 3', 'run', 'delete', 'record full', 'next', 'next', 'reverse-next', 'record stop',
                     'kill'], 'work (i='),
}


def main():
    library, program = sys.argv[1:3]
    if not shutil.which('gdb'):
        print('skipped: no gdb')
        return 77
    failed = 0
    for name, (commands, wanted) in SCRIPTS.items():
        words = ['gdb', '-nx', '-q', '-batch', '-iex', 'set auto-load python-scripts off', '-ex', 'set pagination off',
                 '-ex', 'set confirm off', '-ex', 'set startup-with-shell off', '-ex', 'set environment LD_PRELOAD ' + library]
        for command in commands:
            words += ['-ex', command]
        try:
            done = subprocess.run(words + [program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False).stdout
        except subprocess.TimeoutExpired:
            print('%s does not end within %d seconds' % (name, SECONDS))
            failed += 1
            continue
        if 'ptrace: Operation not permitted' in done or 'Could not trace the inferior' in done:
            print('skipped: no tracing here')
            return 77
        if wanted not in done:
            print('%s: %r is not in\n%s' % (name, wanted, done))
            failed += 1
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
