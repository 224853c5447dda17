#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""In real programs our own walk of the stack gives frame for frame what libgcc's gives, at every so many calls
of malloc. Prints how many stacks each program had, how many were left to libgcc, and nanoseconds for a stack: the
median, of the process with the most stacks.

usage: agree.py COMPARE.SO   (UNWIND_EVERY: how many calls; 16)
"""
import os
import shutil
import subprocess
import sys
import tempfile

COMPARE = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SOURCE = os.path.join(ROOT, 'sampling/stack/unwind_cfi.c')

PERL = 'my %h; for my $i (1..50000) { $h{$i} = "x$i"; } my @s = sort { $a cmp $b } values %h;'
PYTHON = '''
import ast, ctypes, decimal, json, re, sqlite3
for i in range(3000):
    json.loads(json.dumps({"a": [i, str(i)]}))
tree = ast.parse(open(ast.__file__).read())
compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
numbers = (ctypes.c_int * 200)(*range(200, 0, -1))
ctypes.CDLL(None).qsort(numbers, 200, 4, compare(lambda a, b: len(str(a[0])) - len(str(b[0]))))
db = sqlite3.connect(":memory:")
db.execute("create table t (a, b)")
db.executemany("insert into t values (?, ?)", ((i, str(i)) for i in range(5000)))
db.execute("select b, count(*) from t group by b order by 2, 1").fetchall()
'''
SQL = '''CREATE TABLE t (a, b);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)
INSERT INTO t SELECT i % 997, 'x' || i FROM n;
SELECT a, length(group_concat(b)) FROM t GROUP BY a ORDER BY 2;
'''
NODE = '''let m = new Map(); for (let i = 0; i < 50000; i++) m.set("k" + i, [i]);
JSON.stringify([...m]); for (let i = 0; i < 1000; i++) Buffer.alloc(1000 + i);
require("crypto").createHash("sha256").update("x").digest(); Promise.all([1, 2, 3].map(x =>
new Promise(d => require("fs").readFile(process.argv[0], d))));'''

PROGRAMS = {
    'perl': (['-e', PERL], ''),
    'git': (['-C', ROOT, 'log', '-p', '-50'] if os.path.exists(os.path.join(ROOT, '.git')) else ['init', '-q', '.'], ''),
    'python3': (['-c', PYTHON], ''),
    'gcc': (['-O2', '-w', '-D_GNU_SOURCE', '-I', ROOT, '-c', SOURCE, '-o', '/dev/null'], ''),
    'clang': (['-O2', '-w', '-D_GNU_SOURCE', '-I', ROOT, '-c', SOURCE, '-o', '/dev/null'], ''),
    'sqlite3': ([], SQL),
    'node': (['-e', NODE], ''),
    'bash': (['-c', 'for i in {1..2000}; do x[i]=$((i * i)); y=${x[i]//1/2}; done'], ''),
}


def main():
    stacks = 0
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name, (arguments, text) in PROGRAMS.items():
            path = shutil.which(name)
            if not path:
                continue
            report = os.path.join(folder, name)
            env = dict(os.environ, LD_PRELOAD=COMPARE, UNWIND_COMPARE=report,
                       UNWIND_EVERY=os.environ.get('UNWIND_EVERY', '16'), PYTHONMALLOC='malloc')
            done = subprocess.run([path] + arguments, env=env, input=text.encode(), cwd=folder,
                                  stdout=subprocess.DEVNULL, timeout=120, check=False)
            if done.returncode:
                print(f'{name}: exit status {done.returncode}')
                failed = True
            totals = {}
            with open(report, encoding='ascii') as lines:
                for line in lines:
                    if line.startswith('#'):
                        print(line, end='')
                        continue
                    words = line.split()
                    fields = dict(zip(words[1::2], map(int, words[2::2])))
                    if fields['stacks'] > totals.get('most', 0):
                        totals.update(most=fields['stacks'], own=fields['own_ns'],
                                      libgcc=fields['libgcc_ns'])
                    for key, value in fields.items():
                        totals[key] = totals.get(key, 0) + value
            failed |= totals['differ'] > 0
            stacks += totals['stacks']
            print('%-8s %6d stacks of %4.1f frames, %d left to libgcc, %d differ; %5.0f ns, libgcc %5.0f ns' %
                  (name, totals['stacks'], totals['frames'] / totals['stacks'], totals['other'],
                   totals['differ'], totals['own'], totals['libgcc']))
    if stacks < 5000:
        print(f'only {stacks} stacks: this test looks at the wrong place')
        failed = True
    sys.exit(failed)


if __name__ == '__main__':
    main()
