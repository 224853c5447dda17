#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gdb calls malloc, free and others in a program of several threads that it has stopped at a random instruction of a
critical section, or of a slow path that holds locks. Each call returns, what it allocates is nobody else's, and so is
what the program allocates (worker.c). Some calls are made by code that gdb compiles, where it can. It sees no separate
debug information: where it has that of the loader, it forgets to unmap such code, which takes further calls.

usage: calls.py LIBRARY PROGRAM COUNT [VARIABLE=VALUE...] [-- VARIABLE=VALUE...]...    (PROGRAM: worker.c)
COUNT: so many calls in sections, and a quarter as many in slow paths. Behind each -- is a further run, with 1/10 of the
calls, half of them in sections that were not reached so far. If there are such, calls must be made in each section of
the library in one of the runs.
The last lines name the sections, and say how many calls were made in each.
Status 77: there is no gdb here, or it may not trace, or cannot call functions.
SALLOC_TEST_SCRIPT=0: without gdb's side of the library."""
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

# It may not trace; or it is older than the processor: gdb 13 cannot restore the registers of one that has AMX after a
# call, in any program.
CANNOT = ['ptrace: Operation not permitted', 'Could not trace the inferior', "Couldn't write extended state status"]
CALLS = 4  # at most, at a stop
CALLS_IN = ' calls in '
COMPILE = 40  # one call of so many is compiled
STOPS_FOR_CALL = 3  # stops that one call in a section may take; about 1 is usual
MISSES = 4  # then the program does not come to the section any more
TICKS = 30  # that pass before the program counts as one that does not come to a place
EARLY, EARLY_FRACTION = 'cpu_move', 10  # runs while caches grow for the first time, and not later: 1/10 of the calls
SLOW = ['sa_front_alloc', 'sa_front_free_sized', 'sa_front_realloc', 'sa_transfer_insert', 'sa_transfer_remove', 'sa_central_insert',
        'sa_central_remove', 'sa_cpu_cache_alloc', 'sa_cpu_cache_free', 'sa_page_heap_alloc', 'sa_page_heap_free']
SLOW_STEPS = 120
PLACES = ['section', 'inside', 'elsewhere']


def runs():
    """The variables of each run."""
    found = [[]]
    for word in sys.argv[4:]:
        if word == '--':
            found.append([])
        else:
            found[-1].append(word)
    return found


def run(library, program, count, variables, wanted):
    """The lines of the output of gdb; None: it cannot trace or call."""
    command = ['gdb', '-nx', '-q', '-batch', '-iex', 'set auto-load safe-path /' if
               os.environ.get('SALLOC_TEST_SCRIPT') != '0' else 'set auto-load python-scripts off',
               '-iex', 'set debug-file-directory /nonexistent',
               '-ex', 'set startup-with-shell off', '-ex', 'set pagination off', '-ex', 'set confirm off',
               '-ex', 'set environment LD_PRELOAD ' + library]
    for variable in variables:
        command += ['-ex', 'set environment ' + variable.replace('=', ' ', 1)]
    command += ['-x', os.path.abspath(__file__), program]
    environment = {name: value for name, value in os.environ.items() if name != 'LD_PRELOAD'}
    environment['TEST_CALLS'], environment['TEST_WANTED'] = str(count), ','.join(wanted)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                          start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=240 + count // 6)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output = process.communicate()[0] + '\nhangs'
    for reason in CANNOT:
        if reason in output:
            print('skipped: gdb says "%s"' % reason)
            return None
    return output.splitlines() + ([] if process.returncode == 0 else ['status %d' % process.returncode])


