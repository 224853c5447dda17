#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sallocctl run: outputs with relative names are of the folder where it was started, whatever the program does with its
own; and it says of which programs nothing is written, because they do not run on salloc.

usage: run.py LIBRARY SALLOCCTL WORKER STATIC-WORKER CASE
"""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from profile import run_case  # noqa: E402  # pylint: disable=wrong-import-order

SKIP = 77
GO_AWAY = 'cd "$0" && exec python3 -c "import os; os.chdir(\'/\'); x = [bytes(20000) for i in range(999)]"'


def run(test, *arguments, code=0, **more):
    done = subprocess.run([test.tool, 'run', *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, text=True,
                          timeout=60, **more)
    assert done.returncode == code, (arguments, done)
    return done


def case_folder(test):
    """By a shell that goes elsewhere, in folders whose names are not plain."""
    other = os.path.join(test.folder, 'other')
    os.mkdir(other)
    for name in ('plain', 'a b', '10%p', 'a,b', 'x:%%,'):
        here = os.path.join(test.folder, name)
        os.mkdir(here)
        for arguments, files in ((['-o', 'out.txt'], ['out.txt']), (['-o', './sub.pb.gz', '-s', 'page.json'], ['page.json', 'sub.pb.gz']),
                                 (['-c', 'stats:page,profile:a.heap,report:misuse'], ['a.heap', 'page']),
                                 (['--html', 'page.html'], ['page.html']), (['-s', 'a,b.%e'], ['a,b.sh']),
                                 (['-s', os.path.join(here, 'absolute').replace('%', '%%')], ['absolute'])):
            run(test, *arguments, '--', 'sh', '-c', GO_AWAY, other, cwd=here)
            left = sorted(os.listdir(here))
            assert [f.replace('a,b.' + os.path.basename(os.path.realpath(shutil.which('python3'))), 'a,b.sh')
                    for f in left] == files, (name, arguments, left)
            assert os.listdir(other) == []
            for f in left:
                assert os.path.getsize(os.path.join(here, f)) > 0
                os.unlink(os.path.join(here, f))
    done = run(test, '-s', 'stdout', '-o', 'fd:2.folded', '--', 'sh', '-c', GO_AWAY, other, cwd=here)
    assert 'See salloc/doc/stats.md' in done.stdout and os.listdir(here) == []
    os.mkdir(gone := os.path.join(test.folder, 'gone'))
    run(test, '--', 'true', cwd=gone, preexec_fn=lambda: os.rmdir(gone))


def compiled(test, name, *arguments):
    path = os.path.join(test.folder, name)
    source = path + '.c'
    with open(source, 'w', encoding='ascii') as f:
        f.write('#include <stdlib.h>\nint main(void) { void *volatile p = malloc(1000); free(p); return 3; }\n')
    done = subprocess.run(['gcc', '-o', path, source, *arguments], stderr=subprocess.DEVNULL, check=False)
    return path if done.returncode == 0 else None


def case_unfit(test):
    """Static, static and anywhere in memory, for another machine, set-user-ID, with capabilities, and scripts of such."""
    plain, static = compiled(test, 'plain'), compiled(test, 'static', '-static')
    if not plain or not static:
        print('needs gcc and static libraries')
        return SKIP
    os.chmod(test.folder, 0o755)
    out = os.path.join(test.folder, 'out.txt')
    unfit = {static: 'static'}
    for name, arguments, why in (('pie', ['-static-pie'], 'static'), ('m32', ['-m32', '-nostdlib', '-ffreestanding', '-c'], 'machine')):
        path = compiled(test, name, *arguments)
        if path and name == 'm32':
            os.chmod(path, 0o755)
        if path:
            unfit[path] = why
    script = os.path.join(test.folder, 'script')
    with open(script, 'w', encoding='ascii') as f:
        f.write('#! %s x\n' % static)
    os.chmod(script, 0o755)
    unfit[script] = 'static'
    for path, why in unfit.items():
        code = 126 if why == 'machine' else 3
        done = run(test, '-o', out, '--', path, code=code)
        assert 'sallocctl: %s does not run on salloc: ' % path in done.stderr and why in done.stderr, done
        done = run(test, '--html', out, '--', path, code=code)
        assert why in done.stderr or code == 126, done
        assert not os.path.exists(out)
    assert 'static' in run(test, '--', 'static', code=3, env={**os.environ, 'PATH': test.folder + ':' + os.environ['PATH']}).stderr
    # These run on it: a program with the library in it, one by the loader's name, a plain one, a script of it.
    script = os.path.join(test.folder, 'fit')
    with open(script, 'w', encoding='ascii') as f:
        f.write('#!%s\n' % plain)
    os.chmod(script, 0o755)
    for words in ([plain], [script], ['/lib64/ld-linux-x86-64.so.2', plain], ['sh', '-c', 'exit 3']):
        if os.path.exists(words[0]) or words[0] == 'sh':
            assert run(test, '-o', out, '--', *words, code=3).stderr == '', words
            assert os.path.exists(out) or words[0] == 'sh'  # which may leave by _exit
            subprocess.run(['rm', '-f', out], check=True)
    assert 'does not run on salloc' not in run(test, '-s', out, '--', test.static, 'none').stderr
    if os.geteuid() == 0:
        privileges(test, plain, out)
    return 0


def privileges(test, plain, out):
    """Another user's view of root's programs; root itself gains nothing."""
    own = os.path.join(test.folder, 'own')
    shutil.copy(plain, own)
    os.chmod(own, 0o4755)
    for name in (test.library, test.tool):
        if subprocess.run(['setpriv', '--reuid=65534', '--clear-groups', 'test', '-r', name], check=False).returncode:
            print('another user may not read the build')
            return
    assert run(test, '-o', out, '--', own, code=3).stderr == '' and os.path.exists(out)
    os.unlink(out)
    os.chmod(test.folder, 0o777)

    def as_nobody(program):
        done = subprocess.run(['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', test.tool, 'run', '-o', out, '--', program],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, text=True)
        assert done.returncode == 3, done
        return done.stderr

    if os.statvfs(test.folder).f_flag & os.ST_NOSUID:
        assert as_nobody(own) == ''
        return
    assert 'it gains privileges; it writes nothing' in as_nobody(own)
    os.chmod(own, 0o2755)
    assert 'it gains privileges' in as_nobody(own)
    os.chmod(own, 0o0755)
    if shutil.which('setcap') and subprocess.run(['setcap', 'cap_net_raw+ep', own], check=False).returncode == 0:
        assert 'it gains privileges' in as_nobody(own)


def main():
    result = []
    run_case({name: (lambda test, case=case: result.append(case(test))) for name, case in globals().items() if name.startswith('case_')},
             sys.argv[-1], *sys.argv[1:-1])
    return result[0] or 0


if __name__ == '__main__':
    sys.exit(main())
