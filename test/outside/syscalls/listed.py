#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library's system calls, as tracer.c sees them while listed.c works, are those that doc/compatibility.md lists.

filter   after a filter was announced: calls of the list of rule 2 only, with its arguments; at start those of rule 1
free     without a filter: each call is in one of the document's tables
failing  a request that fails makes few calls before it says so, and fewer when it fails again
names    with map_names:on, a kernel that gives mappings no names is asked once by each thread at most

usage: listed.py TRACER PROGRAM LIBRARY DOCUMENT WHAT [NAME=VALUE ...]"""
import collections
import os
import re
import subprocess
import sys
import tempfile

LOADED, ANNOUNCED, FAILING, FAILED, AGAIN, END = range(1, 7)
TIMES = 20  # requests between FAILED and AGAIN

# One call for each range of whole free hugepages, of which there are few here, one for each CPU's cache that holds something,
# and what the heap releases as after every free: four threads leave at most 4 caches of 6 MiB, in runs of 8 KiB or more.
FAILING_MAX = 100 + 4 * (1 + (6 << 20) // (8 << 10))
AGAIN_MAX = 12  # each
# A pass of maintenance may fall into the request, as into any other. It releases what has lain idle, here up to 9000 holes, so the least
# of so many runs counts. One of 13 runs has a pass: one of 2200 tests fails by chance.
RUNS = 3

PR_SET_VMA, EINVAL = 0x53564D41, 22
THREADS = 4  # of listed.c; its children know what it has learned

NAMES = {0: "read", 1: "write", 3: "close", 9: "mmap", 10: "mprotect", 11: "munmap", 13: "rt_sigaction", 14: "rt_sigprocmask",
         16: "ioctl", 17: "pread64", 25: "mremap", 26: "msync", 27: "mincore", 28: "madvise", 39: "getpid", 60: "exit",
         131: "sigaltstack", 157: "prctl", 186: "gettid", 202: "futex", 204: "sched_getaffinity", 228: "clock_gettime",
         257: "openat", 262: "newfstatat", 267: "readlinkat", 297: "rt_tgsigqueueinfo", 302: "prlimit64", 309: "getcpu",
         318: "getrandom", 324: "membarrier", 435: "clone3",
         440: "process_madvise"}
PROT_NONE, PROT_BOTH = 0, 3
MAP_PRIVATE_ANONYMOUS, MAP_FIXED = 0x22, 0x10
FUTEX = {128, 129, 132}  # wait, wake, compare and requeue, all private
AT_START = {"mmap", "munmap", "mprotect", "madvise", "sched_getaffinity", "membarrier", "newfstatat", "ioctl"}

# Whether the arguments are those of the list.
LISTED = {
    "mmap": lambda a: a[2] == PROT_BOTH and a[3] & ~MAP_FIXED == MAP_PRIVATE_ANONYMOUS,
    "munmap": lambda a: True,
    "mremap": lambda a: True,
    "mprotect": lambda a: a[2] in (PROT_NONE, PROT_BOTH),
    "madvise": lambda a: a[2] in (4, 8),  # MADV_DONTNEED, MADV_FREE
    "futex": lambda a: a[1] in FUTEX,
    "write": lambda a: a[0] == 2,
}


def documented(path):
    """The names in the first columns of the tables of the section, rule by rule."""
    with open(path, encoding="utf-8") as file:
        section = file.read().split("## Filters of system calls")[1].split("\n## ")[0]
    rules = re.split(r"^\*\*(?=(?:When|Behind|Without) )", section, flags=re.M)[1:]
    return [set(re.findall(r"`([a-z_0-9]+)`", " ".join(re.findall(r"^\| *(`[^|]*)\|", rule, re.M)))) for rule in rules]


def name(call):
    return NAMES.get(int(call[0]), call[0])


def main():
    tracer, program, library, document = map(os.path.abspath, sys.argv[1:5])
    what = sys.argv[5]
    for _ in range(RUNS):
        wrong, many = run(tracer, program, library, document, what)
        print("\n".join((wrong + many)[:20]))
        if wrong or not many:
            break
    sys.exit(1 if wrong or many else 0)


def run(tracer, program, library, document, what):
    """What is wrong with a run of the program; where it made too many calls."""
    conf = "" if what == "failing" else "sample_interval:256k,guarded_sample:1" + (",map_names:on" if what == "names" else "")
    faults = ["0", "-1", f"157/0/{PR_SET_VMA}={EINVAL}"] if what == "names" else ["-1", "0", "*=1"]
    env = dict(os.environ, SALLOC_CONF=conf,
               **dict(v.split("=", 1) for v in sys.argv[6:]))
    env.pop("LD_PRELOAD", None)
    with tempfile.TemporaryDirectory() as folder:
        log = folder + "/log"
        done = subprocess.run([tracer, log, *faults, library, program, what], env=env, cwd=folder,
                              stdin=subprocess.DEVNULL, timeout=100 if what != "failing" else 30, check=False)
        if done.returncode == 77:
            print("skipped: processes cannot be traced here")
            sys.exit(77)
        with open(log, encoding="ascii") as file:
            lines = [line.split() for line in file]
    wrong, many = [f"status {done.returncode}"] if done.returncode else [], []
    phase, calls = 0, collections.defaultdict(list)
    for line in lines:
        if line[0] == "note":
            phase = int(line[1])
        else:
            calls[phase].append(line)
    _, listed, others = documented(document)
    if listed != set(LISTED):
        wrong.append(f"the document lists {sorted(listed)}")
    if not calls[0] or (what != "failing" and not calls[ANNOUNCED]):
        wrong.append("no calls were seen")
    wrong += [f"at start: {' '.join(c)}" for c in calls[0] if name(c) not in AT_START and what != "names"]
    for c in calls[ANNOUNCED]:
        if name(c) == "rt_sigaction" and int(c[1], 16) in (32, 33):  # pthread_create's own, which the tracer takes for the library's
            continue
        arguments = [int(a, 16) for a in c[1:5]]
        if what == "filter" and not (name(c) in LISTED and LISTED[name(c)](arguments)):
            wrong.append(f"behind a filter: {name(c)} {' '.join(c)}")
        if what == "free" and name(c) not in listed | others:
            wrong.append(f"not in the document: {name(c)} {' '.join(c)}")
    if what == "names":
        asked = sum(name(c) == "prctl" for at in calls.values() for c in at)
        return wrong + ([] if 1 <= asked <= THREADS else [f"asked {asked} times"]), []
    if what == "failing":
        for at, most in (FAILING, FAILING_MAX), (FAILED, AGAIN_MAX * TIMES):
            print(len(calls[at]), "calls:", dict(collections.Counter(map(name, calls[at]))))
            if len(calls[at]) > most:
                many.append(f"{len(calls[at])} calls, more than {most}")
    else:
        print(len(calls[ANNOUNCED]), "calls:", dict(collections.Counter(map(name, calls[ANNOUNCED]))))
    return wrong, many


main()
