/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles made by hand, whose every number is known: for what reads profiles and does not need a
 * sampler. Stacks have real return addresses of functions of the test program, of libc, and of
 * nothing.
 */
#ifndef SA_TEST_MADE_PROFILE_H
#define SA_TEST_MADE_PROFILE_H

#include "sampling/profile/profile.h"

/* Where the stacks of the buckets begin; the names are those of the functions. */
enum {
    MADE_LEAF,    /* made_leaf, made_middle, made_root */
    MADE_MIDDLE,  /* made_middle, made_root */
    MADE_LIBC,    /* lfind, made_root */
    MADE_NOWHERE, /* an address in no object, made_root */
    MADE_UNKNOWN, /* could not be kept */
    MADE_STACKS
};

/* The same profile each time for a type. It stays valid. */
const struct sa_profile *made_profile(enum salloc_profile_type type);
const struct sa_stack *made_stack(unsigned which);

/* Without buckets. */
const struct sa_profile *made_profile_empty(enum salloc_profile_type type);

#endif
