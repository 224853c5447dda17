#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks under salloc and every allocator found on the machine, and compares them.

One process runs one workload under one allocator for a short time. Allocators take turns within each
workload, workloads within each round, and who begins changes from round to round. doc/perf.md says
how to read the result. Exit status: 0, or 1 if something that is there did not run.
"""

import argparse
import datetime
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

from allocators import Allocator, find_allocators, machine_facts
from tables import Row, as_markdown, as_text, median, process_table, rss_table, time_table

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STARTS = 500  # of a trivial process, for each allocator, over all rounds
ORDERS = 20  # in which they are started, in each round
TIMEOUT_S = 60
# A measurement by real time is disturbed if its threads waited for a CPU for more than this part of
# their time. It is then repeated, up to so many times in all.
DISTURBED = 0.05
ATTEMPTS = 4
MARK_BEGIN = "<!-- compare.py: begin -->"
MARK_END = "<!-- compare.py: end -->"


class Failed(Exception):
    """A process did not do what it was started for."""


class Skipped(Exception):
    """A workload does not apply to this machine."""


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", metavar="DIR", default=os.path.join(ROOT, "build"),
                   help="build directory (default: build)")
    p.add_argument("--salloc", metavar="PATH", help="the library (default: libsalloc.so of the build)")
    p.add_argument("--also", metavar="NAME=PATH", action="append", default=[],
                   help="another library, as a hardened build of salloc: a column, but no peer")
    p.add_argument("--filter", metavar="REGEX", default="", help="only workloads whose name matches")
    p.add_argument("--rounds", type=int, help="rounds (default 7)")
    p.add_argument("--min-time", type=float, metavar="SECONDS",
                   help="least time of one measurement (default 0.1)")
    p.add_argument("--quick", action="store_true", help="5 rounds of 0.02 s: a look, not a result")
    p.add_argument("--pin", action="store_true",
                   help="pin workloads of one thread, too, to the last CPU allowed")
    p.add_argument("--json", metavar="FILE", help="write every measurement to FILE")
    p.add_argument("--markdown", metavar="FILE",
                   help="write the tables to FILE: between its marks if it has them")
    args = p.parse_args()
    args.rounds = args.rounds or (5 if args.quick else 7)
    args.min_time = args.min_time or (0.02 if args.quick else 0.1)
    args.salloc = os.path.abspath(args.salloc or os.path.join(args.build, "libsalloc.so"))
    args.bench = os.path.abspath(os.path.join(args.build, "perf", "salloc-bench"))
    args.launch = os.path.abspath(os.path.join(args.build, "perf", "salloc-launch"))
    args.also = [pair.partition("=")[::2] for pair in args.also]
    for path in [args.salloc, args.bench, args.launch] + [path for _, path in args.also]:
        if not os.path.exists(path):
            p.error("%s does not exist: build first (meson setup build && ninja -C build)" % path)
    return args


def pin():
    """To the last CPU allowed: interrupts prefer the first."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def launch(args, preloads, count, command, pinned=False):
    """Runs command with each preload in turn, count times: ([(index, ns, rss_kib)], stdout)."""
    read_end, write_end = os.pipe()
    line = [args.launch, str(write_end), str(count), ",".join(p or "-" for p in preloads)] + command
    with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, pass_fds=[write_end],
                          start_new_session=True, preexec_fn=pin if pinned else None) as process:
        os.close(write_end)
        try:
            # The report is shorter than what a pipe holds: reading it can wait.
            out, err = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the launcher and what it waits for
            process.communicate()
            os.close(read_end)
            raise Failed("no end after %d s" % TIMEOUT_S) from None
    with os.fdopen(read_end) as report:
        lines = [[int(field) for field in text.split()] for text in report]
    for _, _, _, status in lines:
        if status:
            reason = "killed by signal %d" % os.WTERMSIG(status) if os.WIFSIGNALED(status) \
                else "exit status %d" % os.WEXITSTATUS(status)
            raise Failed("%s: %s" % (reason, err.strip().split("\n")[-1]))
    if process.returncode or len(lines) != count * len(preloads):
        raise Failed("launcher: %s" % err.strip())
    return [(index, ns, rss) for index, ns, rss, _ in lines], out


