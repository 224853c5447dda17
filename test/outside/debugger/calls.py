#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gdb calls malloc, free and others in a program of several threads that it has stopped at a random instruction of a
critical section, or of a slow path that holds locks. Each call returns, what it allocates is nobody else's, and so is
what the program allocates (worker.c). Several hundred calls, or with SALLOC_TEST_FULL=1 10,000.

usage: calls.py LIBRARY PROGRAM [VARIABLE=VALUE...]    (PROGRAM: worker.c)
Status 77: there is no gdb here, or it may not trace. SALLOC_TEST_SCRIPT=0: without gdb's side of the library."""
import os
import random
import shutil
import signal
import subprocess
import sys

try:
    import gdb
except ImportError:
    gdb = None

STOPS = 3000 if os.environ.get('SALLOC_TEST_FULL') else 150
CALLS = 4  # at most, at a stop
LONGEST_S = 1800 if STOPS > 1000 else 240
SLOW = ['sa_front_alloc', 'sa_front_free', 'sa_transfer_insert', 'sa_transfer_remove', 'sa_central_insert',
        'sa_central_remove', 'sa_cpu_cache_alloc', 'sa_cpu_cache_free', 'sa_page_heap_alloc', 'sa_page_heap_free']
SLOW_STEPS = 120


def driver():
    library, program = map(os.path.abspath, sys.argv[1:3])
    if not shutil.which('gdb'):
        print('skipped: there is no gdb')
        sys.exit(77)
    command = ['gdb', '-nx', '-q', '-batch', '-iex', 'set auto-load safe-path /' if
               os.environ.get('SALLOC_TEST_SCRIPT') != '0' else 'set auto-load python-scripts off',
               '-ex', 'set startup-with-shell off', '-ex', 'set pagination off', '-ex', 'set confirm off',
               '-ex', 'set environment LD_PRELOAD ' + library]
    for variable in sys.argv[3:]:
        command += ['-ex', 'set environment ' + variable.replace('=', ' ', 1)]
    command += ['-x', os.path.abspath(__file__), program]
    environment = {name: value for name, value in os.environ.items() if name != 'LD_PRELOAD'}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                          start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output = process.communicate()[0] + '\nhangs'
    lines = output.splitlines()
    print('\n'.join(lines[-25:]))
    if 'ptrace: Operation not permitted' in output or 'Could not trace the inferior' in output:
        sys.exit(77)
    sys.exit(0 if process.returncode == 0 and lines and lines[-1].startswith('passed') else 1)


