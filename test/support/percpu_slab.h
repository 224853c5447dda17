/* SPDX-License-Identifier: Apache-2.0 */
/* A slab of a test's own, with a few classes of a chosen number of slots. */
#ifndef TEST_SUPPORT_PERCPU_SLAB_H
#define TEST_SUPPORT_PERCPU_SLAB_H

#include "alloc/os/percpu.h"

#include <stdlib.h>
#include <string.h>

#define SLAB_CLASSES 4 /* 1 .. 3 are used */

/* Slots for every class, each range after a word that stays 0. */
static inline struct sa_slab *test_slab_new(size_t slots)
{
    size_t bytes = sizeof(struct sa_slab) + SLAB_CLASSES * (slots + 1) * sizeof(void *);
    struct sa_slab *slab = aligned_alloc(SA_CACHELINE, sa_align_up(bytes, SA_CACHELINE));

    memset(slab, 0, bytes);
    for (size_t cls = 0; cls < SLAB_CLASSES; cls++)
        slab->header[cls].slots = slab->slot + cls * (slots + 1) + 1;
    return slab;
}

#endif