def driver():
    library, program = map(os.path.abspath, sys.argv[1:3])
    count, reached = int(sys.argv[3]), {}
    if not shutil.which('gdb'):
        print('skipped: there is no gdb')
        sys.exit(77)
    for number, variables in enumerate(runs()):
        lines = run(library, program, count if number == 0 else count // 10, variables,
                    [place for place, calls in reached.items() if not calls])
        if lines is None:
            sys.exit(77)
        if not lines or not lines[-1].startswith('passed'):
            print('\n'.join(lines[-25:]))
            sys.exit(1)
        print(' '.join(variables + lines[-1:]))
        for line in lines:
            if CALLS_IN in line:
                calls, place = line.split(CALLS_IN)
                reached[place] = reached.get(place, 0) + int(calls)
    for place, calls in reached.items():
        print('%6d%s%s' % (calls, CALLS_IN, place))
    print('%d of %d sections reached' % (sum(n > 0 for n in reached.values()), len(reached)))
    sys.exit(1 if not reached or (len(runs()) > 1 and not all(reached.values())) else 0)


class Debugger:
    """What runs inside of gdb."""

    def __init__(self):
        self.random = random.Random(16)
        self.blocks = {}  # address: bytes, of which the debugger is the owner
        self.inferior = gdb.selected_inferior()
        self.stops = dict.fromkeys(PLACES, 0)
        self.calls = dict.fromkeys(PLACES, 0)
        self.compiled = 0
        self.instructions = set()  # of sections: where it was stopped
        self.missed, self.made = {}, {}  # of each section: stops elsewhere, calls

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
        self.missed = dict.fromkeys(self.sections, 0)
        self.made = dict.fromkeys(self.sections, 0)
        gdb.execute('set print demangle off')
        places = {s: gdb.execute('info symbol %#x' % s[0], to_string=True).split() for s in self.sections}
        self.places = {s: words[0] + '+' + (words[2] if words[1] == '+' else '0') for s, words in places.items()}
        self.early = [s for s, place in self.places.items() if place.startswith(EARLY)]
        self.wanted = [s for s, place in self.places.items() if place in os.environ['TEST_WANTED'].split(',')]
        while self.calls['section'] < wanted or self.calls['inside'] < wanted / 4:
            if sum(self.stops.values()) > STOPS_FOR_CALL * wanted:
                # Threads run on while one is stopped at a breakpoint: some stops are beside what they were meant for.
                raise gdb.GdbError('too few stops where it matters: %s' % self.stops)
            section = None
            if self.random.random() < 0.75:
                section = self.choose()
                place = self.stop_in_section(section)
            else:
                place = self.stop_in_slow_path()
            self.stops[place] += 1
            for _ in range(self.random.randint(1, CALLS)):
                self.calls[place] += 1
                if place == 'section':
                    self.made[section] += 1
                self.call()
        for address in list(self.blocks):
            self.free(address)
        gdb.execute('set variable stop = 1')
        gdb.execute('continue', to_string=True)
        code = gdb.parse_and_eval('$_exitcode')
        if code.type.code == gdb.TYPE_CODE_VOID or int(code) != 0:
            raise gdb.GdbError('the program ended badly: %s' % code)
        for section in self.sections:
            print('%d%s%s' % (self.made[section], CALLS_IN, self.places[section]))
        print('passed: stops %s, calls %s, %d of them compiled, at %d instructions of %d sections of %d' % (
            self.stops, self.calls, self.compiled, len(self.instructions),
            sum(n > 0 for n in self.made.values()), len(self.sections)))

    def choose(self):
        """A section with few calls so far, unless the program rarely comes there."""
        most = int(os.environ['TEST_CALLS']) // EARLY_FRACTION
        early = [s for s in self.early if self.missed[s] < MISSES and self.made[s] < most]
        wanted = [s for s in self.wanted if self.missed[s] < MISSES + self.made[s]]
        if early or (wanted and self.random.random() < 0.5):
            return self.random.choice(early or wanted)
        return min(self.sections, key=lambda s: (self.made[s] + 1) * 2 ** min(self.missed[s], 40) * self.random.uniform(0.5, 1))

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
        self.tick.ignore_count = TICKS
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

    def stop_in_section(self, section):
        code = gdb.selected_frame().architecture().disassemble(section[0], section[1] - 1)
        address = self.random.choice(code)['addr']
        if self.go_to('*%#x' % address):
            self.instructions.add(address)
            return 'section'
        self.missed[section] += 1
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
