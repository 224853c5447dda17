#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one program of this folder under the preloaded library, once for every combination of its
ARGS, and checks that it was aborted after a line on stderr that names the fault and the
pointer. See fatal.h for what the first comment of a program says.

usage: run.py LIBRARY SOURCE PROGRAM [VARIABLE=VALUE...]
"""
import itertools
import os
import re
import resource
import signal
import subprocess
import sys

SENSELESS = 77
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


def directives(source):
    """The EXPECT expression and the list of argument vectors of a program."""
    with open(source, encoding='utf-8') as file:
        head = file.read().split('*/', 2)
    comment = '\n'.join(head[:2])
    expect = re.findall(r'EXPECT: (.+)', comment)
    if len(expect) != 1:
        sys.exit(f'{source}: one line EXPECT: is needed')
    vectors = []
    for line in re.findall(r'ARGS: (.+)', comment):
        vectors += list(itertools.product(*(axis(word) for word in line.split())))
    return expect[0].strip(), vectors or [()]


def fault_of(program, vector, environment, expect):
    """What is wrong with one run; None if nothing is; SENSELESS if the program declined."""
    try:
        done = subprocess.run([program, *vector], env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=SECONDS,
                              errors='backslashreplace', check=False)
    except subprocess.TimeoutExpired:
        return 'did not end'
    if done.returncode == SENSELESS:
        return SENSELESS
    pointers = done.stdout.split()
    text = f'\n    stderr: {done.stderr!r}, names: {pointers}'
    if done.returncode != -signal.SIGABRT:
        return f'ended with {done.returncode}, not SIGABRT' + text
    if not pointers:
        return 'did not say which pointer it misuses' + text
    lines = done.stderr.split('\n')
    # A block that happened to be sampled has a history: where it was allocated, and where freed.
    if lines[-1] != '' or not all(line.startswith('salloc:   ') for line in lines[1:-1]):
        return 'stderr is not one line, and perhaps the history of the block' + text
    if not lines[0].startswith('salloc: '):
        return 'the line does not begin with "salloc: "' + text
    if not re.match(expect, lines[0][len('salloc: '):]):
        return f'the line does not match {expect!r}' + text
    if pointers[-1] not in re.findall(r'0x[0-9a-f]+', lines[0]):
        return 'the line does not name the pointer' + text
    return None


def main():
    library, source, program = sys.argv[1:4]
    environment = dict(os.environ, LD_PRELOAD=os.path.abspath(library))
    environment.pop('SALLOC_CONF', None)
    environment.update(word.split('=', 1) for word in sys.argv[4:])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    expect, vectors = directives(source)
    ran, failed = 0, 0
    for vector in vectors:
        fault = fault_of(program, vector, environment, expect)
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
