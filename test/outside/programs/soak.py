#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the real programs of programs.py and the stress programs over and over, one at a time, with blocks guarded and
pages kept in several measures and in both cache modes, for so many minutes. Whatever the library says, any
difference in what a program writes, any crash and any hang is a failure: there are no bugs in these programs that they
are known for, so each report would be a false one.

usage: soak.py [--minutes N] [--seed N] [--log FILE] [--only NAME,...] [--default] LIBRARY [STRESS-FOLDER]

STRESS-FOLDER: of a build folder, test/outside/stress. --default: without options, as users have it. The output of runs that fail goes
to the log, and the exit status is 1. At the end there is a table: runs, processor time and guarded blocks of each way.
"""
import argparse
import glob
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = ['git', 'gcc', 'gxx', 'clang', 'python', 'sqlite3', 'redis', 'node', 'java', 'go', 'perl', 'sort', 'stress_ng']
STRESS = [['stress_mix', '2'], ['stress_mix', '12'], ['stress_churn'], ['stress_fork', '3', '2', 'seconds']]
# sample_interval:1 makes programs twenty times slower: the inputs are smaller then, and some are left out.
SLOW = ['gxx', 'clang']
WAYS = {
    'every block': ('sample_interval:1,guarded_sample:1,guarded_slots:16384,sample_quarantine:1g', True),
    'every block, few slots': ('sample_interval:1,guarded_sample:1,guarded_slots:64,sample_quarantine:4m', True),
    'every 4 KiB': ('sample_interval:4096,guarded_sample:1,guarded_slots:4096,sample_quarantine:256m', False),
    'one in 50 of every 4 KiB': ('sample_interval:4096,guarded_sample:50,sample_quarantine:16m', False),
    'default': ('', False),
}
DEFAULT = {'default': WAYS['default']}
THREAD = 'GLIBC_TUNABLES=glibc.pthread.rseq=0'
STRESS_SECONDS = 20
LIMIT = 1800  # a run that takes longer hangs


class Tally:
    """What was done in one way."""

    def __init__(self):
        self.runs, self.failed, self.seconds = 0, 0, 0.0
        self.counted = {}

    def add_stats(self, folder):
        """Sums what the processes of a run have written at their end."""
        for path in glob.glob(os.path.join(folder, '*.json')):
            with open(path, encoding='utf-8') as file:
                text = json.load(file)
            for name, value in text['counters'].items():
                if name == 'samples_taken' or name.startswith('guarded_'):
                    self.counted[name] = self.counted.get(name, 0) + value


def processor_time():
    """Of all children so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def command_of(job, options, library, stats):
    """(words, more environment) of a run."""
    name, conf, small, thread = job
    conf = ','.join(word for word in (conf, f'stats:{stats}/%p.json') if word)
    if isinstance(name, list):
        env = {'LD_PRELOAD': library, 'SALLOC_CONF': conf, 'SALLOC_TEST_SECONDS': str(STRESS_SECONDS)}
        env.update([THREAD.split('=', 1)] if thread else [])
        return [os.path.join(options.stress, name[0]), *name[1:]], env
    words = [sys.executable, os.path.join(HERE, 'programs.py'), library, name, f'SALLOC_CONF={conf}']
    words += ['SALLOC_TEST_SMALL=1'] if small else []
    return words + ([THREAD] if thread else []), {'SALLOC_TEST_SECONDS': '5'}


def run(job, options, library, tally, log):
    """One run; the stress programs are silent, too, if all is well."""
    with tempfile.TemporaryDirectory(prefix='salloc-soak-') as stats:
        words, env = command_of(job, options, library, stats)
        before, start = processor_time(), time.monotonic()
        try:
            done = subprocess.run(words, env={**os.environ, **env}, stdin=subprocess.DEVNULL, timeout=LIMIT,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            status, text = done.returncode, done.stdout.decode(errors='backslashreplace')
        except subprocess.TimeoutExpired as late:
            status, text = 'none: it did not end', (late.stdout or b'').decode(errors='backslashreplace')
        tally.add_stats(stats)
    tally.runs += 1
    tally.seconds += processor_time() - before
    failed = status not in (0, 77) or 'salloc:' in text
    tally.failed += failed
    print(f'{"FAILED" if failed else "ok":6} {time.monotonic() - start:6.1f} s {job}', file=log, flush=True)
    if failed:
        print(f'status {status}\n{text}', file=log, flush=True)
    return failed


def jobs_of(options):
    """All runs, each once."""
    names = options.only.split(',') if options.only else PROGRAMS + (STRESS if options.stress else [])
    return [(name, conf, small, thread) for conf, small in options.ways.values() for name in names
            for thread in (False, True) if not (small and name in SLOW)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('library')
    parser.add_argument('stress', nargs='?')
    parser.add_argument('--minutes', type=float, default=60)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--log')
    parser.add_argument('--only')
    parser.add_argument('--default', action='store_const', dest='ways', const=DEFAULT, default=WAYS)
    options = parser.parse_args()
    library, rng = os.path.abspath(options.library), random.Random(options.seed)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    tallies = {conf: Tally() for conf, _ in options.ways.values()}
    end, failed, jobs = time.monotonic() + options.minutes * 60, 0, []
    with open(options.log, 'w', encoding='utf-8') if options.log else sys.stdout as log:
        while time.monotonic() < end:
            jobs = jobs or rng.sample(jobs_of(options), len(jobs_of(options)))
            job = jobs.pop()
            failed += run(job, options, library, tallies[job[1]], log)
        for way, (conf, _) in options.ways.items():
            t = tallies[conf]
            print(f'{way}: {t.runs} runs, {t.failed} failed, {t.seconds:.0f} s of the processor, {t.counted}', file=log)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
