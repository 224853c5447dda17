#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real programs give byte-identical output and the same exit status with the library preloaded and
without, and the library says nothing on stderr. Inputs are generated, from fixed seeds.

usage: programs.py LIBRARY NAME [VARIABLE=VALUE...]

Exit status 77: the program is not installed. SALLOC_TEST_SECONDS: how long the ones run that can run for
any time. SALLOC_TEST_FULL=1: larger inputs. SALLOC_TEST_SMALL=1, as a variable in the arguments: smaller ones.
Says what the runs took, without the library and with it.
"""
import glob
import hashlib
import os
import random
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # nothing is left in the source tree
import inputs

SKIPPED = 77
LIBRARY = os.path.abspath(sys.argv[1])
MORE = dict(word.split('=', 1) for word in sys.argv[3:])
SECONDS = float(os.environ.get('SALLOC_TEST_SECONDS') or 8)
FULL = os.environ.get('SALLOC_TEST_FULL') == '1'
SMALL = MORE.get('SALLOC_TEST_SMALL') == '1'
TOOK = {False: [0.0, 0], True: [0.0, 0]}  # seconds of the processor, KiB resident at most; by preloaded
LIMIT = 600 + 20 * SECONDS  # a program that takes longer hangs
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def of_size(small, ordinary, full=None):
    """The size of an input."""
    return small if SMALL else full if FULL and full else ordinary


class Failed(Exception):
    """Something is not as it should be; the text says what."""


class Skipped(Exception):
    """The program is not here; the text names it."""


def need(*programs):
    """Their paths; skips if one is missing."""
    paths = [shutil.which(p) for p in programs]
    for name, path in zip(programs, paths):
        if not path:
            raise Skipped(f'{name} is not installed')
    return paths if len(paths) > 1 else paths[0]


def environment(preloaded, more=None):
    """The environment of a run; locale and time zone fixed."""
    env = dict(os.environ, LC_ALL='C', TZ='UTC', **(more or {}))
    for name in ('LD_PRELOAD', 'SALLOC_CONF', 'GLIBC_TUNABLES', 'MALLOC_PERTURB_'):
        env.pop(name, None)
    if preloaded:
        env.update(MORE, LD_PRELOAD=LIBRARY)
    return env


def check_silent(text):
    """The library speaks on stderr only if something is wrong."""
    for line in text.decode(errors='replace').splitlines():
        if line.startswith('salloc:') or 'cannot be preloaded' in line:
            raise Failed(line)


def run(command, preloaded, cwd, more=None):
    """Runs a command; (exit status, hash and length of its output)."""
    digest, length = hashlib.sha256(), 0
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryFile() as errors, subprocess.Popen(
            command, env=environment(preloaded, more), cwd=cwd, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=errors) as process:
        while chunk := process.stdout.read(1 << 20):
            digest.update(chunk)
            length += len(chunk)
        status = process.wait(LIMIT)
        errors.seek(0)
        text = errors.read()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    TOOK[preloaded][0] += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    TOOK[preloaded][1] = after.ru_maxrss
    if preloaded:
        check_silent(text)
    if status != 0:
        raise Failed(f'{command[0]} ended with {status} (preloaded: {preloaded}): {text[-2000:]!r}')
    return digest.hexdigest(), length


def same(command, cwd, least=1, more=None):
    """Both runs must succeed with the same output of at least some length."""
    plain, preloaded = run(command, False, cwd, more), run(command, True, cwd, more)
    if plain[1] < least:
        raise Failed(f'{command}: an output of {plain[1]} bytes proves nothing')
    if plain != preloaded:
        raise Failed(f'{command}: output differs: {plain} without, {preloaded} with the library')


def write(path, text):
    """Makes a file."""
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    return path


def less(script):
    """A script of inputs.py with a tenth of its steps, if it is to be small."""
    return re.sub(r'\b([23]0000)0\b', r'\1', script) if SMALL else script


def git(folder):
    """A generated repository: history, integrity, differences, repacking."""
    program = need('git')
    home = {'HOME': folder, 'GIT_CONFIG_NOSYSTEM': '1'}
    repository = os.path.join(folder, 'repository')
    subprocess.run([program, 'init', '-q', repository], check=True, env=environment(False, home))
    stream = inputs.git_stream(commits=of_size(250, 2500, 6000))
    subprocess.run([program, 'fast-import', '--quiet'], input=stream, check=True, cwd=repository,
                   env=environment(False, home))
    for words in (['log', '--stat', 'main'], ['log', '-p', '--all'], ['fsck', '--full', '--strict'],
                  ['rev-list', '--objects', '--all'], ['blame', 'main', '--', 'file3'],
                  ['grep', '-n', 'line 1', 'main'], ['archive', 'main']):
        same([program, *words], repository, 0 if words[0] == 'fsck' else 100, home)
    run([program, 'repack', '-q', '-a', '-d', '-f', '--threads=2'], True, repository, home)
    same([program, 'fsck', '--full'], repository, 0, home)


def gcc(folder):
    """Optimising a large generated file."""
    program = need('gcc')
    source = write(os.path.join(folder, 'large.c'), inputs.c_source(functions=of_size(12, 90, 900)))
    same([program, '-O2', '-S', '-o', '-', source], folder, 10000)
    same(['sh', '-c', f'{program} -O2 -g -c -o large.o large.c && cat large.o'], folder, 10000)


def gxx(folder):
    """The C++ front end."""
    program = need('g++')
    write(os.path.join(folder, 'large.cc'), inputs.cxx_source(functions=of_size(1, 8, 60)))
    same([program, '-std=c++17', '-O1', '-S', '-o', '-', 'large.cc'], folder, 10000)


def clang(folder):
    """Another compiler, of both languages."""
    program = need('clang')
    write(os.path.join(folder, 'large.c'), inputs.c_source(functions=of_size(12, 90, 900)))
    write(os.path.join(folder, 'large.cc'), inputs.cxx_source(functions=of_size(1, 8, 60)))
    same([program, '-O2', '-S', '-o', '-', 'large.c'], folder, 10000)
    same([program, '-std=c++17', '-O1', '-g', '-S', '-o', '-', 'large.cc'], folder, 10000)


def java(folder):
    """A virtual machine that uses SIGSEGV for its own ends."""
    program, _ = need('java', 'javac')
    write(os.path.join(folder, 'Script.java'), inputs.JAVA)
    same([program, '-Xmx256m', 'Script.java'], folder, 100)
    same([program, '-Xcheck:jni', '-Xmx256m', 'Script.java'], folder, 100)  # says if its handlers are replaced


def go(folder):
    """Another one, with threads that have alternate signal stacks."""
    program, _ = need('go', 'gcc')
    write(os.path.join(folder, 'script.go'), inputs.GO)
    subprocess.run([program, 'build', '-o', 'script', 'script.go'], check=True, cwd=folder,
                   env=environment(False, {'HOME': folder, 'GOFLAGS': '-mod=mod', 'GO111MODULE': 'off'}))
    same([os.path.join(folder, 'script')], folder, 100)


def python(folder):
    """The interpreter's own tests of data structures and threads where they are installed, and a script
    that uses many modules."""
    program = shutil.which('/usr/bin/python3') or need('python3')
    more = {'PYTHONMALLOC': 'malloc', 'PYTHONHASHSEED': '0', 'PYTHONDONTWRITEBYTECODE': '1'}
    here = os.path.dirname(os.path.abspath(__file__))
    same([program, os.path.join(here, 'workload.py'), of_size('10', '1')], folder, 100, more)
    if SMALL:
        return
    if subprocess.run([program, '-c', 'import test.test_dict'], check=False,
                      capture_output=True).returncode:
        print('the interpreter\'s own tests are not installed')
        return
    run([program, '-m', 'test', '-j2', 'test_dict', 'test_list', 'test_set', 'test_deque', 'test_heapq',
         'test_bytes', 'test_array', 'test_thread', 'test_threading', 'test_queue', 'test_json',
         'test_re'], True, folder, more)


def sqlite3(folder):
    """Tables, indices, joins, full scans, in memory and in a file."""
    program = need('sqlite3')
    rows = of_size(10000, 100000, 400000)
    for database in (':memory:', os.path.join(folder, 'file.db')):
        script = write(os.path.join(folder, 'script.sql'), inputs.sql(rows))
        for preloaded in (False, True):
            if os.path.exists(database):
                os.unlink(database)
            result = run([program, '-batch', database, f'.read {script}'], preloaded, folder)
            if not preloaded:
                plain = result
        if result != plain or plain[1] < 100:
            raise Failed(f'sqlite3 {database}: {plain} without, {result} with the library')


def redis(folder):
    """A server under load, with background saving (fork); it ends cleanly, and another one finds the
    same keys."""
    server, benchmark, client = need('redis-server', 'redis-benchmark', 'redis-cli')
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = str(probe.getsockname()[1])
    command = [server, '--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder,
               '--daemonize', 'no', '--loglevel', 'warning']

    def ask(*words):
        return subprocess.run([client, '-p', port, *words], capture_output=True, check=False,
                              env=environment(False), timeout=60).stdout.decode().strip()

    def wait_for(what, words, seconds=30):
        end = time.monotonic() + seconds
        while what not in ask(*words):
            if time.monotonic() > end:
                raise Failed(f'redis: {words} did not answer {what}')
            time.sleep(0.05)

    seen = []
    for preloaded in (True, False):
        with open(os.path.join(folder, 'log'), 'w+b') as log, subprocess.Popen(
                command, env=environment(preloaded), stdout=log, stderr=log) as process:
            try:
                wait_for('PONG', ['ping'])
                if preloaded:
                    for words in (['-t', 'set,get,lpush,lrange_100,sadd,hset,zadd', '-r', '20000'],
                                  ['-t', 'mset', '-d', '3000', '-r', '500'],
                                  ['-t', 'set', '-d', '100000', '-r', '300']):
                        run([benchmark, '-p', port, '-q', '-n', of_size('3000', '20000', '60000'), '-P', '8',
                             *words], True, folder)
                        ask('bgsave')
                        wait_for('rdb_bgsave_in_progress:0', ['info', 'persistence'])
                        wait_for('rdb_last_bgsave_status:ok', ['info', 'persistence'])
                    ask('save')
                seen.append(ask('dbsize'))
                ask('shutdown', 'nosave')
                status = process.wait(30)
            finally:
                process.kill()
            log.seek(0)
            check_silent(log.read())
            if status != 0:
                raise Failed(f'redis-server ended with {status} (preloaded: {preloaded})')
    if seen[0] != seen[1] or int(seen[0]) < 1000:
        raise Failed(f'redis: {seen[0]} keys with the library, {seen[1]} found again')


def node(folder):
    """Objects, strings, buffers, workers."""
    program = need('node')
    same([program, write(os.path.join(folder, 'script.js'), less(inputs.NODE))], folder, 100)


def perl(folder):
    """Hashes, strings, regular expressions, fork."""
    program = need('perl')
    more = {'PERL_HASH_SEED': '0', 'PERL_PERTURB_KEYS': '0'}
    same([program, write(os.path.join(folder, 'script.pl'), less(inputs.PERL))], folder, 100, more)


def php(folder):
    """php opens its modules with RTLD_DEEPBIND."""
    program = need('php')
    same([program, write(os.path.join(folder, 'script.php'), less(inputs.PHP))], folder, 100,
         {'USE_ZEND_ALLOC': '0'})


def sort(folder):
    """200 MB (1 GB) of lines, in several threads."""
    program = need('sort')
    path = os.path.join(folder, 'lines')
    with open(path, 'wb') as file:
        for block in inputs.lines(megabytes=of_size(30, 200, 1000)):
            file.write(block)
    same([program, '--parallel=2', '-S', '40%' if FULL else '300M', path], folder, of_size(15, 100) << 20)


def stress_ng(folder):
    """Its malloc stressor, which verifies contents."""
    program = need('stress-ng')
    run([program, '--malloc', '2', '--malloc-bytes', '256m', '--verify', '--timeout',
         f'{max(1, round(of_size(2, SECONDS)))}s', '--temp-path', folder], True, folder)


def build(folder):
    """This project's own build: the library that comes out is the same."""
    meson, ninja = need('meson', 'ninja')
    need('gcc')
    seen = []
    for preloaded in (False, True):
        # The same path both times: it is part of what the compiler writes.
        target = os.path.join(folder, 'build')
        shutil.rmtree(target, ignore_errors=True)
        run([meson, 'setup', '-Dtests=false', '-Dperf=disabled', target, ROOT], preloaded, folder)
        run([ninja, '-C', target, '-j', '2'], preloaded, folder)
        path = [p for p in glob.glob(os.path.join(target, 'libsalloc.so.*')) if os.path.isfile(p)]
        with open(path[0], 'rb') as file:
            seen.append(hashlib.sha256(file.read()).hexdigest())
    if seen[0] != seen[1]:
        raise Failed('the library built under the library differs')


PROGRAMS = {'git': git, 'gcc': gcc, 'gxx': gxx, 'clang': clang, 'java': java, 'go': go, 'python': python, 'sqlite3': sqlite3, 'redis': redis, 'node': node,
            'perl': perl, 'php': php, 'sort': sort, 'stress_ng': stress_ng, 'build': build}


def main():
    random.seed(1)
    with tempfile.TemporaryDirectory(prefix='salloc-programs-') as folder:
        try:
            PROGRAMS[sys.argv[2]](folder)
            for preloaded, (seconds, kib) in TOOK.items():
                print(f'{"with" if preloaded else "without"}: {seconds:.1f} s, {kib // 1024} MiB at most')
        except Skipped as reason:
            print(f'skipped: {reason}')
            return SKIPPED
        except Failed as reason:
            print(reason)
            return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
