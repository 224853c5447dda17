#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sallocctl trace: the events of a process or a core are those that the process itself writes.

usage: trace.py LIBRARY SALLOCCTL WORKER STATIC-WORKER CASE
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from profile import Profile, Worker, run_case  # noqa: E402  # pylint: disable=wrong-import-order

CHURN = '''
import sys, time
keep, i = [None] * 500, 0
print('ready', flush=True)
while True:
    for _ in range(50):
        keep[i %% 500], i = bytearray(5000 + i %% 7000), i + 1
    time.sleep(%s)
'''
CONF = ',profile_type:events,event_bytes:%s'


def events(profile):
    """[(handle, time of the free or None, sizes, thread, CPU, stack)], in the order of the file."""
    result = []
    for ids, values, labels in profile.samples:
        def number(name, labels=labels):
            return labels.get(name, [None])[0]
        result.append((number('alloc_handle'), number('deallocation_time'), number('requested_size'), number('bytes'),
                       number('thread_id'), number('cpu_id'), tuple(profile.locations[i][1] for i in ids), tuple(values)))
    return result


def trace(test, what, *more, name='trace.pb'):
    path = os.path.join(test.folder, name)
    result = test.run('trace', '-o', path, *more, str(what))
    return path, result.stderr


def churn(test, bytes_of_ring, pause, interval=16384):
    command = ['/usr/bin/python3', '-c', CHURN % pause]
    return Worker(test, command, conf=CONF % bytes_of_ring, interval=interval)


def case_whole(test):
    """All that a process, which is stopped, has recorded: as its own file, and as its core has it."""
    worker = churn(test, '16m', 0.001)
    time.sleep(1)
    os.kill(worker.pid, signal.SIGSTOP)
    path, said = trace(test, worker.pid, '--all', '-s', '0.1')
    ours = events(Profile(path))
    assert said == '' and len(ours) > 200, (said, len(ours))
    if shutil.which('gcore'):
        path, said = trace(test, test.core(worker.pid), name='core.pb')
        assert said == '' and events(Profile(path)) == ours
    own = None
    os.kill(worker.pid, signal.SIGCONT)
    own = events(worker.own_profile())
    # The process asks both clocks at the stop, and they may have moved apart since the start.
    differ = [(a, b) for a, b in zip(ours, own) if (a[0], a[2:]) != (b[0], b[2:]) or abs((a[1] or 0) - (b[1] or 0)) > 5e6]
    assert len(own) >= len(ours) and not differ, (len(ours), len(own), len(differ), differ[:2])


def case_follow(test):
    """What happens while it is watched: each event once, in order, and no more than that. On a busy machine the ring may
    turn faster than it is read; then it is said how many events are missing."""
    worker = churn(test, '128k', 0.001)
    path, said = trace(test, worker.pid, '-s', '2', name='trace.json')
    match = re.fullmatch(r'sallocctl: (\d+) events are lost: .*\n', said)
    lost = int(match.group(1)) if match else 0
    assert match or said == '', said
    with open(path, encoding='utf-8') as file:
        content = json.load(file)
    found = [e for e in content['traceEvents'] if e['ph'] == 'i']
    mallocs = [e['args']['alloc_handle'] for e in found if e['name'] == 'malloc']
    assert len(found) + lost > 1092, 'not more than the ring holds: %d' % len(found)
    assert mallocs == sorted(set(mallocs)) and content['otherData']['events_lost'] == '0'
    assert mallocs[-1] - mallocs[0] + 1 - len(mallocs) <= lost, 'a sample is missing'
    frees = [e['args']['alloc_handle'] for e in found if e['name'] == 'free']
    assert len(frees) == len(set(frees))
    times = [e['ts'] for e in found]
    assert times[0] >= 0 and times[-1] - times[0] < 2.5e6, (times[0], times[-1])


def case_lost(test):
    """A ring that is too small for how quickly it fills: what is lost is counted, and nothing comes twice."""
    worker = churn(test, '4k', 0, interval=1)
    path, said = trace(test, worker.pid, '-s', '1')
    handles = [e[0] for e in events(Profile(path)) if e[1] is None]
    assert 'events are lost' in said, said
    assert len(handles) > 20 and handles == sorted(set(handles))
    path, said = trace(test, worker.pid, '-s', '1', '--bytes', '4k')
    assert 'older events did not fit' in said and len(events(Profile(path))) == 4096 // 120, said


def case_ends(test):
    """The file is written when the process ends, on Ctrl-C, and not without a trace or a process."""
    worker = churn(test, '1m', 0.001)
    threading.Timer(1, worker.process.kill).start()
    path, said = trace(test, worker.pid, '-s', '30')
    assert 'the process ended, or it stopped its event trace' in said and len(events(Profile(path))) > 50
    worker = churn(test, '1m', 0.001)
    path = os.path.join(test.folder, 'interrupted.pb')
    process = subprocess.Popen([test.tool, 'trace', '-o', path, str(worker.pid)])
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 0 and len(events(Profile(path))) > 50
    worker = Worker(test, ['/usr/bin/python3', '-c', CHURN % 0.001], conf=',control:on', interval=65536)
    path, said = trace(test, worker.pid, '-s', '1.5')
    assert said == '' and len(events(Profile(path))) > 50, said
    trace(test, worker.pid, '-s', '0.1')  # it was stopped, and is started again
    worker = Worker(test, [test.worker, 'still'])
    result = test.run('trace', '-o', path, str(worker.pid), code=1)
    assert 'records no events' in result.stderr and 'profile_type:events' in result.stderr
    assert 'no such process' in test.run('trace', '-o', path, '4194305', code=3).stderr


if __name__ == '__main__':
    run_case(globals(), sys.argv[-1], *sys.argv[1:-1])
