/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The moment at which most memory was used: realized fragmentation compares what was used then with what
 * the program had in use, as the sampler estimates it.
 *
 * Memory only becomes more when pages are handed out, so each page heap calls sa_peak_note there, with its
 * lock held. What was used is the footprint (footprint.h). The two figures of the peak are kept in one word, so that
 * they are of the same moment without a lock of their own: pages of SA_PAGE_BYTES, 32 bits each.
 */
#ifndef SA_PAGE_HEAP_PEAK_H
#define SA_PAGE_HEAP_PEAK_H

#include <stddef.h>
#include <stdint.h>

struct sa_peak {
    uint64_t estimate_bytes; /* atomic, relaxed: in use by the program; written by the sampler */
    uint64_t at_peak;        /* atomic: used pages << 32 | estimate in pages */
};

extern struct sa_peak sa_peak;

/* A heap has handed out pages: used_bytes of it hold memory now, more_bytes are the program's that
 * no sample can tell of so far. */
void sa_peak_note(unsigned heap, size_t used_bytes, size_t more_bytes);

struct sa_peak_stats {
    size_t used_bytes;     /* when it was most */
    size_t estimate_bytes; /* in use by the program then; 0: no sample was live */
};

void sa_peak_stats(struct sa_peak_stats *ret);

#endif
