# SPDX-License-Identifier: Apache-2.0
"""Traces of spans (spans_format.h): made ones, and those that record.py has recorded."""
import glob
import lzma
import math
import os
import random

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDED = os.path.join(HERE, 'traces')
MAGIC = b'salloc-spans-1\n'
TAKE, DENSE, ALIGNED, GIVE, GIVE_ZERO, RESIZE, SPLIT, JOIN, TICK, TIME, CPU = range(1, 12)
MIB = 128  # pages


def varint(n):
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return out


class Writer:
    """A program that makes a trace. It runs maintenance while it works, and none while it sleeps."""

    def __init__(self, threads=False):
        self.out = bytearray(MAGIC)
        self.flags = 1 if threads else 0
        self.next_place = self.place = 0
        self.tick_ms = 500
        self.out += bytes((TICK, self.flags))
        self.used = 0

    def put_place(self, place):
        by = place - self.place
        self.out += varint(by << 1 if by >= 0 else (-by << 1) - 1)

    def take(self, pages):
        """The span, for give."""
        span = self.next_place, pages
        self.next_place += pages
        self.out.append(TAKE)
        self.put_place(span[0])
        self.out += varint(pages)
        self.place = span[0] + pages
        self.used += pages
        return span

    def give(self, span):
        self.out.append(GIVE)
        self.put_place(span[0])
        self.place = sum(span)
        self.used -= span[1]

    def works(self, ms):
        """Time passes, in calls."""
        while ms:
            step = min(ms, self.tick_ms)
            self.out += bytes((TIME, )) + varint(step) + bytes((CPU, )) + varint(step)
            ms -= step
            self.tick_ms -= step
            if not self.tick_ms:
                self.out += bytes((TICK, self.flags))
                self.tick_ms = 500

    def sleeps(self, ms):
        """Time passes without calls. Maintenance is due afterwards."""
        self.out += bytes((TIME, )) + varint(ms)
        self.tick_ms = 1


def fill(writer, numbers, pages, longest=64):
    """Spans of up to `longest` pages, about evenly spread over orders of magnitude."""
    spans = []
    while pages > 0:
        spans.append(writer.take(min(pages, round(longest**numbers.random()))))
        pages -= spans[-1][1]
    return spans


def empty(writer, numbers, spans):
    numbers.shuffle(spans)
    for span in spans:
        writer.give(span)


def loop(mib, round_ms, seconds, longest):
    """Fills and frees again and again, then sleeps for a minute."""
    numbers, writer = random.Random(1), Writer()
    for _ in range(seconds * 1000 // round_ms):
        spans = fill(writer, numbers, mib * MIB, longest)
        writer.works(round_ms)
        empty(writer, numbers, spans)
    writer.sleeps(60000)
    return writer.out


def fills(count, mib, threads):
    """Fills, frees in random order, and then sleeps for a minute."""
    numbers, writer = random.Random(2), Writer(threads)
    for _ in range(count):
        spans = fill(writer, numbers, mib * MIB)
        writer.works(400)
        empty(writer, numbers, spans)
        writer.works(100)
    writer.sleeps(60000)
    return writer.out


def wave(low, high, period_s, seconds, threads=True, shape=math.sin):
    """What is in use swings between two amounts in MiB, with blocks that live on at random."""
    numbers, writer, spans = random.Random(3), Writer(threads), []
    for ms in range(0, seconds * 1000, 20):
        goal = (low + (high - low) * (1 + shape(2 * math.pi * ms / 1000 / period_s)) / 2) * MIB
        while writer.used < goal:
            spans.append(writer.take(round(64**numbers.random())))
        while writer.used > goal + 64:
            i = numbers.randrange(len(spans))
            spans[i], spans[-1] = spans[-1], spans[i]
            writer.give(spans.pop())
        for _ in range(5):  # others replace each other
            i = numbers.randrange(len(spans))
            writer.give(spans[i])
            spans[i] = writer.take(spans[i][1])
        writer.works(20)
    return writer.out


def square(x):
    return 1 if math.sin(x) > 0 else -1


def phases(mib, count, ms):
    """A program like a compiler: each phase frees most of what the one before used, and uses other lengths."""
    numbers, writer, kept = random.Random(4), Writer(), []
    for phase in range(count):
        spans = fill(writer, numbers, mib * MIB, (4, 256, 16, 1024)[phase % 4])
        writer.works(ms)
        numbers.shuffle(spans)
        kept += spans[:len(spans) // 20]
        for span in spans[len(spans) // 20:]:
            writer.give(span)
    writer.works(ms)
    return writer.out


def sizes(mib, count, ms):
    """A cache whose entries are replaced at random, in phases of other lengths."""
    numbers, writer = random.Random(5), Writer(True)
    spans = fill(writer, numbers, mib * MIB, 8)
    for phase in range(count):
        longest = (8, 64, 2, 300)[phase % 4]
        for i in range(2 * len(spans)):
            if not spans:
                break
            k = numbers.randrange(len(spans))
            writer.give(spans[k])
            spans[k] = spans[-1]
            spans.pop()
            while writer.used < mib * MIB:
                spans.append(writer.take(round(longest**numbers.random())))
            if i % 200 == 0:
                writer.works(ms)
    writer.sleeps(20000)
    return writer.out


MADE = {
    'loop of 64 MiB, 5 ms, then sleeps': lambda: loop(64, 5, 3, 256),
    'loop of 400 MiB, 700 ms, then sleeps': lambda: loop(400, 700, 14, 64),
    'fills of 512 MiB (5), sleeps': lambda: fills(5, 512, False),
    'fills of 512 MiB (5), threads, sleeps': lambda: fills(5, 512, True),
    'fill of 40 MiB, sleeps': lambda: fills(1, 40, False),
    'wave, 50 to 150 MiB in 1 s': lambda: wave(50, 150, 1, 20),
    'wave, 50 to 150 MiB in 10 s': lambda: wave(50, 150, 10, 60),
    'wave, 100 to 300 MiB in 120 s': lambda: wave(100, 300, 120, 240),
    'square, 20 to 200 MiB in 6 s': lambda: wave(20, 200, 6, 60, shape=square),
    'square, 20 to 200 MiB in 70 s': lambda: wave(20, 200, 70, 280, shape=square),
    'phases of 80 MiB, other lengths': lambda: phases(80, 12, 600),
    'cache of 100 MiB, other lengths': lambda: sizes(100, 8, 20),
}


def recorded():
    """Name: a function that returns the trace."""
    names = sorted(glob.glob(os.path.join(RECORDED, '*.spans.xz')))
    return {os.path.basename(n)[:-len('.spans.xz')].replace('_', ' '): lambda n=n: lzma.open(n).read() for n in names}
