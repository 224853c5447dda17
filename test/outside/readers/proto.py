# SPDX-License-Identifier: Apache-2.0
"""profile.proto, decoded by hand."""
import gzip


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """(number, value) of each field; bytes of those that have a length."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        elif tag & 7 == 2:
            length, at = varint(data, at)
            value = data[at:at + length]
            if len(value) != length:
                raise ValueError('a field is cut short')
            at += length
        else:
            raise ValueError(f'wire type {tag & 7}')
        yield tag >> 3, value


def packed(data):
    at, values = 0, []
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


class Profile:
    """Strings are resolved; locations are {id: (mapping id, address, [function names])}."""

    def __init__(self, path):
        with open(path, 'rb') as file:
            data = file.read()
        if data[:2] == b'\x1f\x8b':
            data = gzip.decompress(data)  # checks length and checksum
        raw = {}
        for number, value in fields(data):
            raw.setdefault(number, []).append(value)
        self.strings = [s.decode() for s in raw[6]]
        self.types = [self.words(t) for t in raw[1]]
        self.default = self.strings[raw[14][0]]
        self.period_type, self.period = self.words(raw[11][0]), raw.get(12, [0])[0]
        self.comments = [self.strings[i] for i in raw.get(13, [])]
        self.mappings = {m[1]: m for m in map(dict, map(fields, raw.get(3, [])))}
        whole = {f[1]: f for f in map(dict, map(fields, raw.get(5, [])))}
        functions = {number: self.strings[f[2]] for number, f in whole.items()}
        self.function_ids = list(functions)
        self.locations = {}
        self.lines = {}  # {location id: [(function, its mangled name, source file, line)]}
        for message in raw.get(4, []):
            location = dict(fields(message))
            lines = [dict(fields(v)) for n, v in fields(message) if n == 4]
            self.locations[location[1]] = (location.get(2, 0), location.get(3, 0),
                                           [functions[line[1]] for line in lines])
            self.lines[location[1]] = [(*(self.strings[whole[line[1]].get(i, 0)] for i in (2, 3, 4)), line.get(2, 0))
                                       for line in lines]
        self.samples = [self.sample(s) for s in raw.get(2, [])]

    def words(self, message):
        type_ = dict(fields(message))
        return self.strings[type_[1]], self.strings[type_[2]]

    def sample(self, message):
        """(location ids, values, labels)"""
        locations, values, labels = [], [], {}
        for number, value in fields(message):
            if number == 1:
                locations += packed(value)
            elif number == 2:
                values += packed(value)
            elif number == 3:
                label = dict(fields(value))
                labels[self.strings[label[1]]] = (self.strings[label[2]] if 2 in label else
                                                  (label.get(3, 0), self.strings[label[4]]))
        return locations, values, labels

    def totals(self):
        return {name: sum(s[1][i] for s in self.samples) for i, (name, _) in enumerate(self.types)}
