#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Line and branch coverage of the library by its tests, for each folder and for the files that lack most.

BUILD is one with -Db_coverage=true -Dbuildtype=debug, of gcc. Runs the suites named (those below if none is), unless
--no-run. Tests that fail are named, and do no harm: some look at addresses, frames or files that a build for coverage
has more of.

Left out, by rule, are the fatal paths: functions that do not return (SA_NORETURN), statements that call one of them or
abort, and the branches of SA_CHECK. What misuse leads to such a path counts as any other code does.
usage: coverage.py BUILD [--no-run] [--missing] [SUITE...]
"""
import argparse
import itertools
import json
import os
import re
import subprocess
import sys

# Of `outside`: thousands of processes, long ones, other programs, and all once more with a cache per thread.
LEAVE_OUT = (r'oom_(?!moving|sampled)|estimates_|memory_returned_|stats_stalls|footprint_growth|hugepages|locked_|daemons_|'
             r'process_life_(footprint|fork_threads|fork_signal)|(process_life_children|debugger_calls)_\w*000$|'
             r'tool_.*(coverage|redis|python|node|nginx|sqlite|prometheus|storm|hanging)|.*@')
FOLDERS = ('alloc', 'include', 'pagemap', 'sampling', 'stats', 'tool')
SUITES = ['unit', 'fuzz', 'fatal', 'guarded', 'outside']
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def run_tests(build, suites):
    for folder, _, names in os.walk(build):
        for name in names:
            if name.endswith('.gcda'):
                os.unlink(os.path.join(folder, name))
    command = ['meson', 'test', '-C', build, '--no-rebuild', '--num-processes', '2']
    output = ''
    for suite in suites:
        listed = subprocess.run(command[:-2] + ['--list', '--suite', suite], capture_output=True, text=True, check=True)
        names = re.findall(r'^salloc:\w+ / (.*)$', listed.stdout, re.M)
        chosen = [name for name in names if not re.match(LEAVE_OUT, name)] if suite == 'outside' else []
        # With the suite: other suites have tests of the same names, and names alone don't run those of `outside`.
        output += subprocess.run(command + ['--suite', suite] + chosen, capture_output=True, text=True,
                                 errors='replace', check=False).stdout
    for line in output.split('\n'):
        if re.search(r'\s(FAIL|ERROR|TIMEOUT)\s', line) or re.match(r'(Ok|Fail|Timeout|Skipped):', line):
            print('  ' + line.strip())


def collect(build):
    """file -> line number -> (times run, [times taken of each branch])"""
    data = sorted(os.path.relpath(os.path.join(folder, name), build)
                  for folder, _, names in os.walk(build) for name in names if name.endswith('.gcno'))
    files = {}
    # gcov itself: gcovr 5 stops where two objects compile different functions of one name (#if) from one file, and at
    # negative counts. Those are differences of counters that were written while a thread ran: not known to be run.
    output = subprocess.run(['xargs', 'gcov', '--branch-probabilities', '--json-format', '--stdout'], cwd=build,
                            input='\n'.join(data), capture_output=True, text=True, check=True).stdout
    for source in (s for text in output.split('\n') if text for s in json.loads(text)['files']):
        path = os.path.relpath(os.path.join(build, source['file']), ROOT)
        if path.split('/')[0] not in FOLDERS:
            continue
        for line in source['lines']:
            times, branches = files.setdefault(path, {}).get(line['line_number'], (0, []))
            added = [max(b['count'], 0) for b in line['branches']]
            files[path][line['line_number']] = (
                times + max(line['count'], 0), [sum(b) for b in itertools.zip_longest(branches, added, fillvalue=0)])
    return files


def no_return():
    """Names of functions that do not return."""
    names = {'abort'}
    for folder, _, files in os.walk(ROOT):
        if '/.' in folder or os.path.relpath(folder, ROOT).split('/')[0] in ('test', 'perf'):
            continue
        for name in files:
            if name.endswith(('.c', '.h')):
                with open(os.path.join(folder, name), encoding='utf-8') as f:
                    names.update(re.findall(r'SA_NORETURN[\w\s]*?\b(\w+)\(', f.read()))
    return names


def fatal_lines(text, names):
    """Numbers of the lines of functions and of statements that end the program, and of its checks."""
    fatal, checks = set(), set()
    calls = r'\b(?:%s)\(' % '|'.join(sorted(names))

    def add(to, start, end):
        end = end if end >= 0 else start
        to.update(range(text.count('\n', 0, start) + 1, text.count('\n', 0, end) + 2))

    for match in re.finditer(r'^(?:[\w\s*]*\b)?(?:%s)\([^;{}]*\)\n\{.*?^\}' % '|'.join(sorted(names)), text,
                             re.M | re.S):
        add(fatal, match.start(), match.end())
    for match in re.finditer(calls, text):
        add(fatal, match.start(), text.find(';', match.start()))
    for match in re.finditer(r'\bSA_D?CHECK\(', text):
        add(checks, match.start(), text.find(';', match.start()))
    return fatal, checks


class Count:
    def __init__(self):
        self.lines = self.run = self.branches = self.taken = 0
        self.missing = []

    def add(self, other):
        self.lines += other.lines
        self.run += other.run
        self.branches += other.branches
        self.taken += other.taken

    def part(self):
        return 100 * self.run / max(self.lines, 1)

    def row(self, name):
        return '| %s | %d | %.1f %% | %d | %.1f %% |' % (
            name, self.lines, self.part(), self.branches, 100 * self.taken / max(self.branches, 1))


def layer(path):
    """The folder whose row a file counts in: of alloc each folder by itself."""
    parts = path.split('/')
    return '/'.join(parts[:2 if parts[0] == 'alloc' and len(parts) > 2 else 1])


def count_file(path, lines, names):
    with open(os.path.join(ROOT, path), encoding='utf-8') as f:
        fatal, checks = fatal_lines(f.read(), names)
    count = Count()
    for number, (times, branches) in sorted(lines.items()):
        if number in fatal:
            continue
        count.lines += 1
        count.run += times > 0
        if not times:
            count.missing.append(number)
        if number not in checks:
            count.branches += len(branches)
            count.taken += sum(b > 0 for b in branches)
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('build')
    parser.add_argument('--no-run', action='store_true', help='report what earlier runs have counted')
    parser.add_argument('--missing', action='store_true', help='the lines of each file that nothing has run')
    parser.add_argument('suites', nargs='*')
    args = parser.parse_intermixed_args()
    if not args.no_run:
        run_tests(args.build, args.suites or SUITES)
    names = no_return()
    files = {path: count_file(path, lines, names) for path, lines in collect(args.build).items()}
    total = Count()
    print('| folder | lines | run | branches | taken |\n|---|---|---|---|---|')
    rows = {}
    for path, c in files.items():
        rows.setdefault(layer(path), Count()).add(c)
        total.add(c)
    for folder in sorted(rows):
        print(rows[folder].row('`%s`' % folder))
    print(total.row('all'))
    print('\nLeast covered:')
    for path, c in sorted(files.items(), key=lambda f: f[1].run - f[1].lines)[:20]:
        print('  %-40s %4d lines missing, %5.1f %% run' % (path, c.lines - c.run, c.part()))
        if args.missing:
            print('      ' + ' '.join(str(n) for n in c.missing))
    return 0 if total.part() > 90 else 1


if __name__ == '__main__':
    sys.exit(main())
