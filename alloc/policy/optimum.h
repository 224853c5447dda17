/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that any rule can pay for a use of pages over time, if pages are interchangeable: the
 * optimum that knows the future. For the judge of rules (perf/retention) and unit tests; not part
 * of the library.
 *
 * The n-th page in use is a level. Each level is touched once at first. While it is free, either it
 * stays and costs `hold` for each second, or it goes back and costs `touch` when it is next used,
 * whichever is less. At the end it goes back. Levels that fall together are one entry of a stack,
 * so that one pass over the changes of use is enough.
 */
#ifndef SA_POLICY_OPTIMUM_H
#define SA_POLICY_OPTIMUM_H

#include <stddef.h>
#include <stdint.h>

struct sa_optimum_fall {
    size_t pages;
    uint64_t at_ns;
};

/* The caller sets the prices (of a page and second, of a page) and the room for the stack, which
 * must hold each fall of the trace. */
struct sa_optimum {
    double hold, touch;
    struct sa_optimum_fall *falls;
    double cost;
    size_t used, top; /* pages in use: now, and at most so far */
    size_t count;     /* of the stack: levels between used and top, the lowest last */
};

/* So many pages are in use from now on. Time does not go back. */
void sa_optimum_use(struct sa_optimum *o, uint64_t now_ns, size_t used);

#endif
