#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one program of this folder under the preloaded library, once for every combination of its
ARGS, and checks that it was aborted, or has survived, after a line on stderr that names the fault and the
pointer, and the stack of the caller. See fatal.h for what the first comment of a program says.

usage: run.py LIBRARY SOURCE PROGRAM [VARIABLE=VALUE...]

A variable of its own: HARDENED=1, the build is hardened and nothing survives.
"""
import itertools
import os
import re
import resource
import signal
import subprocess
import sys

SENSELESS, SURVIVED = 77, 3
SECONDS = 20  # a program that hangs is a failure; all take milliseconds


def axis(text):
    """The values of one axis: '1,2,8-10' is 1 2 8 9 10."""
    values = []
    for part in text.split(','):
        ends = re.fullmatch(r'(\d+)-(\d+)', part)
        if ends:
            values += [str(n) for n in range(int(ends[1]), int(ends[2]) + 1)]
        else:
            values.append(part)
    return values


class Wanted:
    """What the comment of a program says, and the list of its argument vectors."""

    def __init__(self, source):
        with open(source, encoding='utf-8') as file:
            comment = '\n'.join(file.read().split('*/', 2)[:2])
        comment = re.sub(r'\n \*  +', ' ', comment)  # lines that go on
        expect = re.findall(r'EXPECT: (.+)', comment)
        if len(expect) != 1:
            sys.exit(f'{source}: one line EXPECT: is needed')
        self.expect = expect[0].strip()
        self.survives = 'SURVIVES: yes' in comment
        self.reports = int((re.findall(r'REPORTS: (\d+)', comment) or [1])[0])
        self.names = (re.findall(r'NAMES: (\w+)', comment) or [None])[0]
        self.vectors = []
        for line in re.findall(r'ARGS: (.+)', comment):
            self.vectors += list(itertools.product(*(axis(word) for word in line.split())))
        self.vectors = self.vectors or [()]


def fault_of_stack(lines, program, pid, names):
    """What is wrong with the lines behind the first: they say in which process and thread that was, and name the function of
    the program that called."""
    if names == 'none':
        return 'there is more than a line' if lines else None
    path = re.escape(os.path.realpath(program))
    if not lines or not re.fullmatch(rf'salloc:   in process {pid} \({path}\), thread [1-9]\d* \(.+\)', lines[0]):
        return 'the process and the thread are not named'
    if len(lines) < 2 or not re.fullmatch(r'salloc:   (freed|passed|found) by thread [1-9]\d*:', lines[1]):
        return 'it is not said what the stack is of'
    if names == 'damaged':
        return None if any(line == 'salloc:     (names cannot be read)' for line in lines) else 'all names can be read'
    if not re.fullmatch(rf'salloc:     #0 {path}\+0x[0-9a-f]+ [A-Za-z_]\w*', lines[2] if len(lines) > 2 else ''):
        return 'the stack does not begin with a function of the program'
    return None


def fault_of(program, vector, environment, wanted):
    """What is wrong with one run; None if nothing is; SENSELESS if the program declined."""
    child = subprocess.Popen([program, *vector], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, errors='backslashreplace')
    try:
        stdout, stderr = child.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return 'did not end'
    if child.returncode == SENSELESS:
        return SENSELESS
    pointers = stdout.split()
    text = f'\n    stderr: {stderr!r}, names: {pointers}'
    ends = SURVIVED if wanted.survives and not environment.get('HARDENED') else -signal.SIGABRT
    if child.returncode != ends:
        return f'ended with {child.returncode}, not {ends}' + text
    if not pointers:
        return 'did not say which pointer it misuses' + text
    lines = stderr.split('\n')
    firsts = [line for line in lines[:-1] if not line.startswith('salloc:   ')]
    if lines[-1] != '' or len(firsts) != wanted.reports:
        return f'stderr is not {wanted.reports} lines, and what is known beside each' + text
    if not lines[0].startswith('salloc: '):
        return 'the line does not begin with "salloc: "' + text
    if not re.match(wanted.expect, lines[0][len('salloc: '):]):
        return f'the line does not match {wanted.expect!r}' + text
    if pointers[-1] not in re.findall(r'0x[0-9a-f]+', lines[0]):
        return 'the line does not name the pointer' + text
    fault = fault_of_stack(lines[1:-1], program, child.pid, wanted.names)
    return fault + text if fault else None


def main():
    library, source, program = sys.argv[1:4]
    environment = dict(os.environ, LD_PRELOAD=os.path.abspath(library))
    environment.pop('SALLOC_CONF', None)
    environment.update(word.split('=', 1) for word in sys.argv[4:])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    wanted = Wanted(source)
    ran, failed = 0, 0
    for vector in wanted.vectors:
        fault = fault_of(program, vector, environment, wanted)
        if fault == SENSELESS:
            continue
        ran += 1
        if fault:
            failed += 1
            print(f'{os.path.basename(program)} {" ".join(vector)}: {fault}')
    print(f'{ran - failed} of {ran} runs were stopped as they should be')
    return 1 if failed or not ran else 0


if __name__ == '__main__':
    sys.exit(main())
