#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs fuzz targets of a build with -Dfuzz=enabled, one after the other, each for a while, with what is known
so far as seeds; then puts the smallest set of inputs that reaches the same into the corpus of the repository.
What is found stays in BUILD/found. doc/testing.md says how to go on from there.
usage: fuzz.py BUILD [--seconds N] [--merge-only] [TARGET...]
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BYTES_MAX = 4096
FILES_MAX = 60


def environment():
    env = dict(os.environ)
    env['ASAN_OPTIONS'] = 'allocator_may_return_null=1:detect_leaks=0:handle_abort=1'
    env['UBSAN_OPTIONS'] = 'halt_on_error=1:print_stacktrace=1'
    return env


def targets_of(build):
    folder = os.path.join(build, 'test', 'fuzz')
    names = sorted(n[len('fuzz_'):] for n in os.listdir(folder) if n.startswith('fuzz_') and
                   os.access(os.path.join(folder, n), os.X_OK) and os.path.isfile(os.path.join(folder, n)))
    return {name: os.path.join(folder, 'fuzz_' + name) for name in names}


def fuzz(program, name, build, seconds):
    """Whether nothing was found."""
    work = os.path.join(build, 'work', name)
    corpus = os.path.join(HERE, 'corpus', name)
    os.makedirs(work, exist_ok=True)
    os.makedirs(corpus, exist_ok=True)
    os.makedirs(os.path.join(build, 'found'), exist_ok=True)
    result = subprocess.run([program, work, corpus, '-max_total_time=%d' % seconds, '-max_len=%d' % BYTES_MAX,
                             '-timeout=60', '-len_control=20', '-rss_limit_mb=4096', '-print_final_stats=1', '-verbosity=0',
                             '-artifact_prefix=%s/%s-' % (os.path.join(build, 'found'), name)],
                            env=environment(), capture_output=True, text=True, errors='replace')
    figures = dict(line.split(': ') for line in result.stderr.split('\n') if line.startswith('stat::'))
    print('%s: %s inputs%s' % (name, figures.get('stat::number_of_executed_units', '?').strip(),
                               '' if result.returncode == 0 else ', FOUND SOMETHING'), flush=True)
    if result.returncode != 0:
        print('\n'.join(result.stderr.split('\n')[-60:]))
    return result.returncode == 0


def merge(program, name, build):
    """The corpus becomes the smallest set that covers what work and corpus cover, and keeps what was found (and
    fixed) before: files whose names do not look like a fuzzer's."""
    corpus = os.path.join(HERE, 'corpus', name)
    work = os.path.join(build, 'work', name)
    with tempfile.TemporaryDirectory() as folder:
        sources = [f for f in (corpus, work) if os.path.isdir(f)]
        subprocess.run([program, '-merge=1', '-max_len=%d' % BYTES_MAX, folder] + sources, env=environment(),
                       check=True, capture_output=True)
        files = sorted(os.listdir(folder), key=lambda f: os.path.getsize(os.path.join(folder, f)))
        print('%s: %d files cover it, %d bytes' % (
            name, len(files), sum(os.path.getsize(os.path.join(folder, f)) for f in files)))
        # More than enough for a test: of sizes from the least to the most.
        if len(files) > FILES_MAX:
            files = [files[i * len(files) // FILES_MAX] for i in range(FILES_MAX)]
        for old in os.listdir(corpus):
            if len(old) == 40:
                os.unlink(os.path.join(corpus, old))
        for f in files:
            if len(f) == 40 and os.path.getsize(os.path.join(folder, f)) <= BYTES_MAX:
                shutil.copy(os.path.join(folder, f), corpus)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('build')
    parser.add_argument('--seconds', type=int, default=300)
    parser.add_argument('--merge-only', action='store_true')
    parser.add_argument('targets', nargs='*')
    args = parser.parse_intermixed_args()
    programs = targets_of(args.build)
    good = True
    for name in args.targets or programs:
        if not args.merge_only:
            good = fuzz(programs[name], name, args.build, args.seconds) and good
        if good or args.merge_only:
            merge(programs[name], name, args.build)
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
