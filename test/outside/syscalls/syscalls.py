#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every system call of the library's fails in turn, in scenarios.c, under tracer.c.

For each scenario: a run in which nothing fails tells which calls there are. Then, each in a run of its own:
  once    the k-th call fails, with each errno that the kernel may give for it
  from    the k-th and all that follow fail
  kind    all calls of one kind fail, from the j-th on
Proves that no run crashes, hangs, says what is not documented, leaves a file behind, or ends with more blocks in use or
more address space than a run in which nothing fails; what the scenario proves itself is said there.

usage: syscalls.py TRACER SCENARIOS LIBRARY WORK_FOLDER SCENARIO [NAME=VALUE ...]
SALLOC_TEST_FULL=1: all runs, else some, spread over all calls and kinds."""
import collections
import concurrent.futures
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

E = {name: number for number, name in __import__("errno").errorcode.items()}

# Without SALLOC_TEST_FULL.
RUNS_MAX = 48

# By number (x86-64): name, the argument that makes it another call, errors; the first is for `from`.
CALLS = {
    0: ("read", None, "EIO EINTR short"),
    1: ("write", None, "ENOSPC EINTR EIO short"),
    3: ("close", None, "EIO EINTR"),
    9: ("mmap", None, "ENOMEM EPERM nohint"),
    10: ("mprotect", 2, "ENOMEM EACCES"),
    11: ("munmap", None, "ENOMEM EINVAL"),
    13: ("rt_sigaction", None, "EINVAL"),
    17: ("pread64", None, "EIO EINTR"),
    25: ("mremap", 3, "ENOMEM EINVAL EFAULT"),
    26: ("msync", None, "ENOSYS ENOMEM EBUSY"), # EBUSY says that memory is locked: it is believed
    27: ("mincore", None, "ENOSYS ENOMEM"),
    28: ("madvise", 2, "EINVAL ENOMEM EAGAIN"),
    39: ("getpid", None, "ENOSYS"),
    157: ("prctl", None, "EINVAL"),
    186: ("gettid", None, "ENOSYS"),
    202: ("futex", 1, "EINTR EAGAIN"), # waiting
    204: ("sched_getaffinity", None, "EPERM EINVAL"),
    257: ("openat", None, "EMFILE ENOENT EOPNOTSUPP EACCES"),
    262: ("newfstatat", None, "ENOENT EACCES"),
    263: ("unlinkat", None, "EPERM"),
    264: ("renameat", None, "EACCES"),
    265: ("linkat", None, "EPERM ENOSPC EEXIST"),
    267: ("readlinkat", None, "ENOENT EACCES"),
    297: ("rt_tgsigqueueinfo", None, "EPERM"),
    302: ("prlimit64", None, "EPERM"),
    316: ("renameat2", None, "EXDEV ENOSPC"),
    324: ("membarrier", 0, "EPERM ENOSYS"),
    435: ("clone3", None, "EAGAIN ENOMEM"),
}
# Reading a word to see whether it can be read: EFAULT says that it cannot, and is believed.
KINDS = {"202/1/132": "EFAULT EPERM"}
OTHER = ("call", None, "ENOSYS EPERM")

# Waking cannot fail, and nobody could live with it if it did.
WAKE = "202/1/129"

# What cannot be written is told with the reason in words.
CANNOT_WRITE = r"salloc: \S+\[\d+\]: cannot write \S+( \S+)?: [A-Z][A-Za-z ,/-]+"

# Options, and what the library may say on stderr.
SCENARIOS = {
    "mix": ("sample_interval:64k", None),
    "growth": ("", None),
    "threads": ("sample_interval:64k", None),
    "fork": ("sample_interval:64k", None),
    "recording": ("sample_interval:16k", None),
    "stats": ("", None),
    "settings": ("sample_interval:1m,optimal_rates:on", None),
    "topology": ("", None),
    "exhaustion": ("sample_interval:64k", None),
    "guarded": ("sample_interval:4096,guarded_sample:1,guarded_slots:16,sample_quarantine:1m", None),
    "end": ("stats:page-%n,profile:heap.pb.gz,profile_type:peak", CANNOT_WRITE),
    "end_json": ("stats:%e.json,profile:%p.txt,profile_type:lifetime,sample_interval:4k", CANNOT_WRITE),
    "end_prom": ("stats:x.prom,profile:x.heap,profile_type:allocation,llc_domains:on,sample_interval:4k", CANNOT_WRITE),
    "signal": ("profile:%n.collapsed,profile_type:heap,profile_signal:USR2,sample_interval:4k",
               CANNOT_WRITE + r"|salloc: (profile_signal: cannot handle signal 12|"
               r"SALLOC_CONF: cannot create the thread that writes files)"),
    "bug": ("sample_interval:1,guarded_sample:1", r"salloc: .*"),
}
PROGRAM = {"guarded": "mix", "end_json": "end", "end_prom": "end"}

# How a run may end other than well, and the calls that must have failed then: SIGSEGV, which is what the bug is; SIGABRT where
# that cannot be arranged; SIGUSR2 without a handler.
ENDS = {"bug": {211: set(), 206: {"13"}}, "signal": {212: {"13"}}}

# Start-up ends the program where the kernel neither opens the library's variables (mprotect) nor maps others in their place
# (mmap), as the loader does for what it maps.
NO_VARIABLES = "salloc: no memory for the library's variables: "
REFUSED = [["10", "9"], ["10", "9", "1"]] # the calls that have failed then; the last one writes the line

# Bytes that a run may end with beyond what it has without faults (metadata: without the caches of CPUs and threads).
MORE = {
    "generic.bytes_in_use_by_app": 64 << 10,
    "tcmalloc.metadata_bytes": 1 << 20,
    "tcmalloc.page_heap_free": 2 << 20,
}

Run = collections.namedtuple("Run", "status out err calls faults marked files")


class Tester:
    def __init__(self, tracer, program, library, work, scenario, env):
        self.tracer, self.program, self.library = map(os.path.abspath, (tracer, program, library))
        self.work, self.scenario = os.path.abspath(work), scenario
        options, said = SCENARIOS[scenario]
        self.said = re.compile(said) if said else None
        self.env = dict(os.environ, SALLOC_CONF=options, **dict(v.split("=", 1) for v in env))
        self.env.pop("LD_PRELOAD", None)

    def run(self, first, times, rules):
        folder = tempfile.mkdtemp(dir=self.work)
        log = folder + ".log"
        try:
            p = subprocess.run(
                [self.tracer, log, str(first), str(times), rules, self.library, self.program,
                 PROGRAM.get(self.scenario, self.scenario)],
                cwd=folder, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
            with open(log) as f:
                lines = f.read().splitlines()
            marked = "mark" in lines
            calls = [l.split() for l in (lines[:lines.index("mark")] if marked else lines)]
            files = {name: open(os.path.join(folder, name), "rb").read() for name in sorted(os.listdir(folder))}
            return Run(p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace"),
                       calls, [c for c in calls if c[-1] == "fault"], marked, files)
        finally:
            shutil.rmtree(folder)
            if os.path.exists(log):
                os.unlink(log)

    def baseline(self):
        runs = [self.run(-1, 0, "*=1") for _ in range(5)]
        if runs[0].status == 77:
            print("skipped: processes cannot be traced here")
            sys.exit(77)
        self.figures = {}
        for r in runs:
            wrong = self.judge(r)
            if wrong:
                sys.exit(f"{self.scenario} without faults: {wrong}\n{r.out}{r.err}")
            for name, value in figures(r.out).items():
                self.figures[name] = max(value, self.figures.get(name, 0))
        return max(runs, key=lambda r: len(r.calls))

    # What is wrong with a run; None if nothing is.
    def judge(self, r):
        numbers = [c[0] for c in r.faults]
        if r.status == 206 and numbers[:3] in REFUSED and (len(numbers) > 2 or r.err.startswith(NO_VARIABLES)):
            return None
        if r.status and r.status not in ENDS.get(self.scenario, {}):
            return f"status {r.status}"
        if r.status and not ENDS[self.scenario][r.status] <= {c[0] for c in r.faults}:
            return f"status {r.status}"
        for line in r.err.splitlines():
            if not (self.said and self.said.fullmatch(line)):
                return "stderr"
        if r.marked:
            for name, value in figures(r.out).items():
                if value > self.figures.get(name, value) + MORE[name]:
                    return f"{name}: {value}, {self.figures[name]} without faults"
        elif r.out:
            return "stdout"
        for name, data in r.files.items():
            if name.endswith(".tmp") and any(c[0] == "263" for c in r.faults):
                continue # it could not be removed
            if not complete(name, data):
                return f"file {name}"
        return None


def figures(out):
    return {name: int(value) for name, value in re.findall(r"^([a-z_.]+) (\d+)$", out, re.M)}


def complete(name, data):
    try:
        if name.endswith(".json"):
            json.loads(data)
            return True
        if name.endswith(".pb.gz"):
            return len(gzip.decompress(data)) > 100
        if name.endswith(".prom"):
            return re.search(rb'\nsalloc_cpu_reclaims_total\{cpu="\d+",file="x\.prom"\} \d+\n$', data)
    except (ValueError, OSError, EOFError):
        return False
    return re.fullmatch(r"page-\d+|-?\d+\.(txt|collapsed)|x\.heap", name) and (data.endswith(b"\n") or name.endswith("collapsed"))


def entry(call):
    return CALLS.get(int(call[0]), OTHER)


def kind(call):
    argument = entry(call)[1]
    return call[0] + (f"/{argument}/{int(call[1 + argument], 16)}" if argument is not None else "")


def hows(call):
    return [str(E.get(how, how)) for how in KINDS.get(kind(call), entry(call)[2]).split()]


def plan(calls):
    """(what, first, times, rules) of all runs."""
    default = WAKE + "=0," + ",".join(f"{number}={E[c[2].split()[0]]}" for number, c in CALLS.items()) + f",*={E['ENOSYS']}"
    for k, call in enumerate(calls):
        if kind(call) == WAKE:
            continue
        for how in hows(call):
            # Which call comes as number k may be another one this time: that fails as it would by itself.
            yield "once " + kind(call), k, 1, f"{kind(call)}={how},{default}"
        yield "from " + kind(call), k, -1, default
    for which in sorted({kind(c) for c in calls} - {WAKE}):
        errors = set(hows(next(c for c in calls if kind(c) == which)))
        errors.discard(str(E["EINTR"])) # it does not come for ever
        if not which.startswith("202/") or which in KINDS:
            errors |= {str(E["ENOSYS"]), str(E["EPERM"])} # as a seccomp filter gives
        for how in sorted(errors):
            for first in (0, 1, 2, 5, 20, 100):
                if first < sum(kind(c) == which for c in calls):
                    yield f"kind {which}", first, -1, f"{which}={how}"


def some(runs, most):
    """Of each sort in turn the first, the last, and then what lies between."""
    sorts = collections.defaultdict(list)
    for r in runs:
        sorts[r[0]].append(r)
    chosen = []
    for i in range(len(runs)):
        for of_sort in sorts.values():
            if of_sort and len(chosen) < most:
                chosen.append(of_sort.pop((0, -1, len(of_sort) // 2)[i % 3]))
    return chosen


def main():
    tester = Tester(*sys.argv[1:6], sys.argv[6:])
    os.makedirs(tester.work, exist_ok=True)
    baseline = tester.baseline()
    runs = list(plan(baseline.calls))
    total = len(runs)
    if not os.environ.get("SALLOC_TEST_FULL"):
        runs = some(runs, RUNS_MAX)
    failed, faults = 0, 0

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for r, result in zip(runs, pool.map(lambda r: tester.run(*r[1:]), runs)):
            faults += len(result.faults)
            wrong = tester.judge(result)
            if wrong:
                failed += 1
                if failed <= 20:
                    print(f"{tester.scenario}: {r[0]} {r[1]} {r[2]} {r[3][:60]}: {wrong}")
                    print("    " + "\n    ".join((result.out + result.err).splitlines()[:8]))
                    print("    " + "; ".join(" ".join(c) for c in result.faults[:3]))
    print(f"{tester.scenario}: {len(runs)} of {total} runs, {len(baseline.calls)} calls of "
          f"{len({kind(c) for c in baseline.calls})} kinds, {faults} faults, {failed} failed")
    sys.exit(1 if failed else 0)


main()
