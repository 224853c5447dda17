#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Counts which of the planted errors (planted.c) an allocator notices.

    run.py PROGRAM [--allow PATTERN] [--most N] [--modes quiet,busy,common] [--clean] [--verbose] NAME[=VARIABLE=VALUE;...] ...

Each NAME is an allocator with its environment. An error is `named` if the process ends by a signal or in failure and has said
why, a `fault` if it ends without a word, else `silent`. --allow: fail if others are silent. --most: fail if more are.
--full: only where all tests run. --table: at the end, how many of each kind are noticed, as a table of a document. --clean: also run the programs without their errors, and fail if one does not end well.
"""
import argparse
import collections
import concurrent.futures
import os
import re
import subprocess
import sys

MOVED_NOT = 77  # realloc left the block in place: no error was made


def run(program, number, mode, variables):
    env = dict(os.environ, **variables)
    try:
        child = subprocess.run([program, str(number), mode], env=env, capture_output=True, timeout=120)
    except subprocess.TimeoutExpired:
        return 'hangs', ''
    text = child.stderr.decode('utf-8', 'replace').strip()
    if child.returncode == MOVED_NOT:
        return 'none', text
    if child.returncode == 0:
        # A report that lets the program go on counts, too.
        return ('named' if text else 'silent'), text
    return ('named' if text else 'fault'), text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('program')
    parser.add_argument('allocators', nargs='+')
    parser.add_argument('--allow')
    parser.add_argument('--most', type=int)
    parser.add_argument('--full', action='store_true')
    parser.add_argument('--modes', default='quiet,busy')
    parser.add_argument('--jobs', type=int, default=2)
    parser.add_argument('--repeat', type=int, default=1)
    parser.add_argument('--clean', action='store_true')
    parser.add_argument('--verbose', action='store_true')
    parser.add_argument('--table', action='store_true')
    args = parser.parse_args()

    if args.full and not os.environ.get('SALLOC_TEST_FULL'):
        return 77
    count = int(subprocess.check_output([args.program]))
    names = [subprocess.check_output([args.program, str(i)], text=True).strip() for i in range(count)]
    failed = False
    table = {}
    modes = args.modes.split(',') + (['clean'] if args.clean else [])
    for allocator in args.allocators:
        name, _, rest = allocator.partition('=')
        variables = dict(v.split('=', 1) for v in rest.split(';') if v)
        for mode in modes:
            with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
                numbers = list(range(count)) * args.repeat
                results = list(pool.map(lambda i: run(args.program, i, mode, variables), numbers))
            table[name, mode] = collections.Counter(names[i].split()[0] for i, r in zip(numbers, results)
                                                    if r[0] in ('named', 'fault'))
            totals = collections.Counter(r[0] for r in results)
            bad = [(names[i], r) for i, r in zip(numbers, results) if r[0] in ('silent', 'hangs')]
            print(f'{name} {mode}: {len(numbers)} errors, ' + ', '.join(f'{n} {k}' for k, n in sorted(totals.items())))
            if mode == 'clean':
                for i, (kind, text) in zip(numbers, results):
                    if kind not in ('silent', 'none'):
                        failed = True
                        print(f'  without an error: {names[i]}: {kind}: {text}')
                continue
            if args.verbose:
                for what, n in sorted(collections.Counter(n for n, _ in bad).items()):
                    print(f'  silent: {what}' + (f' ({n} of {args.repeat})' if args.repeat > 1 else ''))
            else:
                kinds = collections.Counter(n.split()[0] for n, _ in bad)
                print('  silent: ' + ', '.join(f'{k} {n}' for k, n in sorted(kinds.items())))
            if args.most is not None and len(bad) > args.most * args.repeat:
                failed = True
                print(f'  more than {args.most}')
            for what, _ in bad if args.allow else []:
                if not re.match(args.allow, what):
                    failed = True
                    print(f'  not noticed: {what}')
    if args.table:
        columns = list(table)
        print('| kind | errors | ' + ' | '.join(' '.join(c) for c in columns) + ' |')
        print('|---|--:|' + '--:|' * len(columns))
        for kind, n in collections.Counter(n.split()[0] for n in names).items():
            print(f'| `{kind}` | {n} | ' + ' | '.join(f'{table[c][kind] / args.repeat:.3g}' for c in columns) + ' |')
        print(f'| all | {count} | ' + ' | '.join(f'{sum(table[c].values()) / args.repeat:.3g}' for c in columns) + ' |')
    return failed


if __name__ == '__main__':
    sys.exit(main())
