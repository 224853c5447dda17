/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules for free memory, to be compared: each decides how many whole free hugepages, and how many
 * free pages inside of hugepages, go back.
 *
 * library     as built, with all that the page heap decides; without a maintenance thread
 * sentence    alloc/policy/retention.h, with an idle watch where the process has threads; a process
 *             of one thread also releases at once
 * fraction    the same with the randomized rule in expectation
 * jemalloc    what fell together goes back over 10 s along a smooth step, at calls of the program
 * mimalloc    what was free for a second goes back, at calls of the program
 * tcmalloc    a thread releases what exceeds the demand that the last minutes make likely: the
 *             largest rise within a second of the last 60, and the highest low of the last 300
 * never       nothing goes back
 * at_once     what exceeds slack goes back at each free
 *
 * Left out of the peers: their caches above, how they place blocks and choose pages, jemalloc's
 * thread and its arenas, mimalloc's segments, tcmalloc's limit on the cache of hugepages and its
 * rate of release. All rules free whole hugepages first. What caches above the page heap return
 * after a fall is in the trace: it is what they returned under the library's rule.
 */
#ifndef PERF_RETENTION_RULES_H
#define PERF_RETENTION_RULES_H

#include "alloc/policy/retention.h"

/* What a rule knows. */
struct moment {
    uint64_t now_ns, cpu_ns;
    bool threads;  /* the process has had more than one thread */
    bool wasteful; /* mixed spans said lately that much memory is wasted */
    struct sa_retention_sums sums;
};

enum rule_clock {
    CLOCK_CALLS,  /* ticks are the program's: it runs maintenance in its calls */
    CLOCK_WATCH,  /* and a thread's, if the process has threads */
    CLOCK_THREAD, /* and a thread's, always */
};

struct rule {
    const char *name;
    enum rule_clock clock;
    bool library;                         /* the page heap releases by its own rules */
    bool foresight;                       /* its places count for the rule that knows the future */
    void (*falls)(const struct moment *); /* before pages are given back */
    void (*fell)(const struct moment *);  /* afterwards */
    void (*call)(const struct moment *);  /* at any request or free */
    void (*tick)(const struct moment *);  /* each half second */
    /* A request took so many pages that had no memory, at either price. */
    void (*touched)(size_t whole, size_t inside);
};

/* The rule of that name, NULL: there is none; and the n-th one. */
const struct rule *rule_find(const char *name);
const struct rule *rule_at(unsigned n);

#endif
