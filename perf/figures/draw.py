#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the figures of doc/sampling.md, as SVG, from the numbers that salloc-figures computes.

usage: draw.py PATH/TO/salloc-figures [FOLDER]     FOLDER: doc/figures
"""
import math
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COLOURS = ['#1f6fb4', '#d9541e', '#2e8b3d', '#7b3fa0']
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 400, 70, 20, 40, 56

# Name, title, label of x, of y, range of y, kind of x ("bytes", "log"), whether y is logarithmic.
FIGURES = [
    ('at-least-one', 'Chance of at least one sample', 'bytes', 'probability', (0, 1), 'bytes', False),
    ('expected-error', 'Expected error of the estimate, part of the truth', 'bytes', 'mean of |error| / bytes', (0, 2),
     'bytes', False),
    ('conditional-error', 'Expected error, given at least one sample', 'bytes', 'mean of |error| / bytes', (0.01, 10),
     'bytes', True),
    ('interval', 'Ends of the 95 % interval, part of the estimate', 'samples', 'end / estimate', (0, 6), 'log', False),
    ('variance', 'Variance for one block of a bytes, part of a T', 'a / T', 'variance / (a T)', (0, 1.1), 'log', False),
]


def bytes_text(value):
    for unit in 'B', 'KiB', 'MiB', 'GiB':
        if value < 1024:
            return '%g %s' % (value, unit)
        value /= 1024
    return '%g TiB' % value


class Plot:
    def __init__(self, figure, curves):
        self.name, self.title, self.x_label, self.y_label, self.y_range, self.kind, self.y_log = figure
        self.curves = curves
        xs = [x for points in curves.values() for x, _ in points]
        self.x_range = min(xs), max(xs)
        self.parts = []

    def x(self, value):
        low, high = (math.log(v) for v in self.x_range)
        return LEFT + (math.log(value) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        low, high = self.y_range
        if self.y_log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, 1e-9))
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def text(self, x, y, text, anchor='middle', size=12, turn=''):
        self.parts.append('<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d"%s>%s</text>' %
                          (x, y, anchor, size, turn, text.replace('&', '&amp;').replace('<', '&lt;')))

    def line(self, x1, y1, x2, y2, style):
        self.parts.append('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>' % (x1, y1, x2, y2, style))

    def grid(self):
        base, low, high = (4, *self.x_range) if self.kind == 'bytes' else (10, *self.x_range)
        exponent = math.ceil(math.log(low, base) - 1e-9)
        while base ** exponent <= high * (1 + 1e-9):
            x = self.x(base ** exponent)
            self.line(x, TOP, x, HEIGHT - BOTTOM, 'stroke="#ddd"')
            self.text(x, HEIGHT - BOTTOM + 16,
                      bytes_text(base ** exponent) if self.kind == 'bytes' else '%g' % base ** exponent, size=11)
            exponent += 1
        low, high = self.y_range
        if self.y_log:
            ticks = [10 ** e * m for e in range(-3, 2) for m in (1, 2, 5) if low <= 10 ** e * m <= high]
        else:
            step = 0.2 if high <= 1.2 else 0.5 if high <= 3 else 1
            ticks = [i * step for i in range(int(high / step + 1.0001)) if low <= i * step <= high]
        for tick in ticks:
            self.line(LEFT, self.y(tick), WIDTH - RIGHT, self.y(tick), 'stroke="#ddd"')
            self.text(LEFT - 8, self.y(tick) + 4, '%g' % tick, 'end', 11)

    def path(self, points, style):
        low, high = self.y_range
        runs, run = [], []
        for x, y in points:
            if not math.isnan(y) and low <= y <= high:
                run.append('%.1f,%.1f' % (self.x(x), self.y(y)))
            elif run:
                runs.append(run)
                run = []
        for run in runs + [run]:
            if len(run) > 1:
                self.parts.append('<polyline fill="none" points="%s" %s/>' % (' '.join(run), style))

    def draw(self):
        self.grid()
        self.text(WIDTH / 2, 22, self.title, size=15)
        self.text(WIDTH / 2, HEIGHT - 14, self.x_label)
        self.text(18, (TOP + HEIGHT - BOTTOM) / 2, self.y_label,
                  turn=' transform="rotate(-90 18 %.1f)"' % ((TOP + HEIGHT - BOTTOM) / 2))
        colours = {}
        for i, (name, points) in enumerate(self.curves.items()):
            colour = colours.setdefault(name.split(',')[0],
                                        COLOURS[len(colours) % len(COLOURS)])
            style = 'stroke="%s" stroke-width="2"' % colour
            if 'one block' in name:
                style += ' stroke-dasharray="5 4" stroke-opacity="0.7"'
            self.path(points, style)
            # At the top right, or below where the curves are high there.
            x, y = (LEFT + 16, TOP + 18 + 17 * i) if self.name == 'at-least-one' else \
                (WIDTH - RIGHT - 190, TOP + 18 + 17 * i)
            if self.name == 'variance':
                x, y = LEFT + 16, HEIGHT - BOTTOM - 60 + 17 * i
            self.line(x, y - 4, x + 24, y - 4, style)
            self.text(x + 30, y, name, 'start', 11)
        return ('<!-- SPDX-License-Identifier: Apache-2.0 -->\n'
                '<!-- %s: drawn by perf/figures/draw.py for doc/sampling.md. -->\n'
                '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif">\n'
                '<rect width="%d" height="%d" fill="white"/>\n%s\n</svg>\n' %
                (self.title, WIDTH, HEIGHT, WIDTH, HEIGHT, '\n'.join(self.parts)))


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    folder = sys.argv[2] if len(sys.argv) == 3 else os.path.join(ROOT, 'doc/figures')
    out = subprocess.run([sys.argv[1], 'points'], stdout=subprocess.PIPE, text=True, check=True).stdout
    curves = {}
    for line in out.splitlines():
        figure, curve, x, y = line.split('\t')
        curves.setdefault(figure, {}).setdefault(curve, []).append((float(x), float(y)))
    for figure in FIGURES:
        with open(os.path.join(folder, figure[0] + '.svg'), 'w') as file:
            file.write(Plot(figure, curves[figure[0]]).draw())


if __name__ == '__main__':
    main()
