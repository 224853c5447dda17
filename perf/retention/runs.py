#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that the judge of rules runs, on short traces of which the costs are known; that recorded ones can be read;
and that the recorder records a program.

usage: runs.py salloc-retention libsalloc-record-spans.so
"""
import os
import sys

import picture
import record
import score
import traces

MIB = 128
HOLD, WHOLE = 300e-9, 800e-9  # alloc/policy/retention.h


def steady():
    """100 MiB for 10 s."""
    writer = traces.Writer()
    for _ in range(10):
        writer.take(10 * MIB)
    writer.works(10000)
    return writer.out


def near(value, expected):
    assert abs(value - expected) < 0.001 * expected + 1e-6, (value, expected)


def main():
    s = score.score(sys.argv[1], 'steady', steady)
    for rule in score.SHOWN:
        near(s.rules[rule]['cost'], 100 * MIB * WHOLE)
        near(s.rules[rule]['peak'], 100)
    near(s.optimum, 100 * MIB * WHOLE)
    near(s.foresight, s.optimum)
    near(s.slack, (8 + 100 / 32) * MIB * 10 * HOLD)
    s = score.score(sys.argv[1], 'fills', lambda: traces.fills(2, 64, True))
    never, sentence = s.rules['never'], s.rules['sentence']
    near(never['hold'], never['free'] * MIB * never['seconds'] * HOLD)
    assert never['refaults'] <= 4 and never['cost'] > sentence['cost'], s.rules
    assert s.of('sentence') <= 2.2 and s.optimum <= s.foresight <= never['cost'], s.rules
    assert s.rules['at_once']['refaults'] > 32 > never['refaults'], s.rules
    kept = traces.recorded()
    assert len(kept) >= 10, kept
    s = score.score(sys.argv[1], 'sqlite3', kept['sqlite3'])
    assert len(s.rules) == len(score.SHOWN) and s.rules['library']['seconds'] > 0, s.rules
    lists = 'for n in range(3): l = [bytes(5000) for i in range(12000)]; l.clear()'
    made = record.record_program(os.path.abspath(sys.argv[2]), [sys.executable, '-c', lists], {}, None)
    s = score.score(sys.argv[1], 'lists', lambda: made)
    assert 56 <= s.rules['library']['peak'] < 120, s.rules  # 57 MiB in blocks of 5 KB
    assert 'circle' in picture.draw({'fills': {rule: s.of(rule) for rule in picture.COLOURS}})


if __name__ == '__main__':
    main()
