# SPDX-License-Identifier: Apache-2.0
"""A script for programs.py, run with and without the library: data structures, text, threads, child
processes. Prints digests of what it computed, the same every time. Argument: do only one part of so many."""
import collections
import decimal
import hashlib
import heapq
import json
import multiprocessing
import pickle
import queue
import random
import re
import subprocess
import sys
import threading
import zlib

PART = int(sys.argv[1])


def digest(value):
    """A short name for a value."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def structures(seed):
    """Lists, dictionaries, sets, deques and heaps under random operations."""
    rng = random.Random(seed)
    numbers = [rng.randrange(10 ** 9) for _ in range(60000 // PART)]
    table = collections.defaultdict(list)
    for n in numbers:
        table[n % 3001].append(str(n))
    ring = collections.deque(maxlen=1000)
    heap = []
    for n in numbers:
        ring.append((n, 'x' * (n % 50)))
        heapq.heappush(heap, n)
        if len(heap) > 500:
            heapq.heappop(heap)
    big = bytearray()
    for n in numbers[:5000]:
        big += b'%d' % n
        if n % 7 == 0:
            del big[:n % 1000]
    return digest((sorted(table.items()), list(ring), sorted(heap), bytes(big),
                   sorted(set(numbers) - set(numbers[::3]))))


def text(seed):
    """Regular expressions, JSON, pickle, compression, decimals."""
    rng = random.Random(seed)
    words = [''.join(rng.choices('abcdefgh ', k=rng.randrange(1, 40))) for _ in range(20000 // PART)]
    joined = '\n'.join(words)
    tree = {w[:3]: {w: [len(w), w.split()]} for w in words}
    with decimal.localcontext() as context:
        context.prec = 2000
        root = decimal.Decimal(2).sqrt()
    return digest((re.sub(r'([aeiou])(\w)', r'\2\1', joined), json.dumps(tree, sort_keys=True),
                   pickle.loads(pickle.dumps(tree)) == tree,
                   zlib.crc32(zlib.decompress(zlib.compress(joined.encode(), 9))), root))


def threads():
    """Producers and consumers that hand objects over."""
    box, results = queue.Queue(100), []

    def produce(seed):
        rng = random.Random(seed)
        for i in range(3000 // PART):
            box.put((seed, i, 'y' * rng.randrange(2000)))

    def consume():
        total = 0
        while (item := box.get()) is not None:
            total += item[0] * item[1] + len(item[2])
        results.append(total)

    consumers = [threading.Thread(target=consume) for _ in range(3)]
    producers = [threading.Thread(target=produce, args=(n,)) for n in range(4)]
    for t in consumers + producers:
        t.start()
    for t in producers:
        t.join()
    for _ in consumers:
        box.put(None)
    for t in consumers:
        t.join()
    return digest(sum(results))


def main():
    for seed in range(4):
        print('structures', structures(seed), 'text', text(seed))
    print('threads', threads())
    with multiprocessing.get_context('fork').Pool(3) as pool:
        print('fork', pool.map(structures, range(4)))
    print(subprocess.run([sys.executable, '-c', 'print(sum(range(1000)))'], capture_output=True,
                         text=True, check=True).stdout)


if __name__ == '__main__':
    main()
