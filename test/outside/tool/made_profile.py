# SPDX-License-Identifier: Apache-2.0
"""Profile files that no program wrote: any stacks, sizes and names."""
import math

TYPES = (('inuse_objects', 'count'), ('inuse_space', 'bytes'))


def varint(n):
    out = b''
    n &= (1 << 64) - 1
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def message(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def row(frames, size, samples, period, p=None, **labels):
    """A row (frames, values of TYPES, labels): blocks of one size, as the library rounds them. Frames leaf first. p: the
    probability of a sample, if it is not that of the period."""
    if p:
        labels['samples'] = samples
    else:
        p = -math.expm1(size * math.log1p(-1 / period)) if period > 1 else 1
    p = 1 if p > 0.99 else p
    return frames, (int(samples / p + 0.5), int(samples * size / p + 0.5)), dict(labels, bytes=size)


def profile(rows, period, types=TYPES, libraries=('/usr/bin/made', '/usr/lib/libmade.so'),
            period_type=('space', 'bytes')):
    """The bytes of a profile.proto. A frame is a function's name; functions alternate between the libraries."""
    strings, functions, out = {'': 0}, {}, []

    def string(text):
        return strings.setdefault(text, len(strings))
    out += [message(1, number(1, string(name)) + number(2, string(unit))) for name, unit in types]
    for frames, values, labels in rows:
        sample = message(1, b''.join(varint(functions.setdefault(f, len(functions) + 1)) for f in frames))
        sample += message(2, b''.join(map(varint, values)))
        for key, value in labels.items():
            sample += message(3, number(1, string(key)) +
                              (number(3, value) if isinstance(value, int) else number(2, string(value))))
        out.append(message(2, sample))
    for i, library in enumerate(libraries, 1):
        out.append(message(3, number(1, i) + number(2, 4096 * i) + number(3, 4096 * i + 4096) + number(5, string(library))))
    for name, i in functions.items():
        out.append(message(5, number(1, i) + number(2, string(name))))
        out.append(message(4, number(1, i) + number(2, 1 + i % len(libraries)) + number(3, i) + message(4, number(1, i))))
    out.append(message(11, number(1, string(period_type[0])) + number(2, string(period_type[1]))) + number(12, period))
    out.append(number(14, string(types[-1][0])))
    out += [message(6, text.encode()) for text in strings]
    return b''.join(out)
