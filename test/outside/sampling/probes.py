#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The USDT probes: their notes are in the library and in the static archive, and gdb, which knows the format from
SystemTap, stops there and reads the arguments.

usage: probes.py LIBRARY ARCHIVE PROGRAM
"""
import re
import shutil
import struct
import subprocess
import sys

COMMANDS = '''
set pagination off
set breakpoint pending on
set startup-with-shell off
set environment LD_PRELOAD {library}
set environment SALLOC_CONF sample_interval:1
tbreak main
run
info probes stap salloc
break -probe-stap salloc:sample
continue
printf "requested %lu allocated %lu handle %lu p %lx\\n", $_probe_arg1, $_probe_arg2, $_probe_arg3, $_probe_arg4
p/x $_probe_arg0
delete
break -probe-stap salloc:sample_free
continue
printf "freed %d arguments\\n", $_probe_argc
kill
'''


def notes(path):
    text = subprocess.run(['readelf', '-nW', path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          universal_newlines=True, check=True).stdout
    return re.findall(r'Provider: (\w+)\s+Name: (\w+)\s+Location: .*?\s+Arguments: (.*)', text)


def main():
    library, archive, program = sys.argv[1:]
    for path in library, archive:
        found = notes(path)
        assert {name for _, name, _ in found} == {'sample', 'sample_free'}, (path, found)
        for provider, name, arguments in found:
            assert provider == 'salloc' and len(arguments.split()) == 5, (name, arguments)
    if not shutil.which('gdb'):
        print('skipped: no gdb')
        sys.exit(77)
    command = ['gdb', '-q', '-batch', '-nx', '-iex', 'set auto-load off']
    for line in COMMANDS.format(library=library).strip().splitlines():
        command += ['-ex', line]
    result = subprocess.run(command + [program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            universal_newlines=True, timeout=60, check=False)
    text = result.stdout
    if re.search(r'ptrace: Operation not permitted|Could not trace', text):
        print('skipped: no ptrace')
        sys.exit(77)
    found = re.search(r'requested (\d+) allocated (\d+) handle (\d+) p (\w+)', text)
    assert found, text
    requested, allocated, handle = (int(n) for n in found.groups()[:3])
    p = struct.unpack('<d', struct.pack('<Q', int(found.group(4), 16)))[0]
    assert 0 < requested <= allocated and handle >= 1 and p == 1, found.group(0)
    assert re.search(r'freed 5 arguments', text), text
    print(found.group(0))


main()
