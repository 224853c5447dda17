/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hardening of this process, decided once at start. Every field but `rng` is constant after
 * sa_hardening_init, which start-up calls before the first allocation, if at all; so they need no
 * lock. If `on` is set, the limits of the fast paths stay closed. Every operation then takes the
 * slow path, which tests these fields. If not, the fast paths pay nothing.
 */
#ifndef SA_BASE_HARDENING_H
#define SA_BASE_HARDENING_H

#include "alloc/base/attrs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sa_hardening {
    bool on;         /* canaries, scatter, guards, junk or quarantine */
    bool sampled;    /* sampled blocks get every check that a block can get */
    bool inspect;    /* maintenance and exit inspect blocks (alloc/hardening/inspect.h) */
    bool canaries;   /* blocks end with a canary (alloc/base/canary.h), and their sizes are exact */
    bool scatter;    /* objects are taken from random places of their span */
    bool guards;     /* large blocks end before an inaccessible page */
    bool watch;      /* further blocks are guarded within a budget (alloc/hardening/watched.h) */
    bool junk_new;   /* blocks are filled with junk when they are allocated, */
    bool junk_freed; /* and when they are freed */
    size_t tail;     /* bytes at the end of each object of a class that belong to the canary */
    size_t quarantine_bytes;
    uint64_t key[3]; /* keys of the canaries; secret */
    /* State of the random numbers for places and victims; secret; atomic: any thread advances it by
     * sa_rng_next. */
    uint64_t rng;
};

extern struct sa_hardening sa_hardening SA_HIDDEN;

/* Sets sa_hardening. `wanted` gives what the options ask for; `inspect`, `tail`, `on` and the
 * secrets follow. secret: random words of this process. */
void sa_hardening_init(const struct sa_hardening *wanted, const uint64_t secret[4]);

#endif
