# SPDX-License-Identifier: Apache-2.0
"""Traces of the workloads of over_live.py (record_trace.c), and what the model (model.c) says of them."""
import concurrent.futures
import os
import shutil
import subprocess
import tempfile

import over_live
import redis_sizes

# Parts of a trace: the phases of the workload.
PHASES = {'changing_sizes': 48, 'lru_strings': 24, 'python_cache': 16, 'node_cache': 16, 'redis': over_live.REDIS_PHASES}


def record_program(recorder, command, env, path):
    """Records a program. Of several processes, the one with the longest trace counts."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(command, env=dict(os.environ, LD_PRELOAD=recorder, SALLOC_TRACE_DIR=folder, **env), check=True,
                       stdout=subprocess.DEVNULL)
        keep_longest(folder, path)


def record_redis(recorder, path, port):
    with tempfile.TemporaryDirectory() as folder:
        os.environ['SALLOC_TRACE_DIR'] = folder
        server = redis_sizes.Server(recorder, port)
        del os.environ['SALLOC_TRACE_DIR']
        for _ in server.phases(over_live.REDIS_PHASES):
            pass
        server.end()
        keep_longest(folder, path)


def keep_longest(folder, path):
    names = [os.path.join(folder, n) for n in os.listdir(folder)]
    shutil.move(max(names, key=os.path.getsize), path)


def record(build, folder, name, port=7500):
    """The path of a workload's trace, which is recorded if the folder has none."""
    path = os.path.join(folder, name + '.trace')
    recorder = os.path.abspath(os.path.join(build, 'perf/fragmentation/libsalloc-record-trace.so'))
    if os.path.exists(path):
        return path
    os.makedirs(folder, exist_ok=True)
    if name == 'redis':
        record_redis(recorder, path, port)
    else:
        command, env = over_live.workloads(build)[name]
        record_program(recorder, command, env, path)
    return path


def model(program, path, parameters):
    """(parts, summary): dictionaries of the columns, by the model's names."""
    lines = subprocess.run([program, *parameters, path], stdout=subprocess.PIPE, check=True,
                           universal_newlines=True).stdout.splitlines()
    words = lines[-1].split()
    names = lines[0].split() if len(lines) > 1 else []
    return ([dict(zip(names, map(float, line.split()[1:]))) for line in lines[1:-1]],
            dict(zip(words[::2], map(float, words[1::2]))))


def model_all(jobs):
    """The results of model() for each (program, path, parameters), two at a time."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(lambda job: model(*job), jobs))
