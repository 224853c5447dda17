/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which part of a range of memory is resident or swapped out, and of what is resident, which part
 * is locked into memory or full of zeros. A process without privileges learns all of this of
 * itself:
 *
 *   /proc/self/pagemap   two bits of every page: present, swapped
 *   msync                MS_INVALIDATE is refused with EBUSY for memory that is locked, and does
 *                        nothing to other memory without a file
 *   /proc/self/mem       what a page contains. Reading it there does not fault, whatever the
 *                        program does with the page
 *
 * Which pages were not touched for a while the kernel only tells the superuser, and only if built
 * for it.
 */
#ifndef SA_SAMPLING_SNAPSHOT_RESIDENCY_H
#define SA_SAMPLING_SNAPSHOT_RESIDENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In this many parts, at most, a range is looked at for locks and zeros; it is exact up to as many
 * pages. */
#define SA_RESIDENCY_LOOKS 64

/* Ranges of many pages are looked at in fewer parts for zeros, where there are many ranges: 2.5 us
 * each. */
#define SA_RESIDENCY_LOOKS_MIN 4
#define SA_RESIDENCY_LOOKS_SUM 16384

/* What can be known. */
enum {
    SA_KNOWS_PAGES = 1, /* resident, swapped */
    SA_KNOWS_LOCKED = 2,
    SA_KNOWS_ZERO = 4
};

struct sa_residency {
    int fd;     /* of pagemap; negative: the kernel does not tell */
    int memory; /* of mem */
    uint8_t knows;
    uint8_t looks; /* parts of a range, for zeros */
};

struct sa_resident {
    size_t resident, swapped; /* bytes of the range */
    size_t locked, zero;      /* of those resident */
};

/* ranges: about so many will be asked for. */
void sa_residency_open(struct sa_residency *r, size_t ranges);
void sa_residency_close(struct sa_residency *r);

/*
 * False: not known. The range may have been freed or unmapped. Of more than SA_RESIDENCY_LOOKS
 * pages, locked is rounded up to parts of the range; and of each of `looks` parts one resident
 * page, chosen at random (the same each time), tells whether all of them are full of zeros: the
 * expectation is the truth.
 */
bool sa_residency_of(const struct sa_residency *r, uintptr_t start, size_t bytes,
                     struct sa_resident *ret);

/*
 * The same for a guarded block of `used` bytes, which stands for blocks of `bytes`. The library has
 * filled every page that the block has a part of only: each byte of that part was `fill`. A page
 * where this is still so was not touched by the program, and does not count. Without SA_KNOWS_ZERO
 * all such pages count. Pages behind the block belong to others.
 */
bool sa_residency_of_filled(const struct sa_residency *r, uintptr_t start, size_t bytes,
                            size_t used, uint8_t fill, struct sa_resident *ret);

#endif
