/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each site has really allocated and has live, with the variance that every estimator must
 * have for it, and the comparison with what the profile functions say.
 *
 * A block of a bytes that is sampled with p = 1-(1-1/T)^a contributes, to the variance of
 *   the weighted estimate of bytes       a^2 (1-p)/p
 *   that from offsets (T+a-f)            p T (T-1)       (the failures in front of a success,
 *                                        stopped at a)
 *   that from successes (T N)            a (T-1)         (N is binomial)
 * and to that of the number of blocks the same divided by a^2. A certain block (p > 0.99)
 * contributes nothing.
 */
#ifndef SA_TEST_TRUTH_H
#define SA_TEST_TRUTH_H

#include "include/salloc/profile.h"
#include "test/outside/estimates/sites.h"

#include <stdbool.h>
#include <stdint.h>

#define ESTIMATORS 4

enum { LIVE, EVER, SPANS }; /* in use now; ever allocated */
enum { BLOCKS, BYTES, UNITS };

struct amount {
    double value[UNITS];
    double variance[ESTIMATORS][UNITS];
    double samples, misses; /* expected, of those that are not certain */
};

struct truth {
    struct amount site[SITES][SPANS];
};

/* A live block. */
struct truth_block {
    void *p;
    double interval; /* when it was allocated; 0: sampling was off, it is not counted */
    size_t usable;
    unsigned site;
};

/* Enters what was just allocated by a site, or takes a block out; p is its address. What is guarded
 * is from malloc. */
void truth_add(struct truth *truth, struct truth_block *block, unsigned site, void *p, size_t asked,
               double interval);
void truth_remove(struct truth *truth, const struct truth_block *block);

/* z = (estimate - truth) / standard error, of the sum over all sites. */
struct truth_z {
    double total[SPANS][ESTIMATORS][UNITS];
    double worst[SPANS][ESTIMATORS][UNITS]; /* of a site with at least 20 of both expected */
    unsigned sites[SPANS];                  /* so many of them there are */
};

/*
 * Compares with profiles of the moment. Certain sites must be exact, and the total that the library
 * reports must be the sum over stacks: checked at once.
 */
void truth_compare(const struct truth *truth, struct truth_z *ret);

#endif
