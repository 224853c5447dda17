# SPDX-License-Identifier: Apache-2.0
"""Draws scores of rules: a row for each trace, a dot for each rule. Used by score.py."""
import math

COLOURS = {'library': '#1f6fb4', 'sentence': '#d9541e', 'jemalloc': '#2e8b3d', 'mimalloc': '#7b3fa0',
           'tcmalloc': '#8c6d1f'}
WIDTH, LEFT, RIGHT, TOP, ROW, BOTTOM = 820, 250, 20, 64, 22, 40
LOW, HIGH = 0.5, 50  # of the axis; beyond it, a dot lies on its end


def text(x, y, words, anchor='middle', size=11):
    return '<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d">%s</text>' % (
        x, y, anchor, size, words.replace('&', '&amp;').replace('<', '&lt;'))


def at(value):
    part = math.log(min(max(value, LOW), HIGH) / LOW) / math.log(HIGH / LOW)
    return LEFT + part * (WIDTH - LEFT - RIGHT)


def draw(rows):
    """rows: {trace: {rule: score}}. Returns the picture as SVG."""
    high = TOP + len(rows) * ROW + BOTTOM
    parts = [text(12, 20, 'Cost of free memory: 1 is a rule that knows the future and keeps slack', 'start', 13)]
    for i, (rule, colour) in enumerate(COLOURS.items()):
        parts += ['<circle cx="%d" cy="40" r="5" fill="%s"/>' % (20 + 110 * i, colour),
                  text(30 + 110 * i, 44, rule, 'start')]
    for tick in 0.5, 1, 2.2, 5, 10, 20, 50:
        style = 'stroke="#999" stroke-dasharray="4 3"' if tick in (1, 2.2) else 'stroke="#ddd"'
        parts += ['<path d="M%.1f %dV%d" %s/>' % (at(tick), TOP - 6, high - BOTTOM, style),
                  text(at(tick), high - BOTTOM + 16, '%g' % tick)]
    for i, (name, scores) in enumerate(rows.items()):
        y = TOP + i * ROW + ROW / 2
        parts += [text(LEFT - 10, y + 4, name, 'end'),
                  '<path d="M%d %.1fH%d" stroke="#eee"/>' % (LEFT, y, WIDTH - RIGHT)]
        for rule, value in scores.items():
            parts.append('<circle cx="%.1f" cy="%.1f" r="5" fill="%s" fill-opacity="0.75"/>' %
                         (at(value), y, COLOURS[rule]))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, high - 8, 'cost over allowed cost'))
    return ('<!-- SPDX-License-Identifier: Apache-2.0 -->\n'
            '<!-- Drawn by perf/retention/score.py. -->\n'
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif">\n'
            '<rect width="%d" height="%d" fill="white"/>\n%s\n</svg>\n' % (WIDTH, high, WIDTH, high, '\n'.join(parts)))
