/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out how many bytes of a range of memory are resident or swapped out, and how many of the
 * resident ones are locked into memory or on pages full of zeros. The kernel tells a process all of
 * this about itself, without privileges:
 *
 *   /proc/self/pagemap   two bits for each page: present, swapped
 *   msync                fails with EBUSY for locked memory if called with MS_INVALIDATE, and does
 *                        nothing to other memory without a file
 *   /proc/self/mem       the contents of a page. A read there does not fault, whatever the program
 *                        does with the page
 *
 * The kernel tells only root which pages were idle for a while, and only if it was built for that.
 * A struct sa_residency belongs to one thread. The functions allocate nothing.
 */
#ifndef SA_SAMPLING_SNAPSHOT_RESIDENCY_H
#define SA_SAMPLING_SNAPSHOT_RESIDENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A range is checked for locks and zeros in at most this many parts. Ranges of up to as many pages
 * have exact results. */
#define SA_RESIDENCY_LOOKS 64

/* All ranges together are checked for zeros in about this many parts, but each range in at least
 * SA_RESIDENCY_LOOKS_MIN. A part takes 2.5 us. */
#define SA_RESIDENCY_LOOKS_MIN 4
#define SA_RESIDENCY_LOOKS_SUM 16384

/* The kinds of residency. */
enum {
    SA_KNOWS_PAGES = 1,  /* resident and swapped bytes */
    SA_KNOWS_LOCKED = 2, /* locked bytes */
    SA_KNOWS_ZERO = 4    /* zero bytes */
};

struct sa_residency {
    int fd;        /* /proc/self/pagemap; negative: the kernel does not tell */
    int memory;    /* /proc/self/mem, or negative */
    uint8_t knows; /* kinds that the kernel tells: SA_KNOWS_... */
    uint8_t looks; /* parts in which a range is checked for zeros */
};

struct sa_resident {
    size_t resident, swapped; /* bytes of the range */
    size_t locked, zero;      /* parts of the resident bytes */
};

/* Opens the files, and finds out what the kernel tells. ranges: expected calls of
 * sa_residency_of. */
void sa_residency_open(struct sa_residency *r, size_t ranges);

/* Closes the files. */
void sa_residency_close(struct sa_residency *r);

/*
 * Stores the residency of [start, start + bytes) in *ret. False: not known. The range may have been
 * freed or unmapped meanwhile.
 *
 * For more than SA_RESIDENCY_LOOKS pages, a part of the range is locked as a whole or not at all,
 * as msync says of it. One resident page of each of `looks` parts, a random one, says whether all
 * of the part is full of zeros. The expectation of `zero` is the true value. The choice is the same
 * for each call with this range.
 */
bool sa_residency_of(const struct sa_residency *r, uintptr_t start, size_t bytes,
                     struct sa_resident *ret);

/*
 * As sa_residency_of, for a guarded block of `used` bytes, which stands for blocks of `bytes`. The
 * library has filled the block's part of every page that the block shares with bytes beside it:
 * with the byte `fill`. Such a page does not count while the part still contains only that byte,
 * because the program has not touched it. Without SA_KNOWS_ZERO all such pages count. Pages behind
 * the block's last page do not count.
 */
bool sa_residency_of_filled(const struct sa_residency *r, uintptr_t start, size_t bytes,
                            size_t used, uint8_t fill, struct sa_resident *ret);

#endif
