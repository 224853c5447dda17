#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The call graph of the object files has no cycle of more than two files, so that each file can be read knowing only
what lies below it. Not counted are names of libc's that the library also defines (a call of free goes to libc's
name, whoever serves it), and sa_init_slow, which every entry point calls and which knows all modules.
usage: check_cycles.py ROOT ARCHIVE
"""
import re
import sys

import lint

MOST = 2

# Cycles that are still there, by the objects in them. A knot may lose members; it may not gain any.
KNOTS = [
    {'sampling_guard_' + name for name in
     ('guarded_inspect', 'misuse_frames', 'fault_handler', 'reporting', 'misuse', 'guarded', 'pointer_lookup')},
]


def call_graph(archive):
    """{object: set of objects that define functions it refers to}."""
    defined, used = {}, {}
    for line in lint.output('nm', '-A', archive).splitlines():
        match = re.match(r'.*:([\w.]+)\.c\.o:[0-9a-f ]*([A-Za-z]) (\S+)$', line)
        if not match:
            continue
        member, kind, name = match.groups()
        used.setdefault(member, set())
        if not re.match(r'sa_(?!own_|init_slow$)|salloc_', name):
            continue
        if kind in 'TW':
            defined[name] = member
        elif kind == 'U':
            used[member].add(name)
    return {member: {defined[n] for n in names if n in defined} - {member} for member, names in used.items()}


def components(graph):
    """Strongly connected components of more than one node (Tarjan, "Depth-first search and linear graph algorithms", 1972)."""
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            members = set(stack[stack.index(node):])
            del stack[stack.index(node):]
            if len(members) > 1:
                found.append(members)

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return found


def main(root, archive):
    del root
    findings = lint.Findings()
    graph = call_graph(archive)
    if len(graph) < 100:
        findings.add(archive, None, 'only %d objects seen: this check looks at the wrong place' % len(graph))
    for members in components(graph):
        if len(members) > MOST and not any(members <= knot for knot in KNOTS):
            findings.add(archive, None, 'a cycle of calls: ' + ', '.join(sorted(members)))
    findings.finish('calls between %d objects' % len(graph))


if __name__ == '__main__':
    main(*sys.argv[1:])
