#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gdb calls malloc, free and others in a program of several threads that it has stopped at a random instruction of a
critical section, or of a slow path that holds locks. Each call returns, what it allocates is nobody else's, and so is
what the program allocates (worker.c). Some calls are made by code that gdb compiles, where it can.

usage: calls.py LIBRARY PROGRAM COUNT [VARIABLE=VALUE...]    (PROGRAM: worker.c)
COUNT: so many calls in sections, and a quarter as many in slow paths.
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

CALLS = 4  # at most, at a stop
COMPILE = 40  # one call of so many is compiled
STOPS_FOR_CALL = 3  # stops that one call in a section may take; about 1 is usual
MISSES = 3  # of a section that the program does not come to: no further ones
SLOW = ['sa_front_alloc', 'sa_front_free_sized', 'sa_front_realloc', 'sa_transfer_insert', 'sa_transfer_remove', 'sa_central_insert',
        'sa_central_remove', 'sa_cpu_cache_alloc', 'sa_cpu_cache_free', 'sa_page_heap_alloc', 'sa_page_heap_free']
SLOW_STEPS = 120
PLACES = ['section', 'inside', 'elsewhere']


def driver():
    library, program = map(os.path.abspath, sys.argv[1:3])
    if not shutil.which('gdb'):
        print('skipped: there is no gdb')
        sys.exit(77)
    command = ['gdb', '-nx', '-q', '-batch', '-iex', 'set auto-load safe-path /' if
               os.environ.get('SALLOC_TEST_SCRIPT') != '0' else 'set auto-load python-scripts off',
               '-ex', 'set startup-with-shell off', '-ex', 'set pagination off', '-ex', 'set confirm off',
               '-ex', 'set environment LD_PRELOAD ' + library]
    for variable in sys.argv[4:]:
        command += ['-ex', 'set environment ' + variable.replace('=', ' ', 1)]
    command += ['-x', os.path.abspath(__file__), program]
    longest_s = 240 + int(sys.argv[3]) // 6
    environment = {name: value for name, value in os.environ.items() if name != 'LD_PRELOAD'}
    environment['TEST_CALLS'] = sys.argv[3]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                          start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=longest_s)
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
        self.stops = dict.fromkeys(PLACES, 0)
        self.calls = dict.fromkeys(PLACES, 0)
        self.compiled = 0
        self.instructions, self.entered = set(), set()  # of sections: where it was stopped, and in which
        self.missed = {}

    def run(self):
        wanted = int(os.environ['TEST_CALLS'])
        self.tick = gdb.Breakpoint('tick', internal=True)
        gdb.execute('run', to_string=True)
        self.tick.enabled = False
        for name in SLOW:
            if not gdb.lookup_static_symbol(name) and 'No symbol' in gdb.execute('info address ' + name, to_string=True):
                raise gdb.GdbError('the library has no ' + name)
        self.can_compile = self.try_to_compile()
        self.sections = self.find_sections()
        self.likely = list(self.sections)
        while self.calls['section'] < wanted or self.calls['inside'] < wanted / 4:
            if sum(self.stops.values()) > STOPS_FOR_CALL * wanted:
                # Threads run on while one is stopped at a breakpoint: some stops are beside what they were meant for.
                raise gdb.GdbError('too few stops where it matters: %s' % self.stops)
            if self.random.random() < 0.75:
                place = self.stop_in_section()
            else:
                place = self.stop_in_slow_path()
            self.stops[place] += 1
            for _ in range(self.random.randint(1, CALLS)):
                self.calls[place] += 1
                self.call()
        for address in list(self.blocks):
            self.free(address)
        gdb.execute('set variable stop = 1')
        gdb.execute('continue', to_string=True)
        code = gdb.parse_and_eval('$_exitcode')
        if code.type.code == gdb.TYPE_CODE_VOID or int(code) != 0:
            raise gdb.GdbError('the program ended badly: %s' % code)
        print('passed: stops %s, calls %s, %d of them compiled, at %d instructions of %d sections of %d' % (
            self.stops, self.calls, self.compiled, len(self.instructions), len(self.entered), len(self.sections)))

    def try_to_compile(self):
        """Whether gdb has a compiler here."""
        try:
            gdb.execute('compile code (void)0', to_string=True)
            return True
        except gdb.error as error:
            print('not compiled: %s' % error)
            return False

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
        address = self.random.choice(code)['addr']
        if self.go_to('*%#x' % address):
            self.instructions.add(address)
            self.entered.add(start)
            return 'section'
        self.missed[start, end] = self.missed.get((start, end), 0) + 1
        if len(self.likely) > 4 and self.missed[start, end] == MISSES:
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
        gdb.execute('call call_free((void *)%#x)' % address, to_string=True)

    def call_compiled(self, size):
        """gdb maps memory in the program, loads what gcc has made of this, and calls it."""
        gdb.execute('compile code extern void *malloc(unsigned long); extern void free(void *); void *first = malloc(8); '
                    'free(first); compiled = malloc(%d);' % size, to_string=True)
        self.compiled += 1
        self.keep(self.evaluate('(unsigned long)compiled'), size)

    def call(self):
        size = self.random.choice([8, 24, 24, 100, 100, 1000, 5000, self.random.randint(1, 300000)])
        kind = self.random.randrange(10)
        if self.can_compile and self.random.randrange(COMPILE) == 0:
            self.call_compiled(size)
            return
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
