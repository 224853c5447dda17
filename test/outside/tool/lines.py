#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Source lines and inlined functions that sallocctl finds, against addr2line, which shares no code with it.

usage: lines.py LIBRARY SALLOCCTL PROGRAM CASE
"""
import fcntl
import os
import pty
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'readers'))
from proto import Profile  # noqa: E402

BUILD_ID = '.note.gnu.build-id'


class Test:
    def __init__(self, library, tool, program, folder):
        self.library, self.tool, self.program, self.folder = library, tool, program, folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def profile(self, name='own.pb.gz'):
        path = self.path(name)
        env = dict(os.environ, LD_PRELOAD=self.library, SALLOC_CONF=f'sample_interval:4096,profile:{path}')
        subprocess.run([self.program], env=env, check=True)
        return path

    def lines(self, path, warns=False):
        made = self.path('lines.pb.gz')
        env = {k: v for k, v in os.environ.items() if k != 'DEBUGINFOD_URLS'}
        result = subprocess.run([self.tool, 'convert', '--lines', path, made], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                check=False, universal_newlines=True, env=env, timeout=60)
        assert result.returncode == 0 and result.stdout == '' and (result.stderr != '') == warns, result
        return made, result.stderr

    def copy_program(self, name='copy'):
        """The program elsewhere, for a test that changes it."""
        self.program = shutil.copy(self.program, self.path(name))


def largest(profile, metric='alloc_space', count=20):
    """The locations of the largest stacks."""
    column = [name for name, _ in profile.types].index(metric)
    stacks = {}
    for ids, values, _ in profile.samples:
        stacks[tuple(ids)] = stacks.get(tuple(ids), 0) + values[column]
    best = sorted(stacks, key=lambda s: -stacks[s])[:count]
    return sorted({i for stack in best for i in stack})


def of_program(test, profile):
    """{location id: address in the program's file}."""
    loads = re.findall(r'LOAD +(0x\w+) (0x\w+) 0x\w+ (0x\w+)',
                       subprocess.run(['readelf', '-lW', test.program], stdout=subprocess.PIPE, check=True,
                                      universal_newlines=True).stdout)
    result = {}
    for i, (mapping, address, _) in profile.locations.items():
        m = profile.mappings.get(mapping)
        if not m or profile.strings[m[5]] != os.path.realpath(test.program):
            continue
        offset = address - m[2] + m.get(4, 0)
        for start, virtual, size in ((int(a, 16), int(b, 16), int(c, 16)) for a, b, c in loads):
            if start <= offset < start + size:
                result[i] = offset - start + virtual
    return result


def addr2line(test, addresses):
    """For each address what addr2line says: [(function, file, line)], the innermost first."""
    command = ['addr2line', '-a', '-i', '-f', '-C', '-e', test.program]
    text = subprocess.run(command + [hex(a) for a in addresses], stdout=subprocess.PIPE, check=True,
                          universal_newlines=True).stdout
    result = []
    for line in text.splitlines():
        if re.match(r'0x[0-9a-f]{16}$', line):
            result.append([])
            function = None
        elif function is None:
            function = line
        else:
            file, number = re.sub(r' \(discriminator \d+\)', '', line).rsplit(':', 1)
            result[-1].append((function, file, int(number) if number.isdigit() else 0))
            function = None
    return result


def same_file(ours, theirs):
    return os.path.normpath(ours) == os.path.normpath(theirs) or (ours, theirs) == ('', '??')


def expect_lines(test, made):
    """Every location of the program in the 20 largest stacks is as addr2line says."""
    where = of_program(test, made)
    chosen = [i for i in largest(made) if i in where]
    inlined = deep = 0
    for i, expected in zip(chosen, addr2line(test, [where[i] for i in chosen])):
        found = made.lines[i]
        names, theirs = [f[0] for f in found], [f[0] for f in expected]
        if len(found) > 1 and found[0][0] == found[0][1] and theirs[0] == theirs[-1]:
            names[0] = theirs[0]  # addr2line names an inlined function without a mangled name as the one around it
        assert names == theirs, (hex(where[i]), found, expected)
        assert all(same_file(f[2], e[1]) and f[3] == e[2] for f, e in zip(found, expected)), (hex(where[i]), found, expected)
        inlined += len(found) > 1
        deep = max(deep, len(found))
    assert len(chosen) > 10 and inlined > 3 and deep > 2, (len(chosen), inlined, deep)
    print(f'{len(chosen)} locations, {inlined} with inlined functions, up to {deep}')


def same_samples(own, made):
    assert made.samples == own.samples and made.types == own.types and made.comments == own.comments
    assert {i: l[:2] for i, l in made.locations.items()} == {i: l[:2] for i, l in own.locations.items()}
    assert sorted(made.function_ids) == list(range(1, len(made.function_ids) + 1)), 'numbers of functions have gaps'


def case_inlined(test):
    """Functions, files, lines and inlined functions; everything else stays as it was."""
    path = test.profile()
    own, made = Profile(path), Profile(test.lines(path)[0])
    same_samples(own, made)
    expect_lines(test, made)
    program = [m for m in made.mappings.values() if made.strings[m[5]] == os.path.realpath(test.program)]
    assert any(all(m.get(field) for field in (7, 8, 9, 10)) for m in program), program
    again = Profile(test.lines(test.lines(path)[0])[0])
    assert again.lines == made.lines, 'lines that are there change'
    if shutil.which('go'):
        raw = subprocess.run(['go', 'tool', 'pprof', '-symbolize=none', '-lines', '-top', '-alloc_space', test.lines(path)[0]],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True, universal_newlines=True,
                             env=dict(os.environ, HOME=test.folder)).stdout
        assert re.search(r'inlined\w*\.cc:\d+', raw) and '(inline)' in raw, raw


def case_separate(test):
    """Without debug information, names are those of the profile; a separate file brings it back."""
    test.copy_program()
    whole = shutil.copy(test.program, test.path('whole'))
    subprocess.run(['objcopy', '--only-keep-debug', test.program, test.path('copy.debug')], check=True)
    subprocess.run(['objcopy', '--strip-debug', '--add-gnu-debuglink=' + test.path('copy.debug'), test.program], check=True)
    path = test.profile()
    made = Profile(test.lines(path)[0])
    same_samples(Profile(path), made)
    stripped, test.program = test.program, whole  # addr2line has the whole one
    made.strings = [s if s != os.path.realpath(stripped) else os.path.realpath(whole) for s in made.strings]
    expect_lines(test, made)
    test.program = stripped
    os.remove(test.path('copy.debug'))
    without = Profile(test.lines(path)[0])
    where = of_program(test, without)
    own = Profile(path)
    assert any(without.lines[i] != own.lines[i] for i in where), 'names are not demangled'
    for i in where:
        assert [f[1] for f in without.lines[i]] == [f[1] for f in own.lines[i]], (without.lines[i], own.lines[i])
    assert not any(f[2] or f[3] for i in where for f in without.lines[i])


def case_other(test):
    """A program that was replaced is named once, and not used; nor one without a build id that is newer."""
    test.copy_program()
    path = test.profile()
    with open(test.program, 'rb') as f:
        data = bytearray(f.read())
    notes = subprocess.run(['readelf', '-n', test.program], stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout
    build_id = bytes.fromhex(re.search(r'Build ID: (\w+)', notes).group(1))
    at = data.index(build_id)
    data[at] ^= 1
    os.remove(test.program)
    with open(test.program, 'wb') as f:
        f.write(data)
    os.chmod(test.program, 0o755)
    made, warning = test.lines(path, warns=True)
    assert warning.count('\n') == 1 and os.path.realpath(test.program) in warning and build_id.hex() in warning, warning
    made = Profile(made)
    where = of_program(test, made)
    assert len(where) > 5 and not any(f[2] or f[3] for i in where for f in made.lines[i])
    assert any('shop::' in f[0] for i in where for f in made.lines[i]), 'names of the profile are lost'
    for change, warns in ((0, False), (3600, True)):
        subprocess.run(['objcopy', '--remove-section', BUILD_ID, test.program], check=True)
        path = test.profile()
        os.utime(test.program, (os.stat(path).st_mtime + change - 60,) * 2)
        made = Profile(test.lines(path, warns=warns)[0])
        where = of_program(test, made)
        assert any(f[3] for i in where for f in made.lines[i]) != warns


def human(number):
    """Bytes with a unit, as the report has them."""
    unit = 'B'
    for larger in ('KiB', 'MiB', 'GiB'):
        if number >= 1023.95:
            number, unit = number / 1024, larger
    return f'{number:.0f} B' if unit == 'B' else f'{number:.1f} {unit}'


def case_report(test):
    """Rows by line and by stack: the sums of the file with lines; and no line of a terminal is too long."""
    path = test.profile()
    made = Profile(test.lines(path)[0])
    column = [name for name, _ in made.types].index('alloc_space')
    flat, stacks, addresses = {}, {}, set()
    for ids, values, _ in made.samples:
        if not values[column]:
            continue
        frames = [(f[0], f'{f[2]}:{f[3]}' if f[3] else f[2]) for i in ids for f in made.lines[i]]
        if all(made.lines[i] for i in ids):
            stacks[tuple(frames)] = stacks.get(tuple(frames), 0) + values[column]
            addresses.add(tuple(ids))
        if made.lines[ids[0]]:
            key = frames[0][1] or frames[0][0]
            flat[key] = flat.get(key, 0) + values[column]
    text = subprocess.run([test.tool, 'report', '-m', 'alloc_space', '-b', 'line,stack', '-n', '0', path],
                          stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout
    tables = text.split('\n\n')[1:]
    rows = {re.split(r'% +(?:-|[\d.]+ \w+) +(?:-|[\d.]+ \w+)  ', line, 1)[1]: ' '.join(line.split()[:2]) for line in tables[0].splitlines()[2:]}
    assert {key: human(flat[key]) for key in flat} == {key: rows[key] for key in flat}, (flat, rows)
    assert sum('inlined' in key for key in flat) >= 3, flat
    found = {}
    for row in re.split(r'\n(?= *[\d.]+ \w+ +[\d.]+%)', tables[2])[1:]:
        first, *frames = row.splitlines()
        frames = tuple(tuple((f.strip().split('  ') + [''])[:2]) for f in frames)
        assert frames not in found, 'a stack is there twice'
        found[frames] = ' '.join(first.split()[:2])
    assert {key: human(n) for key, n in stacks.items()} == {key: found[key] for key in stacks}
    assert len(stacks) < len(addresses), 'no stacks differ in addresses only'
    for width in (80, 97, 200):
        terminal, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack('HHHH', 50, width, 0, 0))
        with subprocess.Popen([test.tool, 'report', '-m', 'alloc_space', path], stdout=other) as process:
            os.close(other)
            text = b''
            try:
                while more := os.read(terminal, 65536):
                    text += more
            except OSError:  # the other end is closed
                pass
        os.close(terminal)
        assert process.returncode == 0 and text.count(b'\n') > 50
        longest = max(len(line) for line in text.decode().split('\r\n'))
        assert longest <= width and (longest > 79 or width == 80), (width, longest)


def case_scopes(test):
    """Inlined functions without a mangled name have the names of what is around them: lambdas, anonymous namespaces."""
    made = Profile(test.lines(test.profile())[0])
    names = {re.sub(r'\(unsigned long\)( const)?$|^void\* ', '', f[0]) for frames in made.lines.values() for f in frames}
    for pattern in (r'shop::\(anonymous namespace\)::pack::put', r'shop::\(anonymous namespace\)::plain',
                    r'shop::\(anonymous namespace\)::typed<long( int)?>', r'main::local::get', r'shop::keep::{0}::operator\(\)',
                    r'main::{0}::operator\(\)'):
        pattern = pattern.replace('keep::', r'keep(\(int\))?::').replace('{0}', r'(\(unnamed at line \d+\)|\$_\d+|.*lambda.*)')
        assert [n for n in names if re.fullmatch(pattern, n)], (pattern, names)
    assert 'operator()' not in names and 'put' not in names and 'main' in names, names


def case_damaged(test):
    """Debug information that is changed at random: some lines or none, in time."""
    test.copy_program()
    path = test.profile()
    sections = subprocess.run(['readelf', '-SW', test.program], stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout
    places = [(int(at, 16), int(size, 16)) for at, size in re.findall(r' \.debug_\w+ +PROGBITS +\w+ (\w+) (\w+)', sections)]
    assert len(places) > 3, sections
    with open(test.program, 'rb') as f:
        good = f.read()
    own, chance, differ = Profile(test.lines(path)[0]), random.Random(7), 0
    for _ in range(15):
        data = bytearray(good)
        for _ in range(chance.choice((1, 30, 1000))):
            at, size = chance.choice(places)
            data[at + chance.randrange(size)] = chance.choice((0, 255, chance.randrange(256)))
        with open(test.program, 'r+b') as f:
            f.write(data)
        made = Profile(test.lines(path)[0])
        assert made.samples == own.samples
        differ += made.lines != own.lines
    assert differ > 3, differ


def main(library, tool, program, case):
    with tempfile.TemporaryDirectory() as folder:
        globals()['case_' + case](Test(*map(os.path.abspath, (library, tool, program)), folder))


if __name__ == '__main__':
    main(*sys.argv[1:])
