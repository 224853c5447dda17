#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Test: the picture of two workloads is XML with a line for each allocator, a point for each phase, and higher points for
higher ratios."""
import xml.etree.ElementTree as ET

import picture

SVG = '{http://www.w3.org/2000/svg}'


def main():
    a = {'one & <two>': [1, 1.5, 2.5], 'three': [1, 1, 1.25]}
    b = {'one & <two>': [4, 3], 'three': [0.5, 2]}  # the first point lies below the axis, and is drawn on it
    root = ET.fromstring(picture.draw({'a': a, 'b': b}))
    lines = [[tuple(map(float, point.split(','))) for point in line.get('points').split()]
             for line in root.iter(SVG + 'polyline')]
    assert [len(line) for line in lines] == [3, 3, 2, 2], lines
    assert lines[0][0][0] < lines[0][1][0] < lines[0][2][0] < lines[2][0][0], lines
    assert lines[0][0][1] > lines[0][1][1] > lines[0][2][1] and lines[1][0][1] == lines[1][1][1], lines
    assert lines[3][0][1] > lines[3][1][1] and lines[2][1][1] > lines[2][0][1], lines
    assert abs(lines[0][0][1] - lines[3][0][1]) < 0.01, lines
    assert sum(text.text == 'one & <two>' for text in root.iter(SVG + 'text')) == 1


main()
