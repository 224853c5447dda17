#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Test: records a short run of changing_sizes, and compares the model with what the library says of the same run.

Compared are the bytes of pages in use at the end of the run, with mixed spans and without: blocks, free objects,
cached ones and free runs. Free pages are left out, because the library releases them by time.

The model may be off by
* what the CPU caches hold, because the kernel chooses the CPUs: at most CACHE_BYTES for each;
* what the transfer caches of the one hold more than those of the other: they pass on idle objects by time, too;
* spans that a class takes or not when free bytes are close to the threshold: a class takes runs of up to 1/32 of its
  spans. Twice that, 1/16 of the bytes, is allowed.

usage: model_runs.py RECORDER LIBRARY PROGRAM MODEL
"""
import json
import os
import subprocess
import sys
import tempfile

import traces

MIB = 1 << 20
CACHE_BYTES = 256 << 10
ARGUMENTS = ['16', '16']  # MiB live, phases
PARTS = 16


def library_bytes(library, program, folder, mixed):
    """(bytes of pages in use, of those in transfer caches) at the end of a run."""
    path = os.path.join(folder, 'stats.json')
    conf = 'stats:%s,cpu_cache:%d,mixed_spans:%s' % (path, CACHE_BYTES, 'auto' if mixed else 'off')
    subprocess.run([program, *ARGUMENTS], env=dict(os.environ, LD_PRELOAD=library, SALLOC_CONF=conf), check=True,
                   stdout=subprocess.DEVNULL)
    with open(path, encoding='utf-8') as file:
        metrics = json.load(file)['gauges']
    metadata = sum(metrics[n] for n in ('metadata_bytes', 'metadata_unallocated_bytes', 'metadata_unavailable_bytes'))
    return (metrics['physical_bytes'] - metadata - metrics['page_heap_free_bytes'], metrics['transfer_free_bytes'])


def model_bytes(model, path, mixed):
    parts, _ = traces.model(model, path, ['parts=%d' % PARTS, 'cache=%d' % CACHE_BYTES, 'mixed=%d' % mixed])
    end = parts[-1]
    return [v * MIB for v in (end['MiB'] - end['records'] - end['pages'], end['transfer'])]


def main():
    recorder, library, program, model = map(os.path.abspath, sys.argv[1:])
    used, failed = {}, False
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'trace')
        traces.record_program(recorder, [program, *ARGUMENTS], {}, path)
        for mixed in (1, 0):
            real, real_transfer = library_bytes(library, program, folder, mixed)
            predicted, transfer = model_bytes(model, path, mixed)
            allowed = CACHE_BYTES * os.cpu_count() + abs(transfer - real_transfer) + real / 16
            used[mixed] = (real, predicted)
            failed |= abs(real - predicted) > allowed
            print('mixed spans %-3s: %.1f MiB in use, predicted %.1f, may differ by %.1f' % (
                'on' if mixed else 'off', real / MIB, predicted / MIB, allowed / MIB))
    for i, who in enumerate(('the library', 'the model')):
        if used[0][i] <= used[1][i]:
            print('%s does not need more without mixed spans' % who)
            failed = True
    sys.exit(failed)


if __name__ == '__main__':
    main()
