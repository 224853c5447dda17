#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Blocks have the same addresses in each run without address space randomisation, or with one address_seed.

usage: addresses.py LIBRARY PROGRAM
"""
import os
import subprocess
import sys

RUNS = 5


def addresses(library, program, prefix=(), conf=''):
    env = dict(os.environ, LD_PRELOAD=library, SALLOC_CONF=conf)
    return {subprocess.run([*prefix, program, 'alike'], env=env, check=True, stdout=subprocess.PIPE, timeout=60).stdout
            for _ in range(RUNS)}


def main(library, program):
    still = ('setarch', '-R')
    if subprocess.run([*still, 'true'], check=False, stderr=subprocess.DEVNULL).returncode:
        sys.exit(77)
    for more in ',sample_interval:0', ',sample_interval:0,per_cpu:off', ',sample_interval:0,hardening:on':
        assert len(addresses(library, program, still, more)) == 1, more
        assert len(addresses(library, program, (), 'address_seed:7' + more)) == 1, more
        assert addresses(library, program, still, 'address_seed:7' + more) != addresses(
            library, program, still, 'address_seed:8' + more), more
        assert len(addresses(library, program, (), more)) > 1, more
    # Samples lie elsewhere. A run that loses its CPU for milliseconds, or moves to another one, may have others: about
    # one run in 20 beside other programs, and three of five once in a thousand tries.
    assert len(addresses(library, program, still)) <= RUNS - 2


if __name__ == '__main__':
    main(*sys.argv[1:])
