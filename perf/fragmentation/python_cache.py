# SPDX-License-Identifier: Apache-2.0
"""A python3 program with a cache whose objects change: bytes, lists and dicts in turn, of other sizes in each phase.

Prints a line for each phase: "over_live RSS LIVE", in bytes. Run it with PYTHONMALLOC=malloc.
usage: python_cache.py [MIB PHASES]
"""
import random
import sys

LIMIT = (int(sys.argv[1]) if len(sys.argv) > 1 else 48) << 20
PHASES = int(sys.argv[2]) if len(sys.argv) > 2 else 16
SLOT = 100  # of a cache entry, about


def make(rng, kind, size):
    if kind == 0:
        return bytes(rng.randrange(size // 2, size))
    if kind == 1:
        return [0] * (rng.randrange(size // 2, size) // 8)
    return {i: None for i in range(rng.randrange(size // 2, size) // 100)}


def resident():
    with open('/proc/self/statm', encoding='ascii') as f:
        return int(f.read().split()[1]) * 4096


def main():
    rng, cache, live, oldest, key = random.Random(1), {}, 0, 0, 0
    for phase in range(PHASES):
        size, written = int(64 * 100 ** rng.random()), 0
        while written < LIMIT:
            value = make(rng, (phase + key) % 3, size)
            cost = sys.getsizeof(value) + SLOT
            cache[key], key = (value, cost), key + 1
            live += cost
            written += cost
            while live > LIMIT:
                # Not strictly the oldest: one in eight stays for longer.
                victim = oldest if oldest % 8 or oldest not in cache else rng.randrange(oldest, key)
                oldest += victim == oldest or rng.random() < 0.5
                found = cache.pop(victim, None)
                live -= found[1] if found else 0
        print('over_live', resident(), live, flush=True)


main()