class Debugger:
    """What runs inside of gdb."""

    def __init__(self):
        self.random = random.Random(16)
        self.blocks = {}  # address: bytes, of which the debugger is the owner
        self.inferior = gdb.selected_inferior()
        self.counts = {'section': 0, 'inside': 0, 'elsewhere': 0, 'calls': 0}

    def run(self):
        self.tick = gdb.Breakpoint('tick', internal=True)
        gdb.execute('run', to_string=True)
        self.sections = self.find_sections()
        self.likely = list(self.sections)
        for number in range(STOPS):
            if self.random.random() < 0.6:
                place = self.stop_in_section()
            else:
                place = self.stop_in_slow_path()
            self.counts[place] += 1
            for _ in range(self.random.randint(1, CALLS)):
                self.call(number)
        for address in list(self.blocks):
            self.free(address)
        gdb.execute('set variable stop = 1')
        gdb.execute('continue', to_string=True)
        code = gdb.parse_and_eval('$_exitcode')
        if code.type.code == gdb.TYPE_CODE_VOID or int(code) != 0:
            raise gdb.GdbError('the program ended badly: %s' % code)
        # Threads run on while one is stopped at a breakpoint: some stops are beside what they were meant for.
        if self.counts['section'] < STOPS / 4 or self.counts['inside'] < STOPS / 10:
            raise gdb.GdbError('too few stops where it matters: %s' % self.counts)
        print('passed: stops and calls:', self.counts)

    def find_sections(self):
        """(start, end) of the critical sections of the library."""
        begin, end = next((int(line.split()[0], 16), int(line.split()[2], 16)) for line in
                          gdb.execute('info files', to_string=True).splitlines() if '__rseq_cs in' in line and 'salloc' in line)
        data = bytes(self.inferior.read_memory(begin, end - begin))
        words = [[int.from_bytes(data[at + i:at + i + 8], 'little') for i in (8, 16)] for at in range(0, len(data), 32)]
        return [(start, start + length) for start, length in words if length]

    def go_to(self, place):
        """Continues to a place, or to a tick. Whether it came to the place."""
        there = gdb.Breakpoint(place, internal=True)
        self.tick.enabled = True
        gdb.execute('continue', to_string=True)
        self.tick.enabled = False
        came = there.hit_count > 0
        there.delete()
        self.check_alive()
        return came

    def check_alive(self):
        if not self.inferior.pid or gdb.selected_thread() is None:
            raise gdb.GdbError('the program is gone')
        frame = gdb.newest_frame()
        while frame:
            if frame.name() in ('abort', '__GI_abort', 'raise', 'sa_fatal', '__pthread_kill_implementation'):
                raise gdb.GdbError('the program aborts:\n' + gdb.execute('bt', to_string=True))
            frame = frame.older()

    def stop_in_section(self):
        start, end = self.random.choice(self.likely)
        code = gdb.selected_frame().architecture().disassemble(start, end - 1)
        if self.go_to('*%#x' % self.random.choice(code)['addr']):
            return 'section'
        if len(self.likely) > 4:
            self.likely.remove((start, end))  # not one that the program comes to soon
        return 'elsewhere'

    def stop_in_slow_path(self):
        if self.go_to(self.random.choice(SLOW)):
            gdb.execute('stepi %d' % self.random.randint(1, SLOW_STEPS), to_string=True)
            self.check_alive()
        frame = gdb.newest_frame()
        while frame:
            if str(frame.name()).startswith('sa_front_'):
                return 'inside'
            frame = frame.older()
        return 'elsewhere'

    def evaluate(self, text):
        self.counts['calls'] += 1
        try:
            return int(gdb.parse_and_eval(text))
        except gdb.error as error:
            raise gdb.GdbError('%s: %s\n%s' % (text, error, gdb.execute('bt', to_string=True))) from error

    def keep(self, address, size, zero=False):
        if not address or address % 16:
            raise gdb.GdbError('%#x was allocated' % address)
        if zero and any(bytes(self.inferior.read_memory(address, size))):
            raise gdb.GdbError('calloc gave %#x, which is not clear' % address)
        for other, content in self.blocks.items():
            if address < other + len(content) and other < address + size:
                raise gdb.GdbError('%#x was allocated twice' % address)
        content = self.random.randbytes(size)
        self.inferior.write_memory(address, content)
        self.blocks[address] = content

    def check(self, address, content):
        if bytes(self.inferior.read_memory(address, len(content))) != content:
            raise gdb.GdbError('the block at %#x was written by another owner' % address)

    def free(self, address):
        self.check(address, self.blocks.pop(address))
        self.counts['calls'] += 1
        gdb.execute('call call_free((void *)%#x)' % address, to_string=True)

    def call(self, number):
        size = self.random.choice([8, 24, 24, 100, 100, 1000, 5000, self.random.randint(1, 300000)])
        kind = self.random.randrange(10)
        address = self.random.choice(list(self.blocks)) if self.blocks else 0
        if len(self.blocks) > 40:
            kind = 9
        if kind < 3:
            self.keep(self.evaluate('(unsigned long)call_malloc(%d)' % size), size)
        elif kind == 3:
            self.keep(self.evaluate('(unsigned long)call_calloc(1, %d)' % size), size, zero=True)
        elif kind == 4 and address:
            content = self.blocks.pop(address)
            self.check(address, content)
            moved = self.evaluate('(unsigned long)call_realloc((void *)%#x, %d)' % (address, size))
            self.check(moved, content[:size])
            self.keep(moved, size)
        elif kind == 5:
            self.evaluate('call_getpid()')
        elif kind == 6 and address:
            if self.evaluate('call_usable((void *)%#x)' % address) < len(self.blocks[address]):
                raise gdb.GdbError('too few bytes are usable')
        elif address:
            self.free(address)


if gdb is None:
    driver()
else:
    try:
        Debugger().run()
    except (gdb.error, gdb.GdbError) as error:
        print('failed: %s' % error)
        gdb.execute('kill', to_string=True) if gdb.selected_inferior().pid else None
        gdb.execute('quit 1')
