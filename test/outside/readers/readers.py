#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of profiles in the hands of those who read them: they open, show names, and their totals agree to the
byte. The profile is one made by hand (names and totals known) or of a redis server under load.

usage: readers.py NAME SOURCE WRITE LIBRARY DUMP

NAME: formats (decoded by hand), speedscope and flamegraph (what these ask of a file), go_pprof, google_pprof,
go_types, jeprof (run). SOURCE: made, redis. Exit status 77: something is not installed.
"""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # nothing is left in the source tree
import proto

NAME, SOURCE, WRITE, LIBRARY, DUMP = sys.argv[1:6]
SKIPPED = 77
ENDINGS = ('pb.gz', 'pb', 'heap', 'jeprof', 'collapsed', 'txt')
TYPES = ('heap', 'fragmentation', 'peak', 'allocations', 'lifetimes')
MADE_BYTES = {'heap': 55883966, 'fragmentation': 14671495, 'peak': 55883966, 'allocations': 55883966,
              'lifetimes': 55883966}
UNNAMED = re.compile(r'^(0x[0-9a-f]+|\[stack not kept\]|.*\+0x[0-9a-f]+)$')


class Skipped(Exception):
    """Something is not here; the text names it."""


def need(name):
    path = shutil.which(name)
    if not path:
        raise Skipped(f'{name} is not installed')
    return path


def run(*command, **env):
    """What a program prints; it must succeed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          timeout=150, env=dict(os.environ, LC_ALL='C', **env))
    assert done.returncode == 0, f'{command} ended with {done.returncode}: {done.stderr}'
    return done.stdout


def wait_for_line(port, line, until):
    """Sends a line to the server until the answer is as wanted; the connection."""
    for _ in range(600):
        try:
            connection = socket.create_connection(('127.0.0.1', port), 5)
            connection.sendall(line)
            if until in connection.recv(100):
                return connection
            connection.close()
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError('the server does not answer')


def talk(connection, lines):
    connection.sendall(b''.join(lines))
    answer = b''
    while answer.count(b'\n') < len(lines):
        answer += connection.recv(65536)


def redis(folder):
    """Profiles of a server that holds some 30 MB, and held twice as much; its executable."""
    server = need('redis-server')
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
    env = dict(os.environ, LD_PRELOAD=f'{LIBRARY} {DUMP}', SALLOC_CONF='sample_interval:64k,sample_seed:1',
               READERS_DUMP=folder)
    with open(os.path.join(folder, 'log'), 'w+', encoding='utf-8') as log, subprocess.Popen(
            [server, '--port', str(port), '--bind', '127.0.0.1', '--save', '', '--dir', folder,
             '--loglevel', 'warning'], env=env, stdout=log, stderr=log) as process:
        try:
            connection = wait_for_line(port, b'PING\r\n', b'PONG')
            for i in range(0, 60000, 1000):
                talk(connection, [b'SET key%d %s\r\n' % (k, b'x' * (k % 2000 + 1))
                                  for k in range(i, i + 1000)])
            for i in range(0, 60000, 2000):  # every second one: spans are left with holes
                talk(connection, [b'DEL key%d\r\n' % k for k in range(i, i + 2000, 2)])
            connection.sendall(b'SHUTDOWN NOSAVE\r\n')
            assert process.wait(60) == 0, 'the server failed'
            connection.close()
        finally:
            process.kill()
    return server


class Files:
    """All formats of one profile: path of each by ending; program: the executable."""

    def __init__(self, folder, type_, program):
        self.type, self.program = type_, program
        self.paths = {e: os.path.join(folder, f'{type_}.{e}') for e in ENDINGS}
        self.proto = proto.Profile(self.paths['pb'])
        totals = self.proto.totals()
        if type_ == 'lifetimes':
            self.bytes = totals['allocated_space'] + totals['censored_allocated_space']
        else:
            self.bytes = totals[self.proto.default]

    def read(self, ending):
        with open(self.paths[ending], encoding='utf-8') as file:
            return file.read()


def sources(folder):
    if SOURCE == 'redis':
        server = redis(folder)
        return [Files(folder, type_, server) for type_ in TYPES + ('all',)]
    for number, type_ in enumerate(TYPES):
        run(WRITE, str(number), *(os.path.join(folder, f'{type_}.{e}') for e in ENDINGS))
    found = [Files(folder, type_, WRITE) for type_ in TYPES]
    for files in found:
        assert files.bytes == MADE_BYTES[files.type], f'{files.type}: {files.bytes} bytes'
    return found


def frames(files):
    """Names of all frames of the samples, by weight of the default type."""
    weights = {}
    for locations, values, _ in files.proto.samples:
        for location in locations:
            for name in files.proto.locations[location][2] or ['']:
                weights[name] = weights.get(name, 0) + sum(values)
    return weights


def known_names(files):
    """Names that a reader must show."""
    if not files.bytes:
        return []
    if SOURCE == 'made':
        return ['made_leaf', 'made_middle', 'made_root']
    return ['main']