def list_workloads(args):
    """[(shown name, google-benchmark's name)] of the workloads asked for."""
    listing = subprocess.run([args.bench, "--benchmark_list_tests"], stdout=subprocess.PIPE, text=True,
                             check=True).stdout.split()
    named = [(name.replace("/real_time", ""), name) for name in listing]
    return [pair for pair in named if re.search(args.filter, pair[0])]


def measure(args, allocator, workload):
    """One process: (ns per operation, peak RSS in KiB, context, part of its time it was disturbed)."""
    command = [args.bench, "--benchmark_filter=^%s$" % re.escape(workload),
               "--benchmark_min_time=%g" % args.min_time, "--benchmark_format=json",
               "--expect-malloc=" + allocator.expected_file()] + (["--pin"] if args.pin else [])
    report, out = launch(args, [allocator.path], 1, command)
    result = json.loads(out)
    entry = result["benchmarks"][0]
    if entry.get("error_occurred"):
        raise Skipped(entry["error_message"])
    disturbed = 0.0
    if "real_time" in entry["name"]:
        disturbed = entry.get("waited_ns", 0) / (
            entry["real_time"] * entry["iterations"] * entry["threads"])
    return 1e9 / entry["items_per_second"], report[0][2], result["context"], disturbed


def measure_undisturbed(args, allocator, workload):
    """The first undisturbed measurement of a few, or the least disturbed one."""
    best = None
    for _ in range(ATTEMPTS):
        result = measure(args, allocator, workload)
        if best is None or result[3] < best[3]:
            best = result
        if best[3] <= DISTURBED:
            break
    return best


