#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the library says of its records (alloc/base/layout.h) is what the compiler and the linker say.

Reads the note and the section salloc_layout of the built library. Each record's field and each constant is compared
with the compiler's opinion of the file that describes it, each variable's place with the symbol table.
usage: check_layout.py ROOT LIBRARY COMPILER...
"""
import os
import re
import struct
import sys
import tempfile

import lint

ENTRY = struct.Struct('<48sq')
NOTE_TYPE = 0x6c6c6173
OPTIONS = [] # the text of options.def
FLAGS = ['-fsyntax-only', '-x', 'c', '-std=gnu11', '-D_GNU_SOURCE', '-DSALLOC_VERSION="0"', '-DSA_HWLOC=0',
         '-Wno-unused-function', '-Wno-unknown-attributes']


def segments(data):
    """[(type, offset, address, bytes)] of the program headers."""
    at, size, count = struct.unpack_from('<Q', data, 32)[0], *struct.unpack_from('<HH', data, 54)
    for i in range(count):
        kind, _, offset, address, _, in_file = struct.unpack_from('<IIQQQQ', data, at + i * size)
        yield kind, offset, address, in_file


def note(data):
    """(version, begin, end) of the section, by the note; begin and end are places in the file, as both lie in the
    first segment."""
    for kind, offset, address, size in segments(data):
        at, end = offset, offset + size
        while kind == 4 and at < end:
            name, length, number = struct.unpack_from('<III', data, at)
            if number == NOTE_TYPE and data[at + 12:at + 19] == b'salloc\0':
                place = at + 12 + (name + 3 & ~3)
                version, entry, first, last = struct.unpack_from('<IIqq', data, place)
                assert entry == ENTRY.size and offset == address
                return version, place + 8 + first, place + 16 + last
            at += 12 + (name + 3 & ~3) + (length + 3 & ~3)
    return None


def entries(data, begin, end):
    while begin + ENTRY.size <= end:
        if not data[begin]:
            begin += 8
            continue
        name, value = ENTRY.unpack_from(data, begin)
        yield name.split(b'\0')[0].decode(), value, begin + 48
        begin += ENTRY.size


def described(text):
    """The C expressions of a file's SA_LAYOUT: [(name in the table, expression of its value)]."""
    for name in re.findall(r'SA_LAYOUT_(?:VALUE|SIZE)\(([^)]+)\)', text):
        yield name, '(long)%s' % (name if not name.startswith('struct') else 'sizeof(%s)' % name)
    for record, field in re.findall(r'SA_LAYOUT_FIELD\(\s*([\w ]+),\s*([\w.]+)\)', text):
        yield ('%s.%s' % (record, field),
               '(long)(__builtin_offsetof({0}, {1}) | (unsigned long)sizeof((({0} *)0)->{1}) << 32)'.format(record, field))
    yield from described_state(text)
    for record, field in re.findall(r'\{"([\w ]+)\.(\w+)", offsetof', text):
        yield '%s.%s' % (record, field), '(long)__builtin_offsetof(%s, %s)' % (record, field)


def described_state(text):
    """The same for what reports show."""
    place = '(long)(__builtin_offsetof(__typeof__({0}), {1}) | (unsigned long)sizeof(({0}).{1}) << 32)'
    for name, variable, field in re.findall(r'SA_LAYOUT_STATE\(\s*"([\w.]+)",\s*([\w.]+),\s*([\w.]+)\)', text):
        if name != 'sa_options':
            yield '=%s.%s' % (name, field), place.format(variable, field)
    for name, variable, field in re.findall(r'SA_LAYOUT_STATE_EACH\(\s*"([\w.]+)",\s*([\w.]+),\s*([\w.]+)\)', text):
        yield '=%s[].%s' % (name, field), place.format('%s[0]' % variable, field)
    for name, variable in re.findall(r'SA_LAYOUT_STATE_ALL\(\s*"([\w.]+)",\s*([\w.]+)\)', text):
        yield '=%s' % name, '(long)((unsigned long)sizeof(%s) << 32)' % variable
    for name, variable in re.findall(r'SA_LAYOUT_STATE_ARRAY\(\s*"([\w.]+)",\s*([\w.]+)\)', text):
        yield ('=%s[]' % name,
               '(long)(sizeof({0}[0]) | (unsigned long)(sizeof({0}) / sizeof({0}[0])) << 32)'.format(variable))
    if '"sa_options"' in text: # a list of its own
        for field in re.findall(r'^SA_OPTION\((\w+),', OPTIONS[0], re.M):
            yield '=sa_options.%s' % field, place.format('sa_options', field)


