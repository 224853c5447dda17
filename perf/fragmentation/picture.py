#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws resident memory over what is live, phase by phase: a panel for each workload, a line for each allocator."""
import math

WIDTH, HEIGHT = 420, 240  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 40, 12, 30, 36
COLOURS = ['#1f6fb4', '#d9541e', '#2e8b3d', '#7b3fa0', '#8c6d1f', '#555555']


def text(x, y, words, anchor='middle', size=11):
    return '<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d">%s</text>' % (
        x, y, anchor, size, words.replace('&', '&amp;').replace('<', '&lt;'))


def panel(left, top, name, lines, colours):
    """lines: {allocator: ratios at the ends of phases}."""
    phases = max(map(len, lines.values()))
    highest = max(2, math.ceil(max(max(ratios) for ratios in lines.values())))
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(phase):
        return left + LEFT + phase * wide / max(1, phases - 1)

    def y(ratio):
        return top + TOP + high - (ratio - 1) * high / (highest - 1)

    parts = [text(left + WIDTH / 2, top + 18, name, size=13),
             text(left + WIDTH / 2, top + HEIGHT - 6, 'phases: 1 to %d' % phases)]
    for ratio in range(1, highest + 1):
        parts += ['<path d="M%.1f %.1fh%.1f" stroke="#ddd"/>' % (x(0), y(ratio), wide),
                  text(x(0) - 6, y(ratio) + 4, str(ratio), 'end')]
    for allocator, ratios in lines.items():
        points = ' '.join('%.1f,%.1f' % (x(i), y(max(1, ratio))) for i, ratio in enumerate(ratios))
        parts.append('<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>' % (colours[allocator], points))
    return parts


def draw(workloads):
    """workloads: {name: {allocator: ratios}}. Returns the picture as SVG."""
    allocators = list(next(iter(workloads.values())))
    colours = {allocator: COLOURS[i % len(COLOURS)] for i, allocator in enumerate(allocators)}
    columns = min(2, len(workloads))
    rows = math.ceil(len(workloads) / columns)
    parts = [text(12, 18, 'Resident memory over live bytes', 'start', 13)]
    for i, allocator in enumerate(allocators):
        parts.append('<path d="M%d 32h20" stroke="%s" stroke-width="2"/>' % (12 + 120 * i, colours[allocator]))
        parts.append(text(36 + 120 * i, 36, allocator, 'start'))
    for i, (name, lines) in enumerate(workloads.items()):
        parts += panel(i % columns * WIDTH, 44 + i // columns * HEIGHT, name, lines, colours)
    wide, high = max(columns * WIDTH, 36 + 120 * len(allocators)), 44 + rows * HEIGHT
    return ('<!-- SPDX-License-Identifier: Apache-2.0 -->\n'
            '<!-- Drawn by perf/fragmentation/over_live.py. -->\n'
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif">\n'
            '<rect width="%d" height="%d" fill="white"/>\n%s\n</svg>\n' % (wide, high, wide, high, '\n'.join(parts)))
