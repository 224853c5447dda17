#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What sallocctl says of itself: help, manual page, completion, and command lines that are wrong.

usage: help.py LIBRARY SALLOCCTL COMPLETION
"""
import os
import re
import shutil
import subprocess
import sys

DOC = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', 'doc', 'sallocctl.md')


def run(*arguments, code=0):
    result = subprocess.run([TOOL, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            check=False, universal_newlines=True)
    assert result.returncode == code, (arguments, result)
    assert (result.stdout == '') == (code != 0), (arguments, result)
    return result.stdout + result.stderr


def words(*command):
    return run('help', '--words', *command).split()


def check_help(commands):
    """Each command and option is in the help, the manual page and the document."""
    manual = run('help', '--manual').replace('\\-', '-')
    with open(DOC, encoding='utf-8') as f:
        document = f.read()
    assert run('--help') == run('help') and run(code=2).endswith(run('help'))
    for command in commands:
        text = run(command, '--help')
        assert text == run('help', command) == run(command, '-h')
        assert text.startswith('usage: sallocctl ' + command) and 'Exit code: ' in text
        assert all(len(line) <= 100 for line in text.splitlines()), command
        assert '.SS sallocctl %s\n' % command in manual
        assert re.search(r'sallocctl %s\b' % command, document), command
        for word in words(command):
            name = word.rstrip('=')
            assert name in text or name == '--help', (command, name)
            assert name in manual or name == '--help', (command, name)


def check_groff():
    """The manual page is one that groff has no complaint about."""
    if not shutil.which('groff'):
        print('groff is not installed')
        return
    result = subprocess.run(['groff', '-man', '-ww', '-Tascii', '-P', '-cbou'], input=run('help', '--manual'), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, check=True, universal_newlines=True)
    assert not result.stderr, result.stderr
    assert 'sallocctl report' in result.stdout


def check_wrong(commands):
    """A wrong command line says what is wrong in its first line, and ends with 2."""
    assert "no command 'nonsense'" in run('nonsense', code=2)
    assert "no command 'nonsense'" in run('help', 'nonsense', code=2)
    for command in commands:
        assert run(command, '--nonsense', code=2).startswith('sallocctl %s: there is no option --nonsense\n' % command)
        assert run(command, '-%', code=2).startswith('sallocctl %s: there is no option -%%\n' % command)
        for word in words(command):
            if word.endswith('='):
                name = word[:-1]
                assert run(command, name, code=2).startswith('sallocctl %s: %s needs an argument\n' % (command, name))
            elif word != '--help':
                assert 'takes no argument' in run(command, word + '=1', code=2)
    assert '--rows: it needs a number' in run('report', '--rows', '-1', 'x', code=2)
    assert '--ro: ' not in run('report', '--ro', 'x', 'y', code=2)  # the beginning of an option
    assert 'name one profile' in run('report', 'x', 'y', code=2)
    assert '--l is the beginning of' not in run('convert', '--l', code=2)


def check_completion():
    """bash offers commands, and options of the command."""
    script = 'PATH=%s:$PATH; source %s; COMP_WORDS=(%s); COMP_CWORD=%d; compopt() { :; }; _sallocctl; printf "%%s\\n" "${COMPREPLY[@]}"'

    def offered(number, *given):
        return subprocess.run(['bash', '-c', script % (os.path.dirname(TOOL), COMPLETION, ' '.join(given), number)],
                              stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout.split()
    assert offered(1, 'sallocctl', 're') == ['report']
    assert offered(2, 'sallocctl', 'report', '--r') == ['--rows=']
    assert offered(2, 'sallocctl', 'report', "'*'") == []


if __name__ == '__main__':
    TOOL, COMPLETION = os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3])
    every = words()
    assert len(every) >= 8 and 'run' in every, every
    check_help(every)
    check_groff()
    check_wrong(every)
    check_completion()
