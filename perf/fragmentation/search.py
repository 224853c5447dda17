#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the model (model.c) over traces with every combination of parameters, and prints a table by footprint.

A row has the mean of footprint over live in each trace, then the mean of all. The first line of the combinations is
marked with * if nothing differs from salloc. A value of several parameters has '+' between them. Traces that are
missing are recorded (traces.py).

usage: search.py --build FOLDER [--folder TRACES] [--only WORKLOAD,...] [--each] [--program PROGRAM] NAME=VALUE,... ...
  --each: one parameter differs at a time, instead of every combination
"""
import argparse
import itertools
import os

import over_live
import traces


def combinations(axes, each):
    """Lists of NAME=VALUE; the first one is empty: salloc's values."""
    if each:
        return [[], *([a] for axis in axes for a in axis)]
    found = [list(c) for c in itertools.product(*axes)]
    return found if [] in found else [[], *found]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--build', required=True)
    parser.add_argument('--folder', default='/tmp/salloc-traces')
    parser.add_argument('--only', default='')
    parser.add_argument('--each', action='store_true')
    parser.add_argument('--program', default='')
    parser.add_argument('axis', nargs='+', metavar='NAME=VALUE,...')
    args = parser.parse_args()
    program = args.program or os.path.join(args.build, 'perf/fragmentation/salloc-frag-model')
    names = [n for n in [*over_live.workloads(args.build), 'redis'] if not args.only or n in args.only.split(',')]
    axes = [['%s=%s' % (axis.split('=')[0], v) for v in axis.split('=')[1].split(',')] for axis in args.axis]
    rows = combinations(axes, args.each)
    jobs = [(program, traces.record(args.build, args.folder, name), ['quiet=1', 'parts=%d' % traces.PHASES[name], *row])
            for row in rows for name in names]
    results = [summary for _, summary in traces.model_all(jobs)]
    table = []
    for i, row in enumerate(rows):
        of_row = results[i * len(names):(i + 1) * len(names)]
        means = [r['mean'] for r in of_row]
        table.append((sum(means) / len(means), means, [r['most'] for r in of_row], row))
    print('%s %8s  parameters' % (' '.join('%21s' % n for n in names), 'mean'))
    for mean, means, most, row in sorted(table, key=lambda r: r[0]):
        print('%s %8.3f  %s' % (' '.join('%12.3f %8.3f' % m for m in zip(means, most)), mean, ' '.join(row) or '*'))


if __name__ == '__main__':
    main()
