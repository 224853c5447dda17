#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ring of an event trace, read from outside of a running process as doc/events.md says: by the description that the
library has of itself, without stopping anything. What passes the rule is whole: frees have the sizes and the stacks of
their allocations.

usage: event_ring.py LIBRARY PROGRAM    (PROGRAM: test/outside/process_life/control.c)
"""
import os
import re
import socket
import struct
import subprocess
import sys
import time

LIBRARY, PROGRAM = map(os.path.abspath, sys.argv[1:3])


class Target:
    """A process, and the names that the library gives to its memory."""

    def __init__(self, pid):
        self.memory = open('/proc/%d/mem' % pid, 'rb', buffering=0)
        with open('/proc/%d/maps' % pid, encoding='utf-8') as f:
            base = min(int(line.split('-')[0], 16) for line in f if os.path.realpath(LIBRARY) in line)
        sections = subprocess.run(['readelf', '-SW', LIBRARY], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
        at, offset, size = (int(n, 16) for n in re.search(r' salloc_layout +\w+ +(\w+) (\w+) (\w+)', sections).groups())
        with open(LIBRARY, 'rb') as f:
            f.seek(offset)
            section = f.read(size)
        self.names = {}
        i = 0
        while i + 56 <= size:
            name = section[i:i + 48].split(b'\0')[0].decode()
            value = struct.unpack_from('<q', section, i + 48)[0]
            if not name:  # padding between files
                i += 8
                continue
            self.names[name] = base + at + i + 48 + value if name.startswith('&') else value
            i += 56

    def read(self, address, size):
        return os.pread(self.memory.fileno(), size, address)

    def field(self, data, base, name):
        """A field of a struct whose bytes begin at data[base]."""
        value = self.names[name]
        offset, size = value & 0xffffffff, value >> 32
        data = data[base + offset:base + offset + size]
        return struct.unpack('<d', data)[0] if name.endswith(('.p', '.interval')) else int.from_bytes(
            data, 'little', signed=name.endswith(('cpu', 'guarded')))


class Ring:
    def __init__(self, target):
        self.target, self.next = target, 0
        size = target.names['struct slot']
        for i in range(target.names['SA_RECORDINGS']):
            slot = target.read(target.names['&recordings'] + i * size, size)
            if target.field(slot, 0, 'struct slot.runs') and self.of(slot, 'struct sa_recording.type') == 5:
                self.address, self.size = target.names['&recordings'] + i * size, size
                self.token = target.field(slot, 0, 'struct slot.generation') * target.names['SA_RECORDINGS'] + i
                return
        raise AssertionError('no trace')

    def of(self, slot, name):
        base = self.target.names['struct slot.recording'] & 0xffffffff
        if 'sa_event_ring' in name:
            base += self.target.names['struct sa_recording.events'] & 0xffffffff
        return self.target.field(slot, base, name)

    def stack(self, address):
        t = self.target
        if not address:
            return None
        head = t.read(address, t.names['struct sa_stack.pc'] & 0xffffffff)
        depth = min(t.field(head, 0, 'struct sa_stack.depth'), 64)
        return t.read(address + (t.names['struct sa_stack.pc'] & 0xffffffff), 8 * depth)

    def take(self):
        """(events, lost) since the last call; an event is (number, fields)."""
        t, width = self.target, self.target.names['struct sa_ring_event']
        slot = t.read(self.address, self.size)
        records, cap, written = (self.of(slot, 'struct sa_event_ring.' + n) for n in ('records', 'cap', 'written'))
        first = max(self.next, written - cap)
        copied = {}
        for n in range(first, written):
            data = t.read(records + n % cap * width, width)
            event = {name: t.field(data, 0, 'struct sa_ring_event.' + name) for name in
                     ('handle', 'time_ns', 'free_time_ns', 'stack', 'free_stack', 'p', 'requested', 'allocated', 'tid', 'cpu')}
            event['stack'], event['free_stack'] = self.stack(event['stack']), self.stack(event['free_stack'])
            copied[n] = event
        begun = self.of(t.read(self.address, self.size), 'struct sa_event_ring.begun')
        whole = [(n, event) for n, event in copied.items() if n >= begun - cap]
        lost = written - self.next - len(whole)
        self.next = written
        return whole, lost


def check(events):
    """Events of one block say the same. Returns the number of blocks whose allocation and free are there."""
    blocks, pairs, last = {}, 0, 0
    for _, e in events:
        assert 0 < e['handle'] < 1 << 40 and e['requested'] <= e['allocated'] < 10000 and e['p'] == 1, e
        assert -1 <= e['cpu'] < 10000 and len(e['stack']) % 8 == 0, e
        if not e['free_time_ns']:
            assert e['handle'] > last, e
            last = e['handle']
            blocks[e['handle']] = e
            continue
        assert e['free_time_ns'] >= e['time_ns'] and e['free_stack'], e
        allocated = blocks.pop(e['handle'], None)
        if allocated:
            pairs += 1
            for name in 'time_ns', 'requested', 'allocated', 'stack', 'p':
                assert allocated[name] == e[name], (name, allocated, e)
    return pairs


def main():
    process = subprocess.Popen([PROGRAM, 'serve'], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env={**os.environ, 'LD_PRELOAD': LIBRARY, 'SALLOC_CONF': 'control:on,sample_interval:1'})
    try:
        process.stdout.readline()
        with open('/proc/net/unix', encoding='ascii', errors='replace') as f:
            name = re.search(r'@(salloc\.%d\.\d+)$' % process.pid, f.read(), re.M).group(1)
        client = socket.socket(socket.AF_UNIX)
        client.connect('\0' + name)
        client.sendall(b'trace start 20000 60\n')
        token = int(client.recv(100).split()[1])
        client.close()
        try:
            target = Target(process.pid)
            target.read(target.names['&recordings'], 8)
        except PermissionError:
            print('skipped: the memory of other processes cannot be read here')
            sys.exit(77)
        ring = Ring(target)
        assert ring.token == token, (ring.token, token)
        events, lost, end = [], 0, time.monotonic() + 2
        while time.monotonic() < end:
            more, missed = ring.take()
            events += more
            lost += missed
        assert [n for n, _ in events] == sorted({n for n, _ in events})
        pairs = check(events)
        assert pairs > 100, (pairs, len(events), lost)
        print('%d events, %d blocks from allocation to free, %d lost' % (len(events), pairs, lost))
    finally:
        process.kill()
        process.communicate()


main()
