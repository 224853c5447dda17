/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule for free memory, as pure functions: backed <= most used within the last tau + slack.
 * The judge of rules (perf/retention) and unit tests link this file. The library does not yet.
 *
 * A free page that stays costs SA_HOLD_NS for each second. A page that went back and is needed
 * again costs its price once. The n-th page in use is needed while `used` is at least n. For each n
 * this is the ski-rental problem (Karlin et al., "Competitive snoopy caching", 1988): whoever keeps
 * the page for tau = price / hold after its last use, and then releases it, pays at most twice what
 * the future would have shown to be cheapest. No deterministic rule does better. For all pages
 * together that is the sentence above.
 *
 * There are two prices, so the rule applies twice, with a window for each: whole free hugepages,
 * and free pages inside of hugepages that are partly in use.
 *
 * No lock, no call, no global: the caller's structs and clock come in, a number of pages comes out.
 * The unit is a page of 8 KiB.
 */
#ifndef SA_POLICY_RETENTION_H
#define SA_POLICY_RETENTION_H

#include "alloc/base/page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What a page of 8 KiB costs, in ns of CPU time. Measured on a 2-CPU virtual machine (AMD EPYC,
 * Linux 6.18), 2026-11-28, medians of 40: release and first touch of a hugepage, 0.75 to 0.80 us a
 * page; of pages in runs of 32, 3.1 to 3.5 us a page; MADV_COLLAPSE of a hugepage, 410 to 450 us.
 */
#define SA_PRICE_WHOLE_NS 800
/* A released page inside of a hugepage also costs a part of that hugepage: 1/64 of the collapse
 * that makes it whole again. */
#define SA_PRICE_INSIDE_NS (3300 + 430000 / 64)
/* What a free page costs that stays for a second. Chosen: one second of a CPU is worth 25 GiB for a
 * second. Public clouds sell a CPU at the price of 7 to 8 GiB; memory that went back is of use
 * where somebody lacks it, which is taken as one time in three. */
#define SA_HOLD_NS 300

/* No tau is shorter. Releases go by ticks of half a second, and the delay of a tick counts. */
#define SA_TAU_MIN_NS 2500000000ull

/* Slack: this much, and this part of what is used, may be free for however long. */
#define SA_SLACK_PAGES    (8ul << 20 >> SA_PAGE_SHIFT)
#define SA_SLACK_FRACTION 32

/* A process of one thread may never make another call. At once it releases whole hugepages as far
 * as slack is exceeded by more than this. It stops doing so after ONCE_REFAULTS such releases of
 * which pages were needed again, if these cost more than 1/ONCE_FRACTION of its CPU time. Pages
 * inside of hugepages wait for their tau: they cost twelve times as much if they are needed again,
 * and on most traces more than what they hold (perf/retention/score.py). */
#define SA_ONCE_PAGES    (24ul << 20 >> SA_PAGE_SHIFT)
#define SA_ONCE_REFAULTS 5
#define SA_ONCE_FRACTION 100

/* A window is this many slots of time. A level of use is forgotten between tau - tau / SLOTS and
 * tau after its last use. */
#define SA_RETENTION_SLOTS 16

/* The most pages in use within the last tau. Zeroed memory with tau_ns set is an empty window. */
struct sa_retention {
    uint64_t tau_ns;
    uint64_t slot; /* number of the newest slot since time 0, plus 1; 0: time has not begun */
    size_t max[SA_RETENTION_SLOTS];
};

/* Pages, as they are at this moment. */
struct sa_retention_sums {
    size_t used;       /* in use */
    size_t used_whole; /* of hugepages that are at least partly in use */
    size_t whole;      /* of free backed hugepages */
    size_t inside;     /* free and backed, inside of hugepages that are partly in use */
};

/* Pages to release. */
struct sa_retention_due {
    size_t whole, inside;
};

/* What a process of one thread has learned about its releases at once. */
struct sa_retention_once {
    unsigned refaulted; /* releases of which pages were needed again */
    bool counted;       /* the last one is among them */
    size_t released;    /* pages of the last one that have not been needed again */
    uint64_t cost_ns;   /* of all pages that were needed again */
};

/* tau = price / hold. */
uint64_t sa_retention_tau_ns(uint64_t price_ns, uint64_t hold_ns);

/* Notes the use. Called before it falls, and at each tick. Time does not go back. */
void sa_retention_note(struct sa_retention *w, uint64_t now_ns, size_t used);

/* The most in use within the last tau, as of the last note, and at least `used`. */
size_t sa_retention_max(const struct sa_retention *w, size_t used);

size_t sa_retention_slack(size_t used);

/* The pages that may be backed. */
size_t sa_retention_target(const struct sa_retention *w, size_t used);

/*
 * The same by the randomized rule in expectation (e/(e-1) instead of 2): of what is free for a time
 * of x tau, the part (e^x - 1)/(e - 1) has been released. Slack is as above.
 */
size_t sa_retention_fraction(const struct sa_retention *w, size_t used);

/* What exceeds the targets of both windows: `whole` notes used_whole, `inside` notes used. Free
 * pages inside of hugepages use up slack first. */
struct sa_retention_due sa_retention_due(const struct sa_retention *whole,
                                         const struct sa_retention *inside,
                                         const struct sa_retention_sums *sums);

/* The pages of whole hugepages that a process of one thread releases at once. */
size_t sa_retention_once_due(const struct sa_retention_once *o,
                             const struct sa_retention_sums *sums, uint64_t cpu_ns);

/* Notes that so many pages were released at once; that a request took pages back that had been
 * released, at this price for each. */
void sa_retention_once_released(struct sa_retention_once *o, size_t pages);
void sa_retention_once_refaulted(struct sa_retention_once *o, size_t pages, uint64_t price_ns);

#endif
