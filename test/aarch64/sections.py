#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the restartable sequences of a linked libsalloc.so for aarch64.

What the kernel does with a sequence depends on addresses that only the linker knows, and a mistake
shows only when a thread is preempted inside. For every descriptor in section __rseq_cs this proves:
  * it is aligned, its version and flags are 0, and no two share a start;
  * the word before the abort handler is the signature that glibc registers with;
  * the three instructions before the start compute the address of this very descriptor (adrp, add)
    and store it at offset 8 of the rseq area;
  * the last instruction is a store, to the plain address in a register: the commit;
  * nothing in between breaks it: no call, return, indirect branch, system call, exclusive or atomic
    access, and no branch into the middle of another sequence;
  * the abort handler ends in a branch to before the start.

Usage: sections.py LIBRARY    (or --self-test: the checks find planted faults)
"""
import struct
import sys

SIGNATURE = 0xD428BC00  # brk #0x45e0
R_AARCH64_RELATIVE = 1027
RSEQ_CS_OFFSET = 8
HANDLER_WORDS = 16


class Elf:
    """Just enough of ELF64: sections by name, words by address."""

    def __init__(self, data):
        self.data = data
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("not a little-endian 64-bit ELF file")
        (self.machine,) = struct.unpack_from("<H", data, 18)
        (shoff,) = struct.unpack_from("<Q", data, 0x28)
        entsize, count, names = struct.unpack_from("<HHH", data, 0x3A)
        heads = [struct.unpack_from("<IIQQQQIIQQ", data, shoff + i * entsize) for i in range(count)]
        base = heads[names][4]
        self.sections = {}
        for h in heads:
            end = data.index(b"\0", base + h[0])
            self.sections[data[base + h[0]:end].decode()] = h
        self.allocated = [h for h in heads if h[2] & 2 and h[1] != 8]

    def offset(self, address, bytes_):
        for h in self.allocated:
            if h[3] <= address and address + bytes_ <= h[3] + h[5]:
                return address - h[3] + h[4]
        raise ValueError("address %#x is in no section" % address)

    def word(self, address):
        return struct.unpack_from("<I", self.data, self.offset(address, 4))[0]

    def executable(self, address):
        return any(h[2] & 4 and h[3] <= address < h[3] + h[5] for h in self.allocated)

    def relative(self):
        """Address -> addend of the relative relocations."""
        h = self.sections[".rela.dyn"]
        found = {}
        for at in range(h[4], h[4] + h[5], 24):
            where, info, addend = struct.unpack_from("<QQq", self.data, at)
            if info == R_AARCH64_RELATIVE:
                found[where] = addend
        return found


def signed(value, bits):
    return value - (1 << bits) if value >> (bits - 1) else value


def branch_target(word, at):
    """Target of a direct branch without link; None for any other instruction."""
    if word & 0xFC000000 == 0x14000000:  # b
        return at + 4 * signed(word & 0x3FFFFFF, 26)
    if word & 0xFF000010 == 0x54000000 or word & 0x7E000000 == 0x34000000:  # b.cond, cbz, cbnz
        return at + 4 * signed(word >> 5 & 0x7FFFF, 19)
    if word & 0x7E000000 == 0x36000000:  # tbz, tbnz
        return at + 4 * signed(word >> 5 & 0x3FFF, 14)
    return None


def forbidden(word):
    if word & 0xFC000000 == 0x94000000:
        return "a call"
    if word & 0xFE000000 == 0xD6000000:
        return "an indirect branch or return"
    if word & 0xFF000000 == 0xD4000000:
        return "an exception (svc, brk, ...)"
    if word & 0x3F000000 == 0x08000000:
        return "an exclusive or ordered access"
    if word & 0x3B200C00 == 0x38200000:
        return "an atomic access"
    return None


def is_commit(word):
    """str Wt or Xt, [Xn], offset 0."""
    return word & 0xBFFFFC00 == 0xB9000000


def stores_descriptor(elf, start, descriptor):
    adrp, add, store = (elf.word(start - 12 + 4 * i) for i in range(3))
    rd = adrp & 31
    if adrp & 0x9F000000 != 0x90000000 or add & 0xFFC00000 != 0x91000000:
        return "does not begin with adrp and add"
    if add & 31 != rd or add >> 5 & 31 != rd or store & 31 != rd:
        return "adrp, add and store use different registers"
    page = signed((adrp >> 5 & 0x7FFFF) << 2 | adrp >> 29 & 3, 21) << 12
    address = ((start - 12) & ~0xFFF) + page + (add >> 10 & 0xFFF)
    if address != descriptor:
        return "stores %#x, not its descriptor" % address
    if store & 0xFFC00000 != 0xF9000000 or (store >> 10 & 0xFFF) * 8 != RSEQ_CS_OFFSET:
        return "does not store the descriptor at offset %d" % RSEQ_CS_OFFSET
    return None


def check_sequence(elf, descriptor, start, length, abort, inside_other):
    """Faults of one sequence, as texts."""
    end = start + length
    if not (elf.executable(start) and elf.executable(end - 4) and elf.executable(abort)):
        return ["is not in executable memory"]
    faults = []
    if start <= abort < end:
        faults.append("aborts into itself")
    if elf.word(abort - 4) != SIGNATURE:
        faults.append("has the signature %#010x" % elf.word(abort - 4))
    wrong = stores_descriptor(elf, start, descriptor)
    if wrong:
        faults.append(wrong)
    if not is_commit(elf.word(end - 4)):
        faults.append("ends in %#010x, which is not a commit" % elf.word(end - 4))
    for at in range(start, end, 4):
        what, target = forbidden(elf.word(at)), branch_target(elf.word(at), at)
        if what:
            faults.append("holds %s at %#x" % (what, at))
        if target is not None and inside_other(target):
            faults.append("branches into another sequence at %#x" % at)
    for at in range(abort, abort + 4 * HANDLER_WORDS, 4):
        target = branch_target(elf.word(at), at)
        if target is not None:
            if elf.word(at) & 0xFC000000 != 0x14000000 or start <= target < end:
                faults.append("restarts inside itself or conditionally")
            break
    else:
        faults.append("has an abort handler without a branch")
    return faults


def check(data):
    """(number of sequences, faults) of a library's bytes."""
    elf = Elf(data)
    if elf.machine != 183:
        return 0, ["not an aarch64 file"]
    if "__rseq_cs" not in elf.sections:
        return 0, ["no section __rseq_cs"]
    head, relative = elf.sections["__rseq_cs"], elf.relative()
    if head[3] % 32 or head[5] % 32 or not head[5]:
        return 0, ["__rseq_cs is empty or not aligned to 32 bytes"]
    sequences, faults = [], []
    for at in range(head[3], head[3] + head[5], 32):
        version, flags, _, length, _ = struct.unpack_from("<IIQQQ", elf.data, elf.offset(at, 32))
        start, abort = relative.get(at + 8), relative.get(at + 24)
        if version or flags or start is None or abort is None or not 0 < length < 4096:
            faults.append("descriptor %#x is malformed" % at)
        else:
            sequences.append((at, start, length, abort))
    starts = {s[1] for s in sequences}
    if len(starts) != len(sequences):
        faults.append("two descriptors have one start")
    for at, start, length, abort in sequences:
        def inside_other(target, own=start):
            return any(s < target < s + n for _, s, n, _ in sequences if s != own)
        faults += ["sequence at %#x %s" % (start, f)
                   for f in check_sequence(elf, at, start, length, abort, inside_other)]
    return len(sequences), faults


