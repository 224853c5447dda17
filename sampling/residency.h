/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which part of a range of memory is resident or swapped out, from /proc/self/pagemap. The kernel shows
 * these two bits of every page of a process to itself.
 */
#ifndef SA_SAMPLING_RESIDENCY_H
#define SA_SAMPLING_RESIDENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sa_residency {
    int fd; /* negative: the kernel does not tell */
};

struct sa_resident {
    size_t resident, swapped; /* bytes of the range */
};

void sa_residency_open(struct sa_residency *r);
void sa_residency_close(struct sa_residency *r);

/* False: not known. The range may have been freed or unmapped. */
bool sa_residency_of(const struct sa_residency *r, uintptr_t start, size_t bytes,
                     struct sa_resident *ret);

#endif
