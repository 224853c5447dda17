#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The compiled fast paths: from the entry straight to the ret there is no call, no push, no locked
instruction, and no more instructions than fastpath.budget states.

The path is what the processor executes when no conditional jump is taken: sources mark every rare
condition as unlikely, so that compilers place it out of line. An unconditional jump inside the function is
followed and counted; one out of it means that the straight line is the slow path.
usage: check_fastpath.py ROOT LIBRARY COMPILER VERSION
"""
import re
import sys

import lint

INSTRUCTION = re.compile(r'^\s*([0-9a-f]+):\s+(\S.*)$')
JUMP = re.compile(r'^(j\w+)\s+([0-9a-f]+)\b')
LIMIT = 200


def read_budget(root):
    """(compilers of the columns, {function: [count per compiler]})"""
    columns, budget = [], {}
    for line in lint.read(root, 'test/lint/fastpath.budget').splitlines():
        fields = line.split()
        if not fields or line.startswith('#'):
            continue
        if fields[0] == 'function':
            columns = fields[1:]
        else:
            budget[fields[0]] = [int(n) for n in fields[1:]]
    return columns, budget


def disassemble(library, function):
    """[(address, instruction)] of a function."""
    lines, inside = [], False
    text = lint.output('objdump', '-d', '--no-show-raw-insn', '--disassemble=' + function, library)
    for line in text.splitlines():
        if line.endswith('<%s>:' % function):
            inside = True
        elif not line.strip():
            inside = False
        elif inside and INSTRUCTION.match(line):
            address, text = INSTRUCTION.match(line).groups()
            lines.append((int(address, 16), text.split('#')[0].strip()))
    return lines


def walk(code, findings, function):
    """Number of instructions on the straight line from the entry to a ret; None if it does not get there."""
    index = {address: i for i, (address, _) in enumerate(code)}
    i = count = 0
    while i < len(code) and count < LIMIT:
        text = code[i][1]
        jump = JUMP.match(text)
        count += 1
        if text.startswith('ret'):
            return count
        if text.startswith(('call', 'push', 'lock ', 'syscall')) or re.match(r'xchg .*\(', text):
            findings.add(function, None, 'on the fast path: %s' % text)
        if jump and jump.group(1) == 'jmp':
            target = int(jump.group(2), 16)
            if target not in index:
                findings.add(function, None, 'the straight line leaves the function: %s' % text)
                return None
            i = index[target]
        else:
            i += 1
    findings.add(function, None, 'no ret within %d instructions' % count)
    return None


def column_of(columns, compiler, version):
    """The column of the compiler: with the highest first version that is not above this one. None: there is none."""
    found = [(int(c[len(compiler):] or 0), c) for c in columns if re.fullmatch(compiler + r'\d*', c)]
    return max((f for f in found if f[0] <= int(version.split('.')[0])), default=(0, None))[1]


def main(root, library, compiler, version):
    findings = lint.Findings()
    columns, budget = read_budget(root)
    column = column_of(columns, compiler, version)

    if 'X86-64' not in lint.output('readelf', '-h', library):
        lint.skip('the budget is for x86-64')
    for function, most in sorted(budget.items()):
        code = disassemble(library, function)
        if not code:
            findings.add(library, None, 'no function %s' % function)
            continue
        count = walk(code, findings, function)
        if count is None:
            continue
        limit = most[columns.index(column)] if column else None
        print('%-12s %3d instructions, budget %s' % (function, count, limit or 'none for ' + compiler))
        if limit is not None and count > limit:
            findings.add(function, None, '%d instructions, budget %d' % (count, limit))
    findings.finish('fast paths')


if __name__ == '__main__':
    main(*sys.argv[1:])
