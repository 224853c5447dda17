#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one program of this folder under the preloaded library with every block guarded, once for every combination
of its ARGS, and checks what ended it, what was reported, and whose stacks. See planted.h for what the first comment
of a program says.

usage: run.py LIBRARY SOURCE PROGRAM [VARIABLE=VALUE...]
"""
import itertools
import os
import re
import resource
import signal
import subprocess
import sys

CONF = 'sample_seed:1,sample_interval:1,guarded_sample:1,guarded_slots:1024,sample_quarantine:1g'
SECONDS = 60  # a program that hangs is a failure


class Wanted:
    """What the comment of a program says."""

    def __init__(self, source):
        with open(source, encoding='utf-8') as file:
            comment = '\n'.join(file.read().split('*/', 2)[:2])
        (self.expect,) = re.findall(r'EXPECT: ?(.*)', comment)
        (ends,) = re.findall(r'SIGNAL: (.+)', comment)
        self.ends = [int(word) if word.isdigit() else -getattr(signal, word)
                     for word in ends.strip().split('|')]
        stacks = re.findall(r'STACKS: (.+)', comment)
        self.stacks = [word.split('=') for word in stacks[0].split()] if stacks else []
        self.vectors = []
        for line in re.findall(r'ARGS: (.+)', comment):
            self.vectors += list(itertools.product(*(word.split(',') for word in line.split())))
        self.vectors = self.vectors or [()]


def stacks_of(lines):
    """[(event, frames)] of a report."""
    stacks = []
    for line in lines:
        event = re.fullmatch(r'salloc:   (\w+)(?: by thread \d+)?(?:, \d+\.\d{6} s before)?:', line)
        frame = re.fullmatch(r'salloc:     #(\d+) (\S+)(?: (.*))?', line)
        if event:
            stacks.append((event[1], []))
        elif frame and stacks:
            if not re.fullmatch(r'(/.*\+)?0x[0-9a-f]+', frame[2]) or int(frame[1]) != len(stacks[-1][1]):
                return None
            stacks[-1][1].append(frame[3] or '')
        else:
            return None
    return stacks


def fault_of(program, vector, environment, wanted):
    """What is wrong with one run; None if nothing is."""
    try:
        done = subprocess.run([program, *vector], env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=SECONDS,
                              errors='backslashreplace', check=False)
    except subprocess.TimeoutExpired:
        return 'did not end'
    text = f'\n    stderr: {done.stderr}'
    if done.returncode not in wanted.ends:
        return f'ended with {done.returncode}, not {wanted.ends}' + text
    if not wanted.expect:
        return 'something was said' + text if done.stderr else None
    lines = done.stderr.split('\n')
    if not re.match('salloc: ' + wanted.expect, lines[0]):
        return f'the first line does not match {wanted.expect!r}' + text
    stacks = stacks_of(lines[1:-1])
    if stacks is None:
        return 'there is a line that is not understood' + text
    for event, function in wanted.stacks:
        if not any(name == event and function in frames[:2] for name, frames in stacks):
            return f'no stack says that {function} has {event} it' + text
    return None


def main():
    library, source, program = sys.argv[1:4]
    environment = dict(os.environ, LD_PRELOAD=os.path.abspath(library), SALLOC_CONF=CONF)
    environment.update(word.split('=', 1) for word in sys.argv[4:])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    wanted = Wanted(source)
    failed = 0
    for vector in wanted.vectors:
        fault = fault_of(program, vector, environment, wanted)
        if fault:
            failed += 1
            print(f'{os.path.basename(program)} {" ".join(vector)}: {fault}')
    print(f'{len(wanted.vectors) - failed} of {len(wanted.vectors)} runs ended as they should')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
