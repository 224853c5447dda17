#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which functions of the library run, recorded by gdb with a breakpoint at each, against what the sources and
alloc/cold.ld say: code of .text shares pages that every program has in memory, code of .text_cold does not.

Proves that a start runs nothing of .text_cold, where each function brings in 64 KiB; and that of .text nearly all is
run by a program with threads (cold_code.c). Functions on the wrong side are named: SA_RARE (alloc/base/attrs.h) and
the lists of cold sources move them. Operators of C++ count as idle, as the program has none; and chance, such as which
samples are guarded, decides about a few others: together 2 to 4 % of .text. With --list: the functions of .text that
none of the programs runs.
usage: cold_code.py [--list] LIBRARY PROGRAM...
"""
import os
import re
import subprocess
import sys
import tempfile

IDLE_FRACTION = 16  # at most 1/16 of .text may be of functions that did not run
STARTS = 20         # events of the loader until the library is mapped


def record():
    """In gdb: runs the program and writes the addresses of functions that were called, relative to the library."""
    import gdb  # pylint: disable=import-error,import-outside-toplevel
    library, out = os.environ['COLD_CODE_LIBRARY'], os.environ['COLD_CODE_OUT']
    with open(out, encoding='ascii') as f:
        functions = [int(line, 16) for line in f]
    for setting in ('pagination off', 'confirm off', 'startup-with-shell off', 'stop-on-solib-events 1',
                    'environment LD_PRELOAD ' + library):
        gdb.execute('set ' + setting)
    gdb.execute('run', to_string=True)
    base = None
    for _ in range(STARTS):
        with open('/proc/%d/maps' % gdb.selected_inferior().pid, encoding='utf-8') as f:
            base = next((int(line.split('-')[0], 16) for line in f if os.path.basename(library) in line), None)
        if base is not None:
            break
        gdb.execute('continue', to_string=True)
    gdb.execute('set stop-on-solib-events 0')
    called = set()

    class Once(gdb.Breakpoint):  # pylint: disable=too-few-public-methods
        """Notes the first call, and lets the program go on."""
        def stop(self):
            called.add(self.function)
            self.enabled = False
            return False

    for function in functions:
        Once('*%d' % (base + function), internal=True).function = function
    gdb.execute('continue', to_string=True)
    with open(out, 'w', encoding='ascii') as f:
        f.write(''.join('%x\n' % function for function in called))


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def functions_of(library):
    """{section: {address: (name, bytes)}} for .text and .text_cold."""
    found = {}
    sections = output('readelf', '-SW', library)
    symbols = [line.split() for line in output('nm', '-S', '--defined-only', library).splitlines()]
    for section in ('.text', '.text_cold'):
        match = re.search(r' %s +PROGBITS +(\w+) \w+ (\w+)' % re.escape(section), sections)
        if not match:
            print('the linker has not read alloc/cold.ld')
            sys.exit(77)
        start = int(match.group(1), 16)
        end = start + int(match.group(2), 16)
        found[section] = {int(s[0], 16): (s[3], int(s[1], 16)) for s in symbols
                          if len(s) == 4 and s[2] in 'tTwW' and start <= int(s[0], 16) < end}
    return found


def called_by(library, functions, program):
    with tempfile.NamedTemporaryFile('w', suffix='.functions', encoding='ascii') as out:
        out.write(''.join('%x\n' % function for function in functions))
        out.flush()
        try:
            done = subprocess.run(['gdb', '-nx', '-batch', '-x', __file__, '--args', program], check=False, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  env={**os.environ, 'COLD_CODE_LIBRARY': library, 'COLD_CODE_OUT': out.name})
        except FileNotFoundError:
            print('no gdb')
            sys.exit(77)
        if 'ptrace' in done.stdout and 'not permitted' in done.stdout:
            print(done.stdout)
            sys.exit(77)
        assert 'exited normally' in done.stdout, done.stdout
        with open(out.name, encoding='ascii') as f:
            return {int(line, 16) for line in f}


def main(arguments):
    only_list = arguments[0] == '--list'
    library, *programs = arguments[only_list:]
    of = functions_of(library)
    every = [address for functions in of.values() for address in functions]
    at_start = called_by(library, every, '/bin/true') if not only_list else set()
    called = at_start.union(*(called_by(library, every, program) for program in programs))
    idle = sorted(((size, name) for address, (name, size) in of['.text'].items() if address not in called),
                  reverse=True)
    total, text = sum(size for size, _ in idle), sum(size for _, size in of['.text'].values())
    names = ', '.join('%s %d' % (name, size) for size, name in idle)
    print('%d of %d bytes of .text did not run: %s' % (total, text, names))
    if only_list:
        return 0
    cold = sorted(name for address, (name, _) in of['.text_cold'].items() if address in at_start)
    if cold:
        print('a start runs code of .text_cold: ' + ', '.join(cold))
    return 1 if cold or not at_start or total > text / IDLE_FRACTION else 0


if 'COLD_CODE_OUT' in os.environ:
    record()
elif __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
