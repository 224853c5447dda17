#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one program of this folder under the preloaded library with every block guarded, once for every combination
of its ARGS, and checks what ended it, what was reported, and whose stacks. See planted.h for what the first comment
of a program says.

usage: run.py LIBRARY SOURCE PROGRAM [VARIABLE=VALUE...]

Variables of its own: MOST=N, no sizes (the first of ARGS) above; SYMBOLS=FILE, the program with symbols, if it is run without; RUNNER=FILE, what starts programs: an emulator,
which need not know whether an access was a write; HARDENED=1: the build is hardened, and no program survives a report.
"""
import itertools
import os
import re
import resource
import signal
import subprocess
import sys

CONF = 'sample_seed:1,sample_interval:1,guarded_sample:1,guarded_slots:1024,sample_quarantine:1g'
FRAMES = 3  # from the innermost on, of which one may be libc's
SECONDS = 60  # a program that hangs is a failure


class Wanted:
    """What the comment of a program says."""

    def __init__(self, source, emulated, most, hardened):
        with open(source, encoding='utf-8') as file:
            comment = '\n'.join(file.read().split('*/', 2)[:2])
        comment = re.sub(r'\n \*  +', ' ', comment)  # lines that go on
        (self.expect,) = re.findall(r'EXPECT: ?(.*)', comment)
        (ends,) = re.findall(r'SIGNAL: (.+)', comment)
        self.ends = [int(word) if word.isdigit() else -getattr(signal, word)
                     for word in ends.strip().split('|')]
        if hardened and self.expect:
            self.ends = [end if end < 0 else -signal.SIGABRT for end in self.ends]
        stacks = re.findall(r'STACKS: (.+)', comment)
        self.stacks = [word.split('=') for word in stacks[0].split()] if stacks else []
        if emulated:
            self.expect = re.sub(r'\((read|write)\|', r'(\1|access|', self.expect)
            self.expect = re.sub(r' (read|write) ', r' (\1|access) ', self.expect)
            self.stacks = [(f'{events}|accessed', function) for events, function in self.stacks]
        self.vectors = []
        for line in re.findall(r'ARGS: (.+)', comment):
            self.vectors += list(itertools.product(*(word.split(',') for word in line.split())))
        self.vectors = [v for v in self.vectors if not most or int(v[0]) <= int(most)] or [()]


class Symbols:
    """Of a file: names of the functions at offsets, for programs that have none."""

    def __init__(self, path):
        self.path, self.starts = path, []
        if path:
            text = subprocess.run(['nm', '--defined-only', path], capture_output=True, text=True, check=True).stdout
            self.starts = sorted((int(line.split()[0], 16), line.split()[2]) for line in text.splitlines())

    def name(self, program, place, name):
        """Of a frame: what the report says, else what the symbols say about the offset."""
        path, _, offset = place.rpartition('+')
        if not self.path or os.path.basename(path) != os.path.basename(program):
            return name
        below = [symbol for start, symbol in self.starts if start <= int(offset, 16)]
        return below[-1] if below and not name else 'has a name though it is stripped'


def stacks_of(lines, program, symbols):
    """[(event, frames)] of a report. The first is about now; of others it is known when they were, and all have threads: in
    these runs all samples are chosen to be guarded."""
    stacks = []
    for line in lines:
        event = re.fullmatch(r'salloc:   (\w+) by thread [1-9]\d*(, \d+\.\d{6} s before)?:', line)
        frame = re.fullmatch(r'salloc:     #(\d+) (\S+)(?: (.*))?', line)
        if event and bool(event[2]) == bool(stacks):
            stacks.append((event[1], []))
        elif frame and stacks:
            if not re.fullmatch(r'(/.*\+)?0x[0-9a-f]+', frame[2]) or int(frame[1]) != len(stacks[-1][1]):
                return None
            stacks[-1][1].append(symbols.name(program, frame[2], frame[3] or ''))
        else:
            return None
    return stacks


def fault_of(program, vector, environment, wanted, symbols):
    """What is wrong with one run; None if nothing is."""
    try:
        done = subprocess.run([*environment.get('RUNNER', '').split(), program, *vector], env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=SECONDS,
                              errors='backslashreplace', check=False)
    except subprocess.TimeoutExpired:
        return 'did not end'
    said = [line for line in done.stderr.split('\n') if not line.startswith('qemu: ')]
    text = f'\n    stderr: {done.stderr}'
    if done.returncode not in wanted.ends:
        return f'ended with {done.returncode}, not {wanted.ends}' + text
    if not wanted.expect:
        return 'something was said' + text if said != [''] else None
    more = [i for i, line in enumerate(said) if i and re.match('salloc: [^ ]', line)]
    if more and wanted.ends != [-signal.SIGABRT]:
        said = said[:more[0]] + ['']  # of a program that goes on, the first report is looked at
    if not re.match('salloc: ' + wanted.expect, said[0]):
        return f'the first line does not match {wanted.expect!r}' + text
    path = re.escape(os.path.realpath(program))
    if not environment.get('RUNNER') and not re.fullmatch(rf'salloc:   in process [1-9]\d* \({path}\), thread [1-9]\d* \(.+\)', said[1]):
        return 'the process and the thread are not named' + text
    stacks = stacks_of(said[2:-1], program, symbols)
    if stacks is None:
        return 'there is a line that is not understood' + text
    for event, function in wanted.stacks:
        named = re.compile(rf'{function}|_ZL?\d+{function}\w*')  # as C and as C++ have it
        if not any(name in event.split('|') and any(named.fullmatch(frame) for frame in frames[:FRAMES])
                   for name, frames in stacks):
            return f'no stack says that {function} has {event} it' + text
    return None


def main():
    library, source, program = sys.argv[1:4]
    environment = dict(os.environ, LD_PRELOAD=os.path.abspath(library), SALLOC_CONF=CONF)
    environment.update(word.split('=', 1) for word in sys.argv[4:])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    wanted = Wanted(source, 'RUNNER' in environment, environment.get('MOST'), environment.get('HARDENED'))
    symbols = Symbols(environment.get('SYMBOLS'))
    failed = 0
    for vector in wanted.vectors:
        fault = fault_of(program, vector, environment, wanted, symbols)
        if fault:
            failed += 1
            print(f'{os.path.basename(program)} {" ".join(vector)}: {fault}')
    print(f'{len(wanted.vectors) - failed} of {len(wanted.vectors)} runs ended as they should')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
