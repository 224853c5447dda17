#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What rules for free memory cost on traces of spans, against a rule that knows the future.

Prints two tables in Markdown. The first has scores: the cost under a rule over what foresight costs, and slack that
is held all the time (8 MiB and 1/32 of what is in use). 1 is as good as it gets, and 2.2 is what the sentence
promises to processes with threads if pages are interchangeable. The second table has the peak of backed memory and
the mean of what is free and backed, in MiB. --picture draws the scores, as SVG.

usage: score.py [--only WORD] [--picture FILE] [--csv] salloc-retention
"""
import argparse
import concurrent.futures
import math
import statistics
import subprocess
import sys

import picture
import traces

SHOWN = ['library', 'sentence', 'fraction', 'jemalloc', 'mimalloc', 'tcmalloc', 'never', 'at_once']


class Score:
    """One trace under all rules."""

    def __init__(self, name, text):
        lines = [line.split() for line in text.splitlines()]
        single = {words[0]: float(words[1]) for words in lines if len(words) == 2}
        self.name = name
        self.optimum, self.foresight, self.slack = (single[k] for k in ('optimum', 'foresight', 'slack'))
        columns = ['cost', 'hold', 'touch', 'peak', 'free', 'refaults', 'seconds']
        self.rules = {words[0]: dict(zip(columns, map(float, words[1:]))) for words in lines if len(words) > 2}

    def allowed(self):
        return self.foresight + self.slack

    def of(self, rule):
        return self.rules[rule]['cost'] / self.allowed()


def score(program, name, make):
    text = subprocess.run([program], input=bytes(make()), stdout=subprocess.PIPE, check=True).stdout.decode()
    return Score(name, text)


def score_all(program, chosen):
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        jobs = [pool.submit(score, program, name, make) for name, make in chosen.items()]
        return [job.result() for job in jobs]


def mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))


def print_scores(scores):
    print('| trace | s | CPU s allowed | %s |' % ' | '.join(SHOWN))
    print('|---|--:|--:|%s' % ('--:|' * len(SHOWN)))
    for s in scores:
        print('| %s | %.0f | %.3f | %s |' % (s.name, s.rules['never']['seconds'], s.allowed(),
                                            ' | '.join('%.2f' % s.of(rule) for rule in SHOWN)))
    rows = {'geometric mean': lambda rule: '%.2f' % mean(s.of(rule) for s in scores),
            'all costs over all allowed': lambda rule: '%.2f' % (sum(s.rules[rule]['cost'] for s in scores) / allowed),
            'mean of peaks, MiB': lambda rule: '%.0f' % statistics.mean(s.rules[rule]['peak'] for s in scores),
            'mean of free, MiB': lambda rule: '%.0f' % statistics.mean(s.rules[rule]['free'] for s in scores)}
    allowed = sum(s.allowed() for s in scores)
    for name, value in rows.items():
        print('| %s | | | %s |' % (name, ' | '.join(value(rule) for rule in SHOWN)))


def print_memory(scores):
    print('\n| trace | %s |' % ' | '.join(SHOWN))
    print('|---|%s' % ('--:|' * len(SHOWN)))
    for s in scores:
        print('| %s | %s |' % (s.name, ' | '.join('%.0f, %.0f' % (s.rules[r]['peak'], s.rules[r]['free'])
                                                  for r in SHOWN)))


def print_csv(scores):
    print('trace,rule,cost,hold,touch,peak,free,refaults,seconds,optimum,foresight,slack')
    for s in scores:
        for rule, row in s.rules.items():
            print('"%s",%s,%s,%g,%g,%g' % (s.name, rule, ','.join('%g' % v for v in row.values()), s.optimum,
                                           s.foresight, s.slack))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--only', default='', metavar='WORD')
    parser.add_argument('--picture', metavar='FILE')
    parser.add_argument('--csv', action='store_true')
    parser.add_argument('program')
    args = parser.parse_args()
    chosen = {name: make for name, make in {**traces.MADE, **traces.recorded()}.items() if args.only in name}
    if not chosen:
        sys.exit('no trace has "%s" in its name' % args.only)
    scores = score_all(args.program, chosen)
    if args.csv:
        print_csv(scores)
    else:
        print_scores(scores)
        print_memory(scores)
    if args.picture:
        with open(args.picture, 'w', encoding='utf-8') as file:
            file.write(picture.draw({s.name: {rule: s.of(rule) for rule in picture.COLOURS} for s in scores}))


if __name__ == '__main__':
    main()
