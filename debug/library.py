# SPDX-License-Identifier: Apache-2.0
"""salloc's script for gdb; doc/gdb.md describes it. gdb loads it with the library, or by `source`. The build joins the
files of this folder to one script, in the order of meson.build, so they share one namespace.

The script has two parts:

* It makes calls of functions in the program (call, print, compile) safe at any instruction. The kernel restarts a
  critical section that was interrupted, unless the thread was sent elsewhere first. A call does that. So the script
  arms an interrupted section again when the call has ended. While a call runs, the library knows of it
  (sa_fork_gate.debugger).
* `salloc info`, `salloc heap` and `salloc stats` show the heap of a process or a core. They read memory and call
  nothing.

The script knows the library's records from the library's section salloc_layout (alloc/base/layout.h). This file
reads that section, and memory. All state belongs to gdb's own thread.
"""
import re
import struct

import gdb

WORD = 8
UNIT = 16  # bytes: what the bitmaps of mixed spans count in
RSEQ_DESCRIPTOR = struct.Struct('<IIQQQ')  # version, flags, start, length, abort handler
LAYOUT_NAME = 48  # SA_LAYOUT_NAME
BLOCK_BYTES = 16384  # bytes read at a time


class Memory:
    """The program's memory, read in blocks and cached. An object serves one command: the program may change
    afterwards."""

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
        """Returns a block, or None if a part of it cannot be read."""
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
    """A copy of salloc in the program, as its section salloc_layout describes it.

    variable: addresses by name; constant: values and sizes by name; field: (offset, bytes) by 'type.name'. layout and
    descriptors are (begin, end) of the sections salloc_layout and __rseq_cs."""

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
        """Returns a field, named 'type.name', of the record at an address."""
        offset, size = self.field[field]
        return memory.number(record + offset, size)

    def global_field(self, memory, variable, field):
        """Returns a field of a variable."""
        return self.get(memory, self.variable[variable], field)

    def started(self, memory):
        """Whether this copy has served an allocation: the limit of malloc's fast path is 0 before."""
        return self.global_field(memory, 'sa_hot', 'sa_hot.mid_limit') != 0

    def section_at(self, pc):
        """Returns the addresses of (descriptor, abort handler) of the critical section that contains pc, or None."""
        begin, end = self.descriptors
        data = bytes(gdb.selected_inferior().read_memory(begin, end - begin))
        for at in range(0, len(data) - RSEQ_DESCRIPTOR.size + 1, RSEQ_DESCRIPTOR.size):
            _, _, start, length, handler = RSEQ_DESCRIPTOR.unpack_from(data, at)
            if length and 0 <= pc - start < length:
                return begin + at, handler
        return None


SECTION = re.compile(r'^\s*(0x[0-9a-f]+) - (0x[0-9a-f]+) is (salloc_layout|__rseq_cs)(?: in (.*))?$')


def find_libraries():
    """Returns all copies in the program. The names of sections find them, which stripping does not remove."""
    found = {}
    for line in gdb.execute('info files', to_string=True).splitlines():
        match = SECTION.match(line)
        if match:
            begin, end, section, name = match.groups()
            found.setdefault(name or 'the program', {})[section] = (int(begin, 16), int(end, 16))
    return [Library(name, sections['salloc_layout'], sections['__rseq_cs'])
            for name, sections in found.items() if len(sections) == 2]


known = {}  # libraries by program space, since the last change of the program's files


def forget(_=None):
    """The program has loaded or unloaded a file, or has ended."""
    known.clear()


def libraries():
    """Returns the copies of salloc in the current program. Empty: none, or their memory cannot be read now."""
    space = gdb.current_progspace()
    if space not in known:
        try:
            known[space] = find_libraries()
        except gdb.MemoryError:
            return []
    return known[space]
