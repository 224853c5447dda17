#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""By what factor sampling rates per size class lower the variance of the estimated live heap, at the same expected
number of samples, in real programs: their allocations are recorded (record.c), the rates computed from the counts
as the library does it (rates.c). Prints a table in Markdown: samples expected of all allocations and of live
blocks, standard deviation of the live bytes, how often the 95 % intervals of bytes and of blocks are right; by default
and with these rates.

Moments: "peak", when most bytes were live; "middle", when the bytes ever allocated last reached a power of
two, which has nothing to do with what is live. Of a command's processes the one that allocates most counts.

usage: measure.py --build FOLDER [--least FACTOR]   exits with 1 if a factor is below FACTOR
"""
import argparse
import glob
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

WORDS = '''
import ast, collections, glob, json, os, re
words, files = collections.Counter(), []
for path in sorted(glob.glob(os.path.dirname(os.__file__) + '/*.py'))[:80]:
    text = open(path, errors='replace').read()
    words.update(re.findall('[A-Za-z_0-9]+', text))
    names = [n.name for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)]
    files.append({'path': path, 'functions': names})
json.loads(json.dumps([words, files], indent=1))
'''

WORDS_PERL = '''
while (<>) { push @{$lines{$_}}, $. for /\w+/g }
print join(' ', map { "$_ @{$lines{$_}}" } sort keys %lines), "\n";
'''

WORDS_AWK = '''
{ for (i = 1; i <= NF; i++) lines[$i] = lines[$i] " " NR }
END { for (word in lines) { n = split(lines[word], at, " "); print word, n } }
'''


def programs(folder):
    """Name, command. What they write goes to the folder."""
    library = os.path.dirname(os.__file__)
    clone = os.path.join(folder, 'clone.git')
    subprocess.run(['git', 'clone', '-q', '--bare', ROOT, clone], check=True)
    modules = sorted(glob.glob(os.path.join(library, '*.py')))[:80]
    compile_c = ['gcc', '-O2', '-S', '-I' + ROOT, '-D_GNU_SOURCE', '-DSALLOC_VERSION=""', '-o',
                 os.path.join(folder, 'out.s')]
    return [
        ('python3: words and functions of 80 modules, to JSON and back', [sys.executable, '-c', WORDS]),
        ('python3: compileall of asyncio, email, http',
         [sys.executable, '-m', 'compileall', '-fq'] + [os.path.join(library, d) for d in ('asyncio', 'email', 'http')]),
        ('perl: words of the same, with their lines', ['perl', '-e', WORDS_PERL] + modules),
        ('awk: words of the same, with their lines', ['awk', WORDS_AWK] + modules),
        ('git log --stat -p', ['git', '-C', clone, 'log', '--stat', '-p']),
        ('git repack -adf', ['git', '-C', clone, 'repack', '-adfq']),
        ('gcc -O2 alloc/page_heap/plain/span_heap.c', compile_c + [os.path.join(ROOT, 'alloc/page_heap/plain/span_heap.c')]),
        ('gcc -O2 test/unit/sampling/estimate/test_estimate.c', compile_c + [os.path.join(ROOT, 'test/unit/sampling/estimate/test_estimate.c')]),
    ]


def record(recorder, command, folder):
    """Lines of the process that allocated most."""
    os.mkdir(folder)
    env = dict(os.environ, LD_PRELOAD=recorder, SALLOC_TRACE_DIR=folder, PYTHONMALLOC='malloc',
               PYTHONPYCACHEPREFIX=folder + '.cache', PYTHONHASHSEED='1')
    subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)
    traces = []
    for name in os.listdir(folder):
        with open(os.path.join(folder, name)) as file:
            traces.append([line.split() for line in file])
    return max(traces, key=lambda lines: sum(int(line[3]) for line in lines if line[0] == 'exit'))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--build', required=True)
    parser.add_argument('--least', type=float, default=0)
    args = parser.parse_args()
    recorder = os.path.join(os.path.abspath(args.build), 'perf/trace/libsalloc-trace-record.so')
    rates = os.path.join(os.path.abspath(args.build), 'perf/trace/salloc-trace-rates')
    least = {}
    print('| program | moment | T | samples, live | deviation | bytes | blocks | samples, live | deviation | bytes | blocks | '
          'variance lower by |')
    print('|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|')
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, command) in enumerate(programs(folder)):
            lines = record(recorder, command, os.path.join(folder, str(number)))
            for moment in 'peak', 'middle':
                for interval in 524288, 2097152:
                    table = ''.join(' '.join(line[1:]) + '\n' for line in lines if line[0] == moment)
                    out = subprocess.run([rates, str(interval)], input=table, stdout=subprocess.PIPE,
                                         text=True, check=True).stdout.split()
                    least[moment] = min(least.get(moment, float(out[3])), float(out[3]))
                    by_default, optimal, factor, *runs = map(float, out[1:])
                    print('| %s | %s | %d KiB | %s, %.0f | %.0f %% | %.1f %% | %.1f %% | %s, %.0f | %.0f %% | %.1f %% | '
                          '%.1f %% | %.2f |' %
                          (name, moment, interval // 1024, out[0], runs[0], 100 * by_default, 100 * runs[1],
                           100 * runs[2], out[0], runs[3], 100 * optimal, 100 * runs[4], 100 * runs[5], factor))
    print('\nLeast: %s' % ', '.join('%s %.2f' % item for item in least.items()), file=sys.stderr)
    return min(least.values()) < args.least


if __name__ == '__main__':
    sys.exit(main())
