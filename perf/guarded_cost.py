#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What guarded samples and kept pages cost at their default: programs and workloads of salloc-bench run in turns with and
without, and the processor times of neighbours are compared. Medians of the quotients, and their quartiles, which say how much of it is
noise: the quotient of two runs without is shown beside them.

usage: guarded_cost.py [--rounds N] [--only NAME,...] LIBRARY [SALLOC-BENCH]
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(os.path.dirname(HERE), 'test', 'outside', 'programs')
sys.path.insert(0, PROGRAMS)
import inputs

WITHOUT, WITH = 'guarded_sample:0,sample_quarantine:0', 'guarded_sample:50,sample_quarantine:16m'
ROWS = ['pair/64', 'pair/4096', 'batch_fifo/1000', 'random', 'calloc/4096', 'realloc_append', 'large/64K', 'large/1M', 'tree']
SECONDS = 1.5  # of a row: the first quarter of a second has no guarded blocks


def prepare(folder):
    """{name: words} of programs."""
    def write(name, text):
        with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
            file.write(text)

    write('large.c', inputs.c_source(functions=90))
    write('large.cc', inputs.cxx_source(functions=6))
    write('script.sql', inputs.sql(60000))
    write('script.pl', inputs.PERL)
    subprocess.run(['git', 'init', '-q', 'repository'], cwd=folder, check=True)
    subprocess.run(['git', 'fast-import', '--quiet'], input=inputs.git_stream(commits=1500), check=True,
                   cwd=os.path.join(folder, 'repository'))
    return {
        'gcc': ['gcc', '-O2', '-S', '-o', '/dev/null', 'large.c'],
        'g++': ['g++', '-std=c++17', '-O1', '-S', '-o', '/dev/null', 'large.cc'],
        'git log': ['git', '-C', 'repository', 'log', '-p', '--all'],
        'python': ['/usr/bin/python3', os.path.join(PROGRAMS, 'workload.py'), '10'],
        'sqlite3': ['sqlite3', '-batch', ':memory:', '.read script.sql'],
        'perl': ['perl', 'script.pl'],
    }


def processor_time(words, conf, folder, library):
    """Of one run and all that it starts."""
    env = dict(os.environ, LD_PRELOAD=library, SALLOC_CONF=conf, PYTHONMALLOC='malloc', PYTHONHASHSEED='0')
    with subprocess.Popen(words, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if status:
        sys.exit(f'{words} ended with {status}')
    return usage.ru_utime + usage.ru_stime


def row_time(row, bench, conf, library):
    """Nanoseconds of the processor for an operation."""
    env = dict(os.environ, LD_PRELOAD=library, SALLOC_CONF=conf)
    done = subprocess.run([bench, f'--benchmark_filter=^{row}$', f'--benchmark_min_time={SECONDS}', '--benchmark_format=csv'],
                          env=env, capture_output=True, text=True, check=True)
    return float(done.stdout.strip().split('\n')[-1].split(',')[3])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('library')
    parser.add_argument('bench', nargs='?')
    parser.add_argument('--rounds', type=int, default=15)
    parser.add_argument('--only')
    options = parser.parse_args()
    library = os.path.abspath(options.library)
    with tempfile.TemporaryDirectory(prefix='salloc-cost-') as folder:
        take = {name: lambda conf, words=words: processor_time(words, conf, folder, library)
                for name, words in prepare(folder).items()}
        if options.bench:
            take |= {row: lambda conf, row=row: row_time(row, options.bench, conf, library) for row in ROWS}
        print('| what | without | with / without | quartiles | without / without |\n|---|---|---|---|---|')
        for name, measure in take.items():
            if options.only and name not in options.only.split(','):
                continue
            base, changed, same = [], [], []
            for i in range(options.rounds):
                order = [WITHOUT, WITH, WITHOUT][::1 if i % 2 else -1]
                first, middle, last = (measure(conf) for conf in order)
                base.append(first)
                changed.append(middle / ((first + last) / 2))
                same.append(first / last)
            low, mid, high = statistics.quantiles(changed, n=4)
            print(f'| {name} | {statistics.median(base):.4g} | {mid:.4f} | {low:.4f} .. {high:.4f} '
                  f'| {statistics.median(same):.4f} |', flush=True)


if __name__ == '__main__':
    main()
