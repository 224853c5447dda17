# SPDX-License-Identifier: Apache-2.0
"""The statistics of a comparison, and its tables as plain text and as Markdown.

A result is one number per round or None where there is none. The ratio of a workload is taken
against one peer, the one with the lowest median: per round, salloc's figure over the peer's, and of
these the median. Rounds are minutes apart but the two figures of one ratio only seconds, so that a
machine that is slow for a while disturbs both alike.
"""

import math
import statistics


def present(values):
    return [v for v in values if v is not None]


def median(values):
    values = present(values)
    return statistics.median(values) if values else None


def geometric_mean(values):
    values = present(values)
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else None


def quartiles(values):
    """The middle half; the extremes where there are too few values for that."""
    if len(values) < 4:
        return min(values), max(values)
    cut = statistics.quantiles(values, n=4, method="inclusive")
    return cut[0], cut[2]


class Row:
    """One workload: per allocator the time and the peak memory of every round. Those that are shown besides
    are no peers."""

    def __init__(self, name, allocators, besides=()):
        self.name = name
        self.besides = besides
        self.ns = {a: [] for a in allocators}
        self.rss_kib = {a: [] for a in allocators}

    def add(self, allocator, ns, rss_kib):
        self.ns[allocator].append(ns)
        self.rss_kib[allocator].append(rss_kib)

    def best_peer(self):
        """The allocator other than salloc with the lowest median, or None."""
        medians = {a: median(v) for a, v in self.ns.items()
                   if a != "salloc" and a not in self.besides and median(v)}
        return min(medians, key=medians.get) if medians else None

    def ratios(self):
        """salloc over the best peer, of the rounds that have both."""
        best = self.best_peer()
        pairs = zip(self.ns.get("salloc", []), self.ns[best]) if best else []
        return [ours / theirs for ours, theirs in pairs if ours and theirs]

    def ratio(self):
        return median(self.ratios())


def show_ns(ns):
    if ns is None:
        return "-"
    return "%.2f" % ns if ns < 10 else "%.1f" % ns if ns < 100 else "{:,.0f}".format(ns)


def show_mib(kib):
    return "-" if kib is None else "%.1f" % (kib / 1024)


def show_ratio(ratio):
    return "-" if ratio is None else "%.2f" % ratio


def relative(rows, allocators, figures):
    """Cells of a line: the geometric mean of each allocator's figures, relative to salloc's."""
    means = []
    for a in allocators:
        pairs = [(median(figures(r)[a]), median(figures(r).get("salloc", []))) for r in rows]
        means.append(show_ratio(geometric_mean([theirs / ours for theirs, ours in pairs
                                                if theirs and ours])))
    return ["geometric mean, salloc = 1"] + means


def time_table(rows, allocators):
    """Header and lines of the table of times, geometric means at the end."""
    head = ["ns per operation"] + allocators + ["best peer", "ratio", "middle half"]
    lines = []
    for row in rows:
        ratios = row.ratios()
        lines.append([row.name] + [show_ns(median(row.ns[a])) for a in allocators] +
                     [row.best_peer() or "-", show_ratio(median(ratios)),
                      "%.2f-%.2f" % quartiles(ratios) if ratios else "-"])
    lines.append(relative(rows, allocators, lambda row: row.ns) +
                 ["", show_ratio(geometric_mean([r.ratio() for r in rows])), ""])
    return head, lines


def rss_table(rows, allocators):
    """Header and lines of the table of peak memory, geometric means at the end."""
    head = ["peak RSS, MiB"] + allocators
    lines = [[row.name] + [show_mib(median(row.rss_kib[a])) for a in allocators] for row in rows]
    return head, lines + [relative(rows, allocators, lambda row: row.rss_kib)]


def process_table(start, address_kib, allocators):
    """What a program pays that does next to nothing."""
    head = ["trivial process"] + allocators + ["salloc / glibc"]
    pairs = zip(start.ns.get("salloc", []), start.ns.get("glibc", []))
    against = median([ours / theirs for ours, theirs in pairs if ours and theirs])
    return head, [
        ["start to end, us"] + [show_ns(median(start.ns[a]) / 1000 if median(start.ns[a]) else None)
                                for a in allocators] + [show_ratio(against)],
        ["peak RSS, MiB"] + [show_mib(median(start.rss_kib[a])) for a in allocators] + [""],
        ["address space, MiB"] + [show_mib(address_kib.get(a)) for a in allocators] + [""],
    ]


def as_text(head, lines):
    widths = [max(len(line[i]) for line in [head] + lines) for i in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                               for i, (cell, width) in enumerate(zip(line, widths))).rstrip()
                     for line in [head] + lines)


def as_markdown(head, lines):
    def cells(line):
        return "| " + " | ".join(line) + " |"
    rule = "|---|" + "---:|" * (len(head) - 1)
    return "\n".join([cells(head), rule] + [cells(line) for line in lines])