def formats(files):
    """The totals of all formats agree; the compressed file is the plain one; ids count from 1."""
    p = files.proto
    again = proto.Profile(files.paths['pb.gz'])
    assert again.totals() == p.totals() and again.locations == p.locations
    for ids in (p.mappings, p.locations, p.function_ids):
        assert list(ids) == list(range(1, len(ids) + 1))
    assert p.period_type == ('space', 'bytes')
    for mapping, address, _ in p.locations.values():
        assert not mapping or p.mappings[mapping][2] <= address < p.mappings[mapping][3]
    main = p.strings[p.mappings[1][5]]
    assert main == os.path.realpath(files.program), main
    heads = [int(re.match(r'heap profile: +\d+: +(\d+) ', files.read('heap')).group(1)),
             sum(int(line.rsplit(' ', 1)[1]) for line in files.read('collapsed').splitlines()),
             sum(map(int, re.findall(r'^ *(\d+) +[\d.]+% ', files.read('txt'), re.M)))]
    assert heads == [files.bytes] * 3, (heads, files.bytes)
    assert f'{files.bytes} bytes' in files.read('txt')
    read = 0.0
    for count, size in re.findall(r'^@.*\n  t\*: (\d+): (\d+) ', files.read('jeprof'), re.M):
        if int(count):
            read += int(size) / (1 - pow(2.718281828459045, -int(size) / int(count)))
    assert int(read) == files.bytes, (read, files.bytes)
    # 30000 values of 1000 bytes on average, and what belongs to them; far wider than 6 standard errors.
    if SOURCE == 'redis' and files.type == 'heap':
        assert 25e6 < files.bytes < 70e6, files.bytes
    if SOURCE == 'redis' and files.type == 'peak':
        assert 56e6 < files.bytes < 120e6, files.bytes


def speedscope(files):
    """It drops frames without a name, and shows the last sample type."""
    weights = frames(files)
    assert '' not in weights, 'frames without names: they would be dropped'
    named = sum(w for name, w in weights.items() if not UNNAMED.match(name))
    if files.type != 'lifetimes':
        assert files.proto.types[-1][0] == files.proto.default
    for name in known_names(files):
        assert name in weights, f'{name} is not among the frames'
    # A stripped program, as redis is where it comes from a distribution, has no names for local functions.
    assert named > 0.7 * sum(weights.values()), f'{named} of {sum(weights.values())} have names'


def flamegraph(files):
    """flamegraph.pl and its relatives: frames separated by ';', a blank, a whole number."""
    for line in files.read('collapsed').splitlines():
        match = re.fullmatch(r'(.+) (\d+)', line)
        assert match and all(match.group(1).split(';')), line
    for name in known_names(files):
        assert re.search(rf'(^|;){name}[; ]', files.read('collapsed'), re.M), name


def go_pprof(files):
    """go tool pprof opens profile.proto in both forms, and gperftools' text."""
    go = need('go')
    for ending in ('pb.gz', 'pb', 'heap'):
        lifetimes = files.type == 'lifetimes' and ending != 'heap'
        out = run(go, 'tool', 'pprof', '-top', '-unit=B',
                  '-sample_index=' + ('allocated_space' if lifetimes else ''), '-nodecount=1000000', '-nodefraction=0',
                  files.program, files.paths[ending], HOME=os.path.dirname(files.paths['pb']))
        match = re.search(r' of (\d+)B? total', out)
        wanted = files.proto.totals()['allocated_space'] if lifetimes else files.bytes
        assert match and int(match.group(1)) == wanted, f'{ending}: {out[:600]}'
        if ending != 'heap':  # else it only shows names that the program has for others
            for name in known_names(files):
                assert re.search(rf' {name}$', out, re.M), f'{ending}: no {name} in {out}'


def go_types(files):
    """Each sample type by its name, and labels, as go tool pprof shows them; the default is the one that is meant."""
    go, home = need('go'), os.path.dirname(files.paths['pb'])
    for name, _ in files.proto.types + [('', '')]:
        out = run(go, 'tool', 'pprof', '-top', '-unit=B', '-sample_index=' + name, files.program, files.paths['pb.gz'],
                  HOME=home)
        total = files.proto.totals()[name or files.proto.default]
        match = re.search(r' of (\d+)B? total', out)
        assert re.search(rf'^Type: {name or files.proto.default}$', out, re.M), out[:600]
        assert match and int(match.group(1)) == total, f'{name}: {out[:600]}'
    out = run(go, 'tool', 'pprof', '-tags', files.program, files.paths['pb.gz'], HOME=home)
    wanted = ['bytes', 'allocation type', 'guarded_status'] if files.bytes else []
    if files.type == 'lifetimes':
        wanted += ['callstack-pair-id', 'active CPU', 'active NUMA', 'active thread']
    if files.type == 'all':  # only sums
        wanted = []
    for label in wanted:
        assert re.search(rf'^ *{label}: Total ', out, re.M), f'{label}: {out[:2000]}'


def perl(files, tool, ending):
    out = run(tool, '--text', '--show_bytes', files.program, files.paths[ending])
    match = re.search(r'^Total: (\d+) B', out, re.M)
    assert match and int(match.group(1)) == files.bytes, out[:600]
    for name in known_names(files):
        assert re.search(rf' {name}$', out, re.M), f'no {name} in {out}'


def google_pprof(files):
    perl(files, need('google-pprof'), 'heap')


def jeprof(files):
    perl(files, need('jeprof'), 'jeprof')


def main():
    with tempfile.TemporaryDirectory() as folder:
        try:
            for files in sources(folder):
                globals()[NAME](files)
                print(f'{files.type}: {files.bytes} bytes in {len(files.proto.samples)} samples')
        except Skipped as reason:
            print(f'skipped: {reason}')
            sys.exit(SKIPPED)


if __name__ == '__main__':
    main()
