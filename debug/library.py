# SPDX-License-Identifier: Apache-2.0
"""gdb's side of salloc; doc/gdb.md describes it. gdb loads it with the library, or by `source`. The files of this folder are
put together to one, in the order of meson.build; so they share their names.

Two parts:

* Calls of functions in the program (call, print, compile) are made safe at any instruction. The kernel restarts a critical
  section that is interrupted, unless its thread is sent elsewhere first, which a call does; so a section that a call has
  interrupted is armed again when the call has ended. While a call runs, the library is told so (sa_fork_gate.debugger).
* `salloc info`, `salloc heap` and `salloc stats` read the heap of a process or of a core. They read memory and call nothing.

What is known of the library's records is in its section salloc_layout (alloc/base/layout.h).
"""
import re
import struct

import gdb

WORD = 8
RSEQ_DESCRIPTOR = struct.Struct('<IIQQQ')  # version, flags, start, length, abort handler
LAYOUT_NAME = 48
BLOCK_BYTES = 16384  # read at a time


class Memory:
    """The inferior's memory, read in blocks and remembered for the length of one command."""

    def __init__(self):
        self.inferior = gdb.selected_inferior()
        self.blocks = {}

    def read(self, address, size):
        first, last = address // BLOCK_BYTES, (address + size - 1) // BLOCK_BYTES
        if first == last:
            block = self.block(first)
            if block:
                at = address - first * BLOCK_BYTES
                return block[at:at + size]
        return bytes(self.inferior.read_memory(address, size))

    def block(self, number):
        if number not in self.blocks:
            try:
                self.blocks[number] = bytes(self.inferior.read_memory(number * BLOCK_BYTES, BLOCK_BYTES))
            except gdb.MemoryError:
                self.blocks[number] = None
        return self.blocks[number]

    def number(self, address, size=WORD):
        return int.from_bytes(self.read(address, size), 'little')

    def words(self, address, count):
        return struct.unpack('<%dQ' % count, self.read(address, count * WORD))


class Library:
    """A copy of salloc in the program: its variables by name, its constants, and the fields of its records."""

    def __init__(self, name, layout, descriptors):
        self.name = name
        self.descriptors = descriptors
        self.variable, self.constant, self.field = {}, {}, {}
        data = bytes(gdb.selected_inferior().read_memory(layout[0], layout[1] - layout[0]))
        at = 0
        while at + LAYOUT_NAME + WORD <= len(data):
            if not data[at]:
                at += WORD
                continue
            name = data[at:at + LAYOUT_NAME].split(b'\0')[0].decode()
            value, = struct.unpack_from('<q', data, at + LAYOUT_NAME)
            if name.startswith('&'):
                self.variable[name[1:]] = layout[0] + at + LAYOUT_NAME + value
            elif '.' in name:
                self.field[name.replace('struct ', '')] = (value & 0xffffffff, value >> 32 or WORD)
            else:
                self.constant[name.replace('struct ', '')] = value
            at += LAYOUT_NAME + WORD

    def get(self, memory, record, field):
        """A field of the record at an address; field is 'type.name'."""
        offset, size = self.field[field]
        return memory.number(record + offset, size)

    def global_field(self, memory, variable, field):
        return self.get(memory, self.variable[variable], field)

    def started(self, memory):
        return self.global_field(memory, 'sa_hot', 'sa_hot.mid_limit') != 0

    def section_at(self, pc):
        """(descriptor, abort handler) of the critical section that pc is in, or None."""
        begin, end = self.descriptors
        data = bytes(gdb.selected_inferior().read_memory(begin, end - begin))
        for at in range(0, len(data) - RSEQ_DESCRIPTOR.size + 1, RSEQ_DESCRIPTOR.size):
            _, _, start, length, handler = RSEQ_DESCRIPTOR.unpack_from(data, at)
            if length and 0 <= pc - start < length:
                return begin + at, handler
        return None


SECTION = re.compile(r'^\s*(0x[0-9a-f]+) - (0x[0-9a-f]+) is (salloc_layout|__rseq_cs)(?: in (.*))?$')


def find_libraries():
    """All copies in the program, by the names of their sections, which no stripping removes."""
    found = {}
    for line in gdb.execute('info files', to_string=True).splitlines():
        match = SECTION.match(line)
        if match:
            begin, end, section, name = match.groups()
            found.setdefault(name or 'the program', {})[section] = (int(begin, 16), int(end, 16))
    return [Library(name, sections['salloc_layout'], sections['__rseq_cs'])
            for name, sections in found.items() if len(sections) == 2]


known = {}  # program space: libraries


def forget(_=None):
    known.clear()


def libraries():
    space = gdb.current_progspace()
    if space not in known:
        try:
            known[space] = find_libraries()
        except gdb.MemoryError:
            return []
    return known[space]
