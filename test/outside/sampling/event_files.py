#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of event traces say of each event what the program was told of it: profile.proto with tcmalloc's labels, and
the Trace Event Format, which is JSON with the fields that Perfetto reads. And the option: a trace written at exit.

usage: event_files.py LIBRARY PROGRAM
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), '..', 'readers'))
import proto  # noqa: E402

LIBRARY, PROGRAM = map(os.path.abspath, sys.argv[1:3])


def run(*command, conf=''):
    return subprocess.run(command, env={**os.environ, 'LD_PRELOAD': LIBRARY, 'SALLOC_CONF': conf}, check=True, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)


def check_proto(path, events):
    profile = proto.Profile(path)
    assert [t[0] for t in profile.types] == ['allocated_objects', 'allocated_space', 'deallocated_objects',
                                             'deallocated_space'], profile.types
    assert len(profile.samples) == len(events)
    for sample, (handle, freed, time, free_time, requested, allocated, thread, cpu) in zip(profile.samples, events):
        _, values, labels = sample
        assert values == ([0, 0, 1, allocated] if freed else [1, allocated, 0, 0]), values

        def number(name):
            return labels.get(name, [None])[0]

        assert number('alloc_handle') == handle, labels
        assert number('allocation_time') == time, labels
        assert number('deallocation_time') == (free_time if freed else None), labels
        assert number('requested_size') == requested and number('bytes') == allocated, labels
        assert number('thread_id') == thread, labels
        assert number('cpu_id') == cpu, labels
    return profile


def check_trace(path, events):
    with open(path, encoding='utf-8') as f:
        trace = json.load(f)
    found = trace['traceEvents']
    instants = [e for e in found if e['ph'] == 'i']
    assert len(instants) == len(events) and len([e for e in found if e['ph'] == 'C']) == len(events)
    start = int(trace['otherData']['start_time_ns'])
    pids = {e['pid'] for e in found}
    assert len(pids) == 1, pids
    for e, (handle, freed, time, free_time, requested, allocated, thread, cpu) in zip(instants, events):
        assert e['s'] == 't' and e['tid'] == thread and e['name'] == ('free' if freed else 'malloc'), e
        args = e['args']
        assert args['alloc_handle'] == handle and args['requested_size'] == requested, e
        assert args['allocated_size'] == allocated and args['cpu_id'] == cpu and args['weight'] == 1, e
        # The two clocks may move apart by some microseconds between the start and the stop.
        assert abs(start + 1000 * e['ts'] - (free_time if freed else time)) < 5e6, (e, start)
        assert len(args['stack']) >= 1 and (freed or 'make' in args['stack'] or thread), e
    names = {e['tid']: e['args']['name'] for e in found if e['ph'] == 'M'}
    assert set(names) == {e['tid'] for e in instants}, names
    counters = [e['args']['bytes'] for e in found if e['ph'] == 'C']
    live = 0
    for (_, freed, _, _, _, allocated, _, _), counter in zip(events, counters):
        live += -allocated if freed else allocated
        assert counter == live, (counter, live)


def main():
    with tempfile.TemporaryDirectory() as folder:
        out = run(PROGRAM, folder, 'files').stdout
        events = [[int(n) for n in line.split()] for line in out.splitlines()]
        assert len(events) >= 22, out
        check_proto(os.path.join(folder, 'events.pb.gz'), events)
        check_trace(os.path.join(folder, 'events.json'), events)
        with open(os.path.join(folder, 'events.txt'), encoding='utf-8') as f:
            text = f.read()
        assert 'events profile' in text and '%d events; 0 older ones did not fit' % len(events) in text, text[:600]

        path = os.path.join(folder, 'exit')
        conf = 'sample_interval:1,event_bytes:4k,profile:%s.json,profile_type:events,profile:%s.pb,profile_type:events'
        result = run('sort', '/dev/null', conf=conf % (path, path))
        assert not result.stderr, result.stderr
        with open(path + '.json', encoding='utf-8') as f:
            trace = json.load(f)
        assert int(trace['otherData']['events_lost']) > 0
        assert len(proto.Profile(path + '.pb').samples) == len([e for e in trace['traceEvents'] if e['ph'] == 'i']) > 20
        # Weights that are no whole numbers: the sums are right, whatever is rounded.
        run('sort', '/dev/null', conf=(conf % (path, path)).replace('interval:1', 'interval:300').replace('4k', '1m'))
        profile = proto.Profile(path + '.pb')
        with open(path + '.json', encoding='utf-8') as f:
            found = [e for e in json.load(f)['traceEvents'] if e['ph'] == 'i']
        for i, kind in enumerate(('alloc', 'free')):
            weights = [e['args']['weight'] for e in found if e['cat'] == kind]
            assert any(w % 1 for w in weights), weights
            assert abs(sum(s[1][2 * i] for s in profile.samples) - sum(weights)) < 1 + len(weights) / 1000
        result = run('true', conf='profile:%s.json' % path)
        assert 'another type' in result.stderr, result.stderr
    print('%d events' % len(events))


main()
