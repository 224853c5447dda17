#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the program `estimates` with many seeds: over them, z = (estimate - truth) / standard error must have
mean 0 (within 4 / sqrt(seeds)) and deviation 1.

    bias.py PROGRAM MODE INTERVAL SEEDS
"""
import math
import os
import subprocess
import sys


def main():
    program, mode, interval, seeds = sys.argv[1:5]
    values = {}
    for seed in range(1, int(seeds) + 1):
        env = dict(os.environ, SALLOC_CONF=f"sample_seed:{seed},guarded_sample:0")
        run = subprocess.run([program, mode, interval, "print"], env=env, check=True,
                             capture_output=True, text=True)
        for line in run.stdout.splitlines():
            name, total, worst, sites = line.split()
            values.setdefault(name, []).append((float(total), float(worst), int(sites)))
    bad = 0
    for name, z in values.items():
        n = len(z)
        mean = sum(v[0] for v in z) / n
        deviation = math.sqrt(sum((v[0] - mean) ** 2 for v in z) / (n - 1))
        worst = max((abs(v[1]) for v in z), default=0)
        out = "" if abs(mean) <= 4 / math.sqrt(n) else " BIASED"
        bad += out != ""
        print(f"{mode:9} {name:22} mean {mean:+.3f} (+-{1 / math.sqrt(n):.3f})  deviation "
              f"{deviation:.3f}  beyond 3: {sum(abs(v[0]) > 3 for v in z)}/{n}  "
              f"worst of {z[0][2]} sites {worst:.2f}{out}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
