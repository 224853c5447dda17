/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is hardened in this process. Everything is const after sa_hardening_init, which comes before
 * the first allocation. Where anything is on, the limits of the fast path stay closed, so that
 * every operation comes to the slow path, where these are looked at; where nothing is, that costs
 * nothing.
 */
#ifndef SA_BASE_HARDENING_H
#define SA_BASE_HARDENING_H

#include "alloc/base/attrs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sa_hardening {
    bool on;         /* any of these but the next two */
    bool sampled;    /* samples are checked for all that a block can be checked for */
    bool inspect;    /* maintenance looks at blocks, and exit (alloc/hardening/inspect.h) */
    bool marks;      /* blocks end with a mark (alloc/base/canary.h), and their sizes are exact */
    bool scatter;    /* objects are handed out from random places of their span */
    bool guards;     /* large blocks end before an inaccessible page */
    bool watch;      /* others are guarded as far as a budget goes (alloc/hardening/watched.h) */
    bool junk_new;   /* blocks are filled when they are allocated */
    bool junk_freed; /* and when they are freed */
    size_t tail;     /* bytes of each object of a class that its block cannot have */
    size_t quarantine_bytes;
    uint64_t key[3]; /* of the marks; secret */
    uint64_t rng;    /* atomic: for places and victims; secret */
};

extern struct sa_hardening sa_hardening SA_HIDDEN;

/* secret: random words of this process. */
void sa_hardening_init(const struct sa_hardening *wanted, const uint64_t secret[4]);

#endif
