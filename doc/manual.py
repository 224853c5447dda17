#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the manual pages of the library: of each function in section 3, of all functions and types in salloc.3, and of
the options and metrics in salloc.7. Their sources are the comments of the public headers, alloc/api/options/options.def
and stats/metrics.def with metrics_huge.def.

usage: manual.py ROOT --list            prints the names of the pages
       manual.py ROOT VERSION FOLDER    writes them
"""
import os
import re
import sys

HEADERS = ['salloc/salloc.h', 'salloc/profile.h']
KINDS = {'size': 'bytes; k, m or g may follow the number', 'number': 'a number; k, m or g may follow', 'seconds': 'seconds',
         'flag': 'on or off', 'path': 'a path, or stderr, stdout or fd:N', 'signal': 'name or number of a signal',
         'percent': 'a percentage, or off'}


def read(root, path):
    with open(os.path.join(root, path), encoding='utf-8') as f:
        return f.read()


class Entry:
    """A documented declaration of a header."""

    def __init__(self, header, comment, code):
        self.header, self.code = header, code
        lines = [re.sub(r'^ \*? ?', '', line) for line in comment.strip('\n').split('\n')]
        self.text = '\n'.join(line.rstrip() for line in lines).strip('\n')
        function = re.match(r'[^{;(]*\b(salloc_\w+)\(', code)
        self.function = function.group(1) if function else None

    def summary(self):
        """The first sentence, in one line and without its period."""
        text = re.split(r'\n\n|\n@', self.text)[0].replace('\n', ' ')
        return re.split(r'(?<=[^.])[.:](?: |$)', text)[0].strip()


def declaration_end(text, at):
    """Where the declaration that begins at `at` ends: behind its semicolon."""
    depth = 0
    plain = re.sub(r'/\*.*?\*/', lambda m: ' ' * len(m.group(0)), text[at:], flags=re.S)
    for i, c in enumerate(plain):
        depth += (c in '({') - (c in ')}')
        if c == ';' and depth == 0:
            return at + i + 1
    raise ValueError('no end: ' + text[at:at + 80])


def entries(root):
    """All documented declarations, in their order."""
    found = []
    for header in HEADERS:
        text = read(root, 'include/' + header)
        for match in re.finditer(r'^/\*\*(.*?)\*/\n(?!#|\n|/\*)', text, re.M | re.S):
            code = text[match.end():declaration_end(text, match.end())]
            found.append(Entry(header, match.group(1), code))
    return found


def bare_types(root):
    """Structs and enums without a comment of their own, with their header."""
    for header in HEADERS:
        text = read(root, 'include/' + header)
        for match in re.finditer(r'^(?:struct|enum) \w+ \{', text, re.M):
            if not text[:match.start()].rstrip().endswith('*/'):
                yield header, text[match.start():declaration_end(text, match.start())]


def options(root):
    """(key, kind, default, help) of each option."""
    text = re.sub(r'/\*.*?\*/', '', read(root, 'alloc/api/options/options.def'), flags=re.S)
    for key, kind, value, rest in re.findall(r'^SA_OPTION\((\w+), *(\w+), *(.*?), *[^,]*, *[^,]*,\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\)',
                                             text, re.M | re.S):
        yield key, kind, value, ''.join(re.findall(r'"((?:[^"\\]|\\.)*)"', rest))


METRICS = {'': 'of the process: in JSON and OpenMetrics, and the numeric property salloc.NAME',
           'HUGE_': 'of the hugepage-aware heap: salloc_hugepages_NAME in OpenMetrics, and the numeric property salloc.NAME',
           'CLASS_': 'of each size class: salloc_class_NAME in OpenMetrics',
           'CPU_': 'of each CPU in use, or cache of a thread: salloc_cpu_NAME in OpenMetrics'}


def metrics(root):
    """(set, name, kind, help) of each metric."""
    for path in ('stats/metrics.def', 'stats/metrics_huge.def'):
        for metric in re.findall(r'^SA_(|HUGE_|CLASS_|CPU_)METRIC\((\w+),\s*(\w+),\s*.*?,\s*"((?:[^"\\]|\\.)*)"\)$',
                                 read(root, path), re.M | re.S):
            yield metric


def escaped(text):
    text = text.replace('\\', '\\e').replace('-', '\\-')
    return re.sub(r"^([.'])", r'\\&\1', text, flags=re.M)


def literal(code):
    return '.PP\n.nf\n%s\n.fi\n' % escaped(code)


def paragraph(lines):
    """A paragraph, a list, or a table that keeps its lines."""
    if all(line.startswith('  ') or not line for line in lines):
        return literal('\n'.join(lines))
    if not lines[0].startswith('- '):
        return '.PP\n%s\n' % escaped('\n'.join(line.strip() for line in lines))
    items = re.split(r'^- ', '\n'.join(lines), flags=re.M)[1:]
    return ''.join('.IP \\(bu 2\n%s\n' % escaped(re.sub(r'\n\s+', '\n', item).strip('\n')) for item in items)


def body(entry):
    """The text of an entry: description, arguments, result."""
    parts = re.split(r'^@(param|return)\b ?', entry.text, flags=re.M)
    text = '.SH DESCRIPTION\n'
    for block in re.split(r'\n\n', parts[0].strip('\n')):
        text += paragraph(block.split('\n'))
    named = list(zip(parts[1::2], parts[2::2]))
    for what, part in named:
        if what == 'param':
            name, _, rest = part.partition(' ')
            text += '.TP\n.I %s\n%s\n' % (escaped(name), escaped(re.sub(r'\s+', ' ', rest).strip()))
    results = [part for what, part in named if what == 'return']
    if results:
        text += '.SH RETURN VALUE\n%s\n' % escaped(re.sub(r'\s+', ' ', results[0]).strip())
    return text


def page(name, section, version, text):
    return '.\\" Made by doc/manual.py.\n.TH %s %d "" "salloc %s" "salloc"\n%s' % (name.upper(), section, version, text)


def function_page(entry, version):
    return page(entry.function, 3, version,
                '.SH NAME\n%s \\- %s\n' % (entry.function, escaped(entry.summary())) +
                '.SH LIBRARY\nsalloc (libsalloc, \\-lsalloc)\n.SH SYNOPSIS\n.nf\n.B #include <%s>\n.PP\n' % entry.header +
                escaped(entry.code) + '\n.fi\n' + body(entry) + '.SH SEE ALSO\n.BR salloc (3),\n.BR salloc (7)\n')


def library_page(root, version):
    every = entries(root)
    text = '.SH NAME\nsalloc \\- a malloc replacement: reports, limits, and profiles of the heap\n' \
        '.SH LIBRARY\nsalloc (libsalloc, \\-lsalloc)\n.SH DESCRIPTION\n' \
        'A program needs nothing from the headers to use salloc: it is linked with the library, or\n' \
        '.I LD_PRELOAD\nnames the library.\n' \
        'Unless a page says otherwise, any thread may call a function at any time, but a signal handler must not.\n' \
        'On success a function returns 0 or a pointer.\n' \
        'On failure it returns \\-1 or NULL, sets\n.IR errno ,\nand writes no result.\n'
    for header in HEADERS:
        text += '.SS <%s>\n' % header
        for entry in every:
            if entry.header == header and entry.function:
                text += '.TP\n.BR %s (3)\n%s\n' % (entry.function, escaped(entry.summary()))
    text += '.SH TYPES\n'
    for entry in every:
        if not entry.function:
            text += '.PP\n' + escaped(re.sub(r'\s*\n\s*', '\n', entry.text)).strip('\n') + '\n' + literal(entry.code)
    for _, code in bare_types(root):
        text += literal(code)
    return page('salloc', 3, version, text + '.SH SEE ALSO\n.BR malloc (3),\n.BR salloc (7)\n')


def options_page(root, version):
    text = '.SH NAME\nsalloc \\- options and metrics of the malloc replacement salloc\n.SH SYNOPSIS\n' \
        '.B SALLOC_CONF=\\(dqkey:value,key:value\\(dq\n.SH DESCRIPTION\n' \
        'The library reads the environment variable when the program starts.\n' \
        'A program that runs with privileges that its user does not have ignores it.\n' \
        '.B SALLOC_CONF=help\nprints the options on stderr.\n' \
        'A mistake is skipped, and reported in a line on stderr.\n' \
        'Some options can change at run time: see\n.BR salloc_set_option (3).\n.SH OPTIONS\n'
    for key, kind, value, line in options(root):
        what = KINDS.get(kind)
        default = {'flag': 'on' if value == '1' else 'off'}.get(kind, re.sub(r'^(\d+) \* 1024 \* 1024$', r'\1m', value))
        default = re.sub(r'^2048 \* 1024$', '2m', re.sub(r'^(?:SA_\w+_|SALLOC_PROFILE_)(\w+)$', lambda m: m.group(1).lower(),
                                                       default.strip('"')))
        text += '.TP\n.B %s\n%s.\n' % (key, escaped(line))
        if what:
            text += 'Value: %s.\n' % escaped(what)
        if default and kind != 'signal':
            text += 'Default: %s.\n' % escaped({'none': 'off', 'SA_HARDENED': 'off'}.get(default, default))
    text += '.SH METRICS\nNames that end in _bytes are in bytes. A counter never decreases.\n'
    for which, heading in METRICS.items():
        text += '.PP\nMetrics %s.\n' % escaped(heading)
        for of, name, kind, line in metrics(root):
            if of == which:
                text += '.TP\n.IR %s \\ (%s)\n%s.\n' % (name, kind.lower(), escaped(line))
    return page('salloc', 7, version, text + '.SH SEE ALSO\n.BR salloc (3),\n.BR malloc (3)\n')


def main():
    root = sys.argv[1]
    functions = [e for e in entries(root) if e.function]
    if sys.argv[2] == '--list':
        print('\n'.join(['salloc.3', 'salloc.7'] + [e.function + '.3' for e in functions]))
        return
    version, folder = sys.argv[2:]
    pages = {'salloc.3': library_page(root, version), 'salloc.7': options_page(root, version)}
    pages.update((e.function + '.3', function_page(e, version)) for e in functions)
    for name, text in pages.items():
        with open(os.path.join(folder, name), 'w', encoding='utf-8') as f:
            f.write(text)


if __name__ == '__main__':
    main()
