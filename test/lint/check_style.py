#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every file of the repository has in common: a licence line first, a comment that says what
the file is for, at most 500 lines, of at most 100 columns in C, C++ and the code of pages and 120
in documents, no tabs, no trailing blanks, a newline at the end, no // comments in C, and no words
that mean something only where the file was written.
usage: check_style.py ROOT
"""
import os
import re
import sys

import lint

LINES_MAX = 500
COLUMNS_MAX = dict.fromkeys(('.c', '.h', '.def', '.cc', '.hh', '.hpp', '.js', '.css', '.map'), 100)
COLUMNS_MAX['.md'] = 120
LICENCE = 'SPDX-License-Identifier: Apache-2.0'

# Spelled so that this file does not find itself.
UNWANTED = [
    (r'/(?:wor[k]|hom[e]|roo[t])/\w', 'a path of one machine'),
    (r'\bshare[d]/', 'a path of one machine'),
    (r'\b(?:sess[i]on|ag[e]nt|workpl[a]ce)s?\b', 'a word about how the file came to be'),
    (r'\b(?:TOD[O]|FIXM[E]|XX[X])\b', 'an open end'),
    (r'^\s+ski[p]\(\);', 'a test that CI counts as failed (TEST_SKIP of test/support/cmocka.h)'),
]


def check_opening(path, lines, findings):
    is_c = re.search(r'\.(c|h|def|ld|map|js|css)$', path)
    comments = ('/*',) if is_c else ('//', '/*') if path.endswith(('.cc', '.hh', '.hpp')) else \
        ('<!--',) if path.endswith(('.svg', '.html')) else ('.\\"',) if path.endswith('.1') else ('#', '"""')
    first = 1 if lines and lines[0].startswith('#!') else 0
    if len(lines) <= first or LICENCE not in lines[first]:
        findings.add(path, first + 1, 'the licence line is missing')
        return
    following = lines[first + 1] if len(lines) > first + 1 else ''
    if not following.startswith(comments):
        findings.add(path, first + 2, 'does not open with a comment that says what the file is for')


def check_lines(path, lines, findings):
    is_text = path.endswith('.md')
    is_patch = path.endswith('.patch')  # its lines are those of another project
    for number, line in enumerate(lines, 1):
        if '\t' in line and not is_patch:
            findings.add(path, number, 'a tab')
        if line != line.rstrip() and not is_patch:
            findings.add(path, number, 'blanks at the end of the line')
        for pattern, what in UNWANTED:
            match = re.search(pattern, line)
            if match:
                findings.add(path, number, '%s: %s' % (what, match.group(0)))
    if len(lines) > LINES_MAX and not is_text:
        findings.add(path, None, '%d lines, at most %d' % (len(lines), LINES_MAX))


def check_columns(path, lines, findings):
    """Left out: of documents, rows of tables, addresses, and lines that cannot be broken."""
    is_text = path.endswith('.md')
    most = COLUMNS_MAX.get(os.path.splitext(path)[1])
    for number, line in enumerate(lines, 1):
        if most and len(line) > most and \
                not (is_text and (line.startswith('|') or 'http' in line or ' ' not in line.strip())):
            findings.add(path, number, '%d columns, at most %d' % (len(line), most))


def check_comments(path, text, findings):
    """// outside of strings and block comments."""
    blanked = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
                     lambda m: re.sub(r'[^\n]', ' ', m.group(0)), text, flags=re.S)
    for number, line in enumerate(blanked.split('\n'), 1):
        if '//' in line:
            findings.add(path, number, 'a // comment')


def main(root):
    findings = lint.Findings()
    # Dot files belong to tools, build* is not part of the repository, and pictures are no text.
    files = [f for f in lint.source_files(root) if f != 'LICENSE' and not re.match(r'\.|build|.*\.(png|xz)$', f)]
    for path in files:
        text = lint.read(root, path)
        lines = text.split('\n')
        if lines[-1]:
            findings.add(path, len(lines), 'no newline at the end')
        else:
            lines.pop()
        if not path.endswith('.md'):
            check_opening(path, lines, findings)
        check_lines(path, lines, findings)
        check_columns(path, lines, findings)
        if re.search(r'\.(c|h|def)$', path):
            check_comments(path, text, findings)
    findings.finish('style of %d files' % len(files))


if __name__ == '__main__':
    main(sys.argv[1])
