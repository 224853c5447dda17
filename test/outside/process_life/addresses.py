#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Blocks have the same addresses in each run without address space randomisation, or with one address_seed.

usage: addresses.py LIBRARY PROGRAM
"""
import os
import subprocess
import sys

RUNS = 5
PAUSE_MS = 15  # that a run is longer than the one before


def addresses(library, program, prefix=(), conf='', pause_ms=0):
    env = dict(os.environ, LD_PRELOAD=library, SALLOC_CONF=conf)
    return {subprocess.run([*prefix, program, 'alike', str(pause_ms * i)], env=env, check=True, stdout=subprocess.PIPE,
                           timeout=60).stdout for i in range(RUNS)}


def main(library, program):
    still = ('setarch', '-R')
    if subprocess.run([*still, 'true'], check=False, stderr=subprocess.DEVNULL).returncode:
        sys.exit(77)
    # Each CPU has a cache of its own, and a run may move from one to another.
    pinned = (*still, 'taskset', '-c', str(min(os.sched_getaffinity(0))))
    for more in ',sample_interval:0', ',sample_interval:0,per_cpu:off', ',sample_interval:0,hardening:on':
        assert len(addresses(library, program, pinned, more)) == 1, more
        assert len(addresses(library, program, pinned[2:], 'address_seed:7' + more)) == 1, more
        assert addresses(library, program, pinned, 'address_seed:7' + more) != addresses(
            library, program, pinned, 'address_seed:8' + more), more
        assert len(addresses(library, program, (), more)) > 1, more
    # Samples, guarded and watched blocks lie elsewhere.
    for more in '', ',sample_interval:64k', ',sample_interval:64k,guarded_sample:2', ',hardening:on':
        for prefix, conf in (pinned, more), (pinned[2:], 'address_seed:7' + more), (still, 'per_cpu:off' + more):
            assert len(addresses(library, program, prefix, conf, PAUSE_MS)) == 1, (prefix, conf)


if __name__ == '__main__':
    main(*sys.argv[1:])
