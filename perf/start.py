#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the library adds to the start of a trivial program: /bin/true preloaded with it, and with a library without
content, in turn. Both are files of one folder, so that paths and links are alike. Prints the median of the ratios of
neighbouring starts, with its 95 % interval by order statistics.

usage: start.py BUILD [PAIRS]
"""
import math
import os
import shutil
import subprocess
import sys
import tempfile

PAIRS = 1000
PROGRAM = '/bin/true'


def starts(launch, libraries, pairs):
    """Nanoseconds of each start: one list for each library."""
    read_end, write_end = os.pipe()
    taken = [[] for _ in libraries]
    with subprocess.Popen([launch, str(write_end), str(pairs), ','.join(libraries), PROGRAM],
                          pass_fds=[write_end]) as process:
        os.close(write_end)
        with os.fdopen(read_end) as report:
            for line in report:
                index, ns, _, status = map(int, line.split())
                assert status == 0, line
                taken[index].append(ns)
    assert process.returncode == 0 and all(len(of) == pairs for of in taken)
    return taken


def median(values):
    """The middle one, or the mean of the two in the middle."""
    n = len(values)
    return (sorted(values)[(n - 1) // 2] + sorted(values)[n // 2]) / 2


def interval(values):
    """The 95 % interval of the median: the signs of the differences from it are a fair coin's."""
    n = len(values)
    below = math.floor(n / 2 - 1.96 * math.sqrt(n) / 2)
    return sorted(values)[max(below, 0)], sorted(values)[min(n - 1 - below, n - 1)]


def main(build, pairs=PAIRS):
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix='salloc-start-') as folder:
        empty = os.path.join(folder, 'empty.so')
        subprocess.run(['cc', '-shared', '-o', empty, '-x', 'c', '/dev/null'], check=True)
        salloc = shutil.copy(os.path.join(build, 'libsalloc.so'), folder)
        with_it, without = starts(os.path.join(build, 'perf', 'salloc-launch'), [salloc, empty], int(pairs))
    ratios = [a / b for a, b in zip(with_it, without)]
    print(f'{pairs} pairs at load {load:.1f}: {median(with_it) / 1e3:.0f} us with the library, '
          f'{median(without) / 1e3:.0f} us with an empty one')
    print('ratio {:.3f}, 95 % interval {:.3f} to {:.3f}'.format(median(ratios), *interval(ratios)))


if __name__ == '__main__':
    main(*sys.argv[1:])