class Comparison:
    """Collects the measurements of all rounds."""

    def __init__(self, args, allocators, workloads):
        self.args = args
        self.with_starts = bool(re.search(args.filter, "process_start"))
        self.allocators = allocators
        self.names = [a.name for a in allocators]
        self.workloads = workloads
        self.rows = {shown: Row(shown, self.names, [name for name, _ in args.also])
                     for shown, _ in workloads}
        self.start = Row("process_start", self.names)
        self.address_kib = {}
        self.context = {}  # what the benchmark program under salloc says of itself
        self.skipped = {}  # (workload, allocator or "all"): reason
        self.failed = {}
        self.disturbed = {}  # workload: parts of the time, of the measurements concerned

    def check_preloads(self):
        """Leaves out allocators that do not come into a process at all."""
        for allocator in list(self.allocators):
            try:
                launch(self.args, [allocator.path], 1, [self.args.bench, "--benchmark_list_tests",
                       "--expect-malloc=" + allocator.expected_file()])
            except Failed as why:
                self.failed[("everything", allocator.name)] = str(why)
                self.allocators.remove(allocator)

    def in_turn(self, round_number):
        """The allocators, beginning with another one each round."""
        first = round_number % max(len(self.allocators), 1)
        return self.allocators[first:] + self.allocators[:first]

    def run_workload(self, shown, workload, round_number):
        for allocator in self.in_turn(round_number):
            ns = rss = None
            key = (shown, allocator.name)
            if key not in self.failed and (shown, "all") not in self.skipped:
                try:
                    ns, rss, context, disturbed = measure_undisturbed(self.args, allocator, workload)
                    if disturbed > DISTURBED:
                        self.disturbed.setdefault(shown, []).append(disturbed)
                    if allocator.name == "salloc":
                        self.context = context
                except Skipped as why:
                    self.skipped[(shown, "all")] = str(why)
                except Failed as why:
                    self.failed[key] = str(why)
            self.rows[shown].add(allocator.name, ns, rss)

    def run_starts(self, round_number):
        """Starts of a trivial process; the median of a round counts as its figure. In all orders: a start is slower
        after one that has filled the processor's caches."""
        dice = random.Random(round_number)
        starts = {allocator.name: [] for allocator in self.allocators}
        for _ in range(ORDERS):
            order = dice.sample(self.allocators, len(self.allocators))
            try:
                report, _ = launch(self.args, [a.path for a in order],
                                   -(-STARTS // (self.args.rounds * ORDERS)), ["/bin/true"], pinned=True)
            except Failed as why:
                self.failed[("process_start", "all")] = str(why)
                return
            for index, ns, rss in report:
                starts[order[index].name].append((ns, rss))
        for name, mine in starts.items():
            self.start.add(name, median([ns for ns, _ in mine]), median([rss for _, rss in mine]))

    def read_address_space(self):
        """Peak address space of a trivial process, which tells it itself."""
        for allocator in self.allocators:
            try:
                _, out = launch(self.args, [allocator.path], 1, ["/bin/cat", "/proc/self/status"])
                self.address_kib[allocator.name] = int(re.search(r"VmPeak:\s*(\d+)", out).group(1))
            except (Failed, AttributeError) as why:
                self.failed[("address space", allocator.name)] = str(why)

    def run(self):
        began = time.monotonic()
        self.check_preloads()
        if self.with_starts:
            self.read_address_space()
        for r in range(self.args.rounds):
            print("round %d of %d, %d s so far" % (r + 1, self.args.rounds, time.monotonic() - began),
                  file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory() as copies:
                for allocator in self.allocators:
                    allocator.copy_to(copies)
                for shown, workload in self.workloads:
                    self.run_workload(shown, workload, r)
                if self.with_starts:
                    self.run_starts(r)

    def tables(self):
        rows = [row for row in self.rows.values() if (row.name, "all") not in self.skipped]
        tables = [time_table(rows, self.names), rss_table(rows, self.names)] if rows else []
        if self.with_starts:
            tables.append(process_table(self.start, self.address_kib, self.names))
        return tables

    def header(self):
        """(what, value) pairs: machine, method, allocators."""
        facts = [("date", datetime.date.today().isoformat())]
        facts += machine_facts(self.context.get("compiler", "unknown"))
        facts.append(("rounds", "%d, %g s or more per measurement%s" % (
            self.args.rounds, self.args.min_time, ", all pinned" if self.args.pin else "")))
        facts.append(("salloc", self.context.get("salloc_version", self.args.salloc)))
        return facts + [(a.name, a.version) for a in self.allocators if a.name != "salloc"]


def complaints(absent, comparison):
    """What did not run, or not undisturbed, and why, one line each."""
    lines = ["skipped: allocator %s: %s" % pair for pair in absent]
    lines += ["skipped: %s (%s): %s" % (*key, why) for key, why in comparison.skipped.items()]
    lines += ["disturbed: %s: in %d of %d measurements threads waited for a CPU, up to %.0f %% of their "
              "time" % (name, len(parts), comparison.args.rounds * len(comparison.names),
                        100 * max(parts)) for name, parts in comparison.disturbed.items()]
    lines += ["FAILED: %s under %s: %s" % (*key, why) for key, why in comparison.failed.items()]
    return lines


def write_markdown(path, comparison, notes):
    """Tables to a file, between its marks if it has some: the text around them stays."""
    parts = ["\n".join("* %s: %s" % fact for fact in comparison.header())]
    parts += [as_markdown(*table) for table in comparison.tables()]
    if notes:
        parts.append("\n".join("* " + note for note in notes))
    body = MARK_BEGIN + "\n\n" + "\n\n".join(parts) + "\n\n" + MARK_END
    before, after = "", "\n"
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            old = f.read()
        if MARK_BEGIN in old and MARK_END in old:
            before, after = old.split(MARK_BEGIN)[0], old.split(MARK_END)[1]
    with open(path, "w", encoding="utf-8") as f:
        f.write(before + body + after)


def write_json(path, comparison, notes):
    rows = list(comparison.rows.values()) + [comparison.start]
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"machine": dict(comparison.header()), "notes": notes,
                   "address_space_kib": comparison.address_kib,
                   "workloads": {row.name: {"ns": row.ns, "peak_rss_kib": row.rss_kib,
                                            "best_peer": row.best_peer(), "ratio": row.ratio()}
                                 for row in rows}}, f, indent=1)


def main():
    args = options()
    allocators, absent = find_allocators(args.salloc)
    allocators += [Allocator(name, os.path.abspath(path), path) for name, path in args.also]
    workloads = list_workloads(args)
    if not workloads and not re.search(args.filter, "process_start"):
        print("no workload matches %s" % args.filter, file=sys.stderr)
        return 1
    comparison = Comparison(args, allocators, workloads)
    comparison.run()
    notes = complaints(absent, comparison)
    print("\n".join("%s: %s" % fact for fact in comparison.header()))
    for table in comparison.tables():
        print("\n" + as_text(*table))
    print("\n" + "\n".join(notes) if notes else "")
    if args.json:
        write_json(args.json, comparison, notes)
    if args.markdown:
        write_markdown(args.markdown, comparison, notes)
    return 1 if comparison.failed else 0


if __name__ == "__main__":
    sys.exit(main())