def self_test(data):
    """Plants faults one at a time; each must be found. Texts for those that were not."""
    elf = Elf(data)
    head, relative = elf.sections["__rseq_cs"], elf.relative()
    at = head[3]
    start, abort = relative[at + 8], relative[at + 24]
    (length,) = struct.unpack_from("<Q", data, elf.offset(at + 16, 8))
    nop, store_word = 0xD503201F, elf.word(start - 4)
    plants = {
        "signature": (abort - 4, SIGNATURE ^ 0x20),
        "descriptor store": (start - 4, store_word + (1 << 10)),
        "descriptor address": (start - 8, elf.word(start - 8) + (32 << 10)),
        "commit": (start + length - 4, nop),
        "call": (start + 8, 0x94000000),
        "system call": (start + 8, 0xD4000001),
        "exclusive access": (start + 8, 0xC85F7C00),
        "atomic access": (start + 8, 0xF8200000),
        "flags": (at + 4, 1),
        "length": (at + 16, 4),
    }
    missed = []
    for name, (where, word) in plants.items():
        spoilt = bytearray(data)
        struct.pack_into("<I", spoilt, elf.offset(where, 4), word)
        if not check(bytes(spoilt))[1]:
            missed.append("planted fault not found: " + name)
    return missed


def main(args):
    with open(args[-1], "rb") as f:
        data = f.read()
    count, faults = check(data)
    if args[0] == "--self-test" and not faults:
        faults = self_test(data)
    for fault in faults:
        print(fault)
    print("%d sequences, %d faults" % (count, len(faults)))
    return 1 if faults or not count else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
