#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sallocctl on cores that are damaged, huge, or of another file system: read, or refused by what is wrong with them.

usage: cores.py LIBRARY SALLOCCTL WIDE CHURN CASE
The core is the kernel's own, or gdb's where the kernel's goes elsewhere. Each damage is made to a copy of it.
"""
import gzip
import os
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
COMMANDS = (['report', '--by', 'stack'], ['leaks'], ['stats'], ['profile', '-o', 'x.txt'])
PT_LOAD, PT_NOTE, PN_XNUM = 1, 4, 0xffff
HEADER, SEGMENT, SECTION = struct.Struct('<16sHHIQQQIHHHHHH'), struct.Struct('<IIQQQQQQ'), struct.Struct('<IIQQQQIIQQ')
NT_PRSTATUS, NT_AUXV, NT_FILE = 1, 6, 0x46494c45


class Core:
    """A core in memory."""

    def __init__(self, path):
        with open(path, 'rb') as f:
            self.data = bytearray(f.read())
        self.header = list(HEADER.unpack_from(self.data))
        self.at, self.count = self.header[5], self.header[10]
        self.segments = [list(SEGMENT.unpack_from(self.data, self.at + 56 * i)) for i in range(self.count)]

    def notes(self):
        """[place of the header, type, place of the body, its bytes]"""
        for kind, _, offset, _, _, bytes_, _, _ in self.segments:
            at = offset
            while kind == PT_NOTE and at < offset + bytes_:
                name, body, note = struct.unpack_from('<III', self.data, at)
                yield at, note, at + 12 + (name + 3 & ~3), body
                at += 12 + (name + 3 & ~3) + (body + 3 & ~3)

    def place(self, address):
        """Where in the file memory lies."""
        for kind, _, offset, start, _, bytes_, _, _ in self.segments:
            if kind == PT_LOAD and start <= address < start + bytes_:
                return offset + address - start
        raise AssertionError(hex(address))

    def files(self):
        """{path: [(start, place in the file)]}, from the note."""
        _, _, at, bytes_ = next(n for n in self.notes() if n[1] == NT_FILE)
        count, page = struct.unpack_from('<QQ', self.data, at)
        names = bytes(self.data[at + 16 + 24 * count:at + bytes_]).split(b'\0')
        found = {}
        for i in range(count):
            start, _, offset = struct.unpack_from('<QQQ', self.data, at + 16 + 24 * i)
            found.setdefault(names[i].decode(), []).append((start, offset * page))
        return found


class Test:
    def __init__(self, library, tool, wide, churn, folder):
        self.library, self.tool, self.wide, self.churn, self.folder = library, tool, wide, churn, folder
        self.processes = []

    def start(self, program, *arguments, library=None):
        env = dict(os.environ, LD_PRELOAD=library or self.library, SALLOC_CONF='sample_interval:16k')
        p = subprocess.Popen([program, *arguments], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self.folder,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (-1, -1)))
        self.processes.append(p)
        p.stdout.readline()
        return p

    def core(self, p):
        path = os.path.join(self.folder, 'core.made')
        with open('/proc/sys/kernel/core_pattern') as f:
            ours = f.read().strip() == 'core'
        if not ours and not shutil.which('gcore'):
            print('skipped: cores go elsewhere, and there is no gcore')
            sys.exit(SKIPPED)
        if not ours:
            subprocess.run(['gcore', '-o', path, str(p.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            os.rename('%s.%d' % (path, p.pid), path)
        p.send_signal(6)
        p.wait()
        for name in os.listdir(self.folder) if ours else []:
            if re.fullmatch(r'core(\.\d+)?', name):
                os.rename(os.path.join(self.folder, name), path)
        return path

    def run(self, *arguments):
        result = subprocess.run([self.tool, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                                timeout=60, universal_newlines=True, cwd=self.folder)
        assert result.returncode >= 0, (arguments, result)
        return result

    def write(self, name, data):
        path = os.path.join(self.folder, name)
        with open(path, 'wb') as f:
            f.write(data)
        return path

    def refused(self, path, pattern, codes=(3, 7), but=()):
        """Each command says what is wrong. but: commands that may succeed, with that as a warning."""
        for command in COMMANDS:
            result = self.run(*command, path)
            assert 'does not run on salloc' not in result.stderr, (path, command, result.stderr)
            assert re.search(pattern, result.stderr), (path, command, result)
            assert result.returncode in codes or (not result.returncode and command[0] in but), (path, command, result)

    def end(self):
        for p in self.processes:
            p.kill()
            p.wait()


def changed(core, at, bytes_):
    data = bytearray(core.data)
    data[at:at + len(bytes_)] = bytes_
    return bytes(data)


def damage(test):
    path = test.core(test.start(test.wide, 'table', '2', '64'))
    core = Core(path)
    assert test.run('report', path).returncode == 0
    data, size = bytes(core.data), len(core.data)
    seen = ('report', 'stats', 'profile')  # these go on with what is there
    test.refused(test.write('empty', b''), 'it is empty')
    for bytes_ in (4, 10, 63):
        test.refused(test.write('cut', data[:bytes_]), 'it is cut')
    for bytes_ in (64, 65, 64 + 56 * 2 + 8):
        test.refused(test.write('cut', data[:bytes_]), r'it is cut: it has \d+ bytes, and not the headers')
    notes = next(s for s in core.segments if s[0] == PT_NOTE)
    for bytes_ in (core.at + 56 * core.count, notes[2] + notes[5] - 1):
        test.refused(test.write('cut', data[:bytes_]), r'it is cut: it has \d+ of \d+ bytes, and not its notes')
    end = max(s[2] + s[5] for s in core.segments)
    assert end <= size
    rng = random.Random(5)
    for bytes_ in [notes[2] + notes[5], end // 2, end - 1] + [rng.randrange(notes[2] + notes[5], end) for _ in range(12)]:
        test.refused(test.write('cut', data[:bytes_]), r'it is cut: it has %d of %d bytes' % (bytes_, end), but=seen)
    test.refused(test.write('class', changed(core, 4, b'\1')), '32-bit')
    test.refused(test.write('order', changed(core, 5, b'\2')), 'big-endian')
    test.refused(test.write('type', changed(core, 16, b'\2')), 'no core file, but a program')
    test.refused(test.write('entries', changed(core, 54, b'\x20')), 'header makes no sense')
    test.refused(test.write('none', changed(core, 56, b'\0\0')), 'header makes no sense')
    test.refused(test.write('far', changed(core, 32, b'\xff' * 7)), 'it is cut|makes no sense')
    first = next(i for i, s in enumerate(core.segments) if s[0] == PT_LOAD and s[5])
    test.refused(test.write('offset', changed(core, core.at + 56 * first + 8, b'\xff' * 8)),
                 'segment %d makes no sense' % first)
    files = next(n for n in core.notes() if n[1] == NT_FILE)
    # Without that note the loader's list is asked, and without the vector that leads there, none.
    listless = test.write('list', changed(core, files[0] + 8, b'\0\0\0\7'))
    for command in COMMANDS[:2]:
        assert test.run(*command, listless).stdout == test.run(*command, path).stdout
    vector = next(n for n in core.notes() if n[1] == NT_AUXV)
    lost = bytearray(changed(core, files[0] + 8, b'\0\0\0\7'))
    lost[vector[0] + 8:vector[0] + 12] = b'\0\0\0\7'
    test.refused(test.write('lists', bytes(lost)), 'lacks the list of mapped files')
    test.refused(test.write('count', changed(core, files[2], b'\xff' * 8)), 'notes make no sense')
    test.refused(test.write('length', changed(core, files[0] + 4, b'\xff' * 4)), 'notes make no sense')
    state = bytearray(data)
    for note in core.notes():
        if note[1] == NT_PRSTATUS:
            state[note[0] + 8:note[0] + 12] = b'\0\0\0\7'
    test.refused(test.write('state', bytes(state)), 'lacks the registers', but=seen)
    library = os.path.realpath(test.library)
    start = next(start for start, place in core.files()[library] if not place)
    test.refused(test.write('page', changed(core, core.place(start), bytes(4096))),
                 'lacks the first page of ' + re.escape(library))
    test.refused(test.wide, 'no core file, but a program')
    test.refused(test.folder, 'folder|directory', codes=(1, 3))
    test.refused(test.write('core.gz', gzip.compress(data, 1)), 'compressed by gzip')
    longer = test.write('longer', data)
    os.truncate(longer, size + (1 << 30))
    assert test.run('report', longer).returncode == 0


def many(test):
    """More segments than the header can count, as of a process with so many mappings: their number is in a section."""
    path = test.core(test.start(test.wide, 'table', '2', '64'))
    core, wanted = Core(path), [test.run(*command, path).stdout for command in COMMANDS[:2]]
    for count in (65535, 140000):
        data = bytearray(core.data)
        data += bytes(-len(data) % 8)
        more = [SEGMENT.pack(PT_LOAD, 6, 0, (1 << 44) + 8192 * i, 0, 8 * (i % 2), 4096, 4096)
                for i in range(count - core.count)]
        table = len(data)
        data += b''.join(SEGMENT.pack(*s) for s in core.segments) + b''.join(more)
        header = list(core.header)
        header[5], header[6], header[10], header[11], header[12] = table, len(data), PN_XNUM, 64, 1
        HEADER.pack_into(data, 0, *header)
        whole = data + SECTION.pack(0, 0, 0, 0, 0, 1, 0, count, 0, 0)
        name = test.write('many', whole)
        for command, text in zip(COMMANDS, wanted):
            result = test.run(*command, name)
            assert result.returncode == 0 and result.stderr == '' and result.stdout == text, (count, result)
        assert test.run('stats', name).returncode == 0
        test.refused(test.write('many', data), 'it is cut: it has 65,535 segments or more')
        test.refused(test.write('many', data + SECTION.pack(0, 0, 0, 0, 0, 1, 0, 1 << 30, 0, 0)), 'it has 1073741824 segments')


def sysroot(test):
    """Files that are not where they were, but below another folder, at the same paths."""
    inside = os.path.join(test.folder, 'inside')
    os.mkdir(inside)
    program, library = (shutil.copy(p, os.path.join(inside, n))
                        for p, n in ((test.churn, 'program'), (os.path.realpath(test.library), 'library.so')))
    p = test.start(program, '8', library=library)
    time.sleep(0.3)
    path = test.core(p)
    wanted = test.run('report', '--by', 'line', path)
    assert wanted.returncode == 0 and 'churn.c:' in wanted.stdout, wanted
    root = os.path.join(test.folder, 'root')
    os.makedirs(os.path.dirname(root + inside))
    os.rename(inside, root + inside)
    test.refused(path, re.escape(library) + ', must be where it was.*--sysroot')
    for given in (root, root + '/'):
        for command in COMMANDS:
            result = test.run(*command, '--sysroot', given, path)
            assert result.returncode == 0, (command, result)
        assert test.run('report', '--by', 'line', '--sysroot', given, path).stdout == wanted.stdout
    # Another file there is not taken for the one that was mapped.
    with open(root + library, 'r+b') as f:
        f.seek(100)
        f.write(b'another')
    assert test.run('report', '--sysroot', root, path).returncode == 7
    assert test.run('report', '--sysroot', path, path).returncode == 2


def compressed(test):
    """Debug information that is compressed is read, or the reason says that it is not."""
    if not shutil.which('objcopy'):
        print('skipped: there is no objcopy')
        sys.exit(SKIPPED)
    for how in ('zlib', 'zlib-gnu', 'zstd'):
        program = shutil.copy(test.churn, os.path.join(test.folder, 'program.' + how))
        if subprocess.run(['objcopy', '--compress-debug-sections=' + how, program], stderr=subprocess.DEVNULL).returncode:
            continue
        p = test.start(program, '8')
        time.sleep(0.3)
        result = test.run('report', '--by', 'line', str(p.pid))
        assert result.returncode == 0, result
        assert 'churn.c:' in result.stdout or (how == 'zstd' and program in result.stderr and
                                               'compressed by zstd' in result.stderr), (how, result)
        p.kill()


def main():
    case = sys.argv[5]
    with tempfile.TemporaryDirectory() as folder:
        test = Test(*map(os.path.abspath, sys.argv[1:5]), os.path.realpath(folder))
        try:
            {'damage': damage, 'many': many, 'sysroot': sysroot, 'compressed': compressed}[case](test)
        finally:
            test.end()


main()
