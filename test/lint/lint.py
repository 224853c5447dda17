# SPDX-License-Identifier: Apache-2.0
"""What the checks of this folder share: which files there are, how findings are reported, running tools."""
import os
import re
import subprocess
import sys

SKIPPED = 77  # the exit code that meson takes for a test that cannot be run here

C_FILE = re.compile(r'\.(c|h|cc|def)$')


def source_files(root, pattern=None):
    """Paths relative to the root of all files of the project, build folders, dot folders and the inputs of fuzz
    targets left out."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            d for d in folders
            if not d.startswith('.') and d not in ('__pycache__', 'corpus') and
            not (folder == root and d.startswith('build')) and
            not os.path.exists(os.path.join(folder, d, 'meson-private')))
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), root)
            if pattern is None or re.search(pattern, path):
                found.append(path)
    return found


def read(root, path):
    with open(os.path.join(root, path), encoding='utf-8', errors='replace') as f:
        return f.read()


def without_comments(text):
    """C text with comments and the contents of strings blanked; lines stay where they are."""
    def blank(match):
        return re.sub(r'[^\n"\']', ' ', match.group(0))
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text,
                  flags=re.S)


class Findings:
    """Collects "file:line: what" and ends the check."""

    def __init__(self):
        self.lines = []

    def add(self, path, line, what):
        self.lines.append('%s:%s: %s' % (path, line, what) if line else '%s: %s' % (path, what))

    def finish(self, checked):
        for line in self.lines:
            print(line)
        print('%s: %d finding(s)' % (checked, len(self.lines)))
        sys.exit(1 if self.lines else 0)


def skip(why):
    print('skipped: ' + why)
    sys.exit(SKIPPED)


def run(*command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True, check=False, **more)


def output(*command):
    result = run(*command)
    if result.returncode != 0:
        print(result.stdout)
        sys.exit('%s: exit code %d' % (' '.join(command), result.returncode))
    return result.stdout


def find_tool(*names):
    """The first of the programs that is installed, or None."""
    for name in names:
        for folder in os.environ.get('PATH', '/usr/bin:/bin').split(':'):
            path = os.path.join(folder, name)
            if os.access(path, os.X_OK):
                return path
    return None


def dynamic_symbols(library, undefined):
    """{name: type letter} of the dynamic symbol table, versions cut off."""
    symbols = {}
    for line in output('nm', '-D', library).splitlines():
        fields = line.split()
        kind, name = fields[-2], fields[-1].split('@')[0]
        if (kind in 'Uwv') == undefined:
            symbols[name] = kind
    return symbols