def check_variables(findings, library, places, named):
    symbols = {}
    for line in lint.output('nm', library).splitlines():
        parts = line.split()
        if len(parts) == 3:
            symbols.setdefault(re.sub(r'\..*$', '', parts[2]), set()).add(int(parts[0], 16))
    for name, address in places.items():
        if address not in symbols.get(named.get(name, name), ()):
            findings.add(library, None, 'no variable %s is at %#x' % (named.get(name, name), address))


def check_file(findings, root, path, values, compiler):
    with tempfile.NamedTemporaryFile('w', suffix='.c') as source:
        source.write('#include "%s"\n' % path)
        for name, expression in described(lint.read(root, path)):
            if name not in values:
                findings.add(path, None, '%s is not in the library' % name)
                continue
            source.write('_Static_assert(%s == %d, "%s");\n' % (expression, values[name], name))
            values[name, 'seen'] = True
        source.flush()
        result = lint.run(*compiler, *FLAGS, '-I', root, '-I', os.path.join(root, 'include'), source.name)
        if result.returncode != 0:
            findings.add(path, None, 'is not as the library says:\n%s' % result.stdout)


def main(root, library, *compiler):
    findings = lint.Findings()
    with open(library, 'rb') as f:
        data = f.read()
    OPTIONS.append(lint.read(root, 'alloc/api/options/options.def'))
    found = note(data)
    if not found:
        sys.exit('%s: no note' % library)
    version, begin, end = found
    values, places = {}, {}
    for name, value, place in entries(data, begin, end):
        if name.startswith('&'):
            places[name[1:]] = place + value
        elif values.setdefault(name, value) != value:
            findings.add(library, None, '%s has two values' % name)
    if values.get('SA_LAYOUT_VERSION') != version:
        findings.add(library, None, 'the note has another version')
    names, named, addressed, used = list(values), {}, {}, set()
    for path in lint.source_files(root, r'^(alloc|sampling|stats|pagemap)/.*\.c$'):
        text = lint.read(root, path)
        if 'SA_LAYOUT = {' in text:
            check_file(findings, root, path, values, list(compiler))
        addressed.update((name, path) for name in re.findall(r'^SA_LAYOUT_ADDRESS\((\w+)\)', text, re.M))
        used.update(re.findall(r'(\w+)(?:\[[^]]*\])?(?:, | =|;)', ' '.join(
            re.findall(r'^(?:SA_LAYOUT_USED|__attribute__\(\(used\)\)) ([^=;]*[=;])', text, re.M))))
        named.update((public, variable)
                     for public, variable in re.findall(r'SA_LAYOUT_STATIC_ADDRESS\("([^"]+)", (\w+)\)', text))
    for name in sorted(set(addressed) - used):  # link-time optimization would leave it out, or rename it
        findings.add(addressed[name], None, '%s is defined without SA_LAYOUT_USED' % name)
    for name in names:
        if (name, 'seen') not in values:
            findings.add(library, None, '%s is described by no file' % name)
    check_variables(findings, library, places, named)
    findings.finish('%d constants and fields, %d variables' % (len(names), len(places)))


if __name__ == '__main__':
    main(*sys.argv[1:])
