/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pages of free objects hold no memory (central_empty.h): the bitmap `emptied` of a span, in
 * the kernel's pages. The lock of the class (CENTRAL) guards it.
 */
#ifndef SA_MIDDLE_CENTRAL_EMPTIED_H
#define SA_MIDDLE_CENTRAL_EMPTIED_H

#include "alloc/base/attrs.h"
#include "alloc/base/bits.h"
#include "alloc/os/lock.h"
#include "alloc/os/vm.h"
#include "pagemap/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct central;

extern bool sa_central_empties; /* atomic, relaxed: sa_central_empty was called */

SA_INLINE unsigned sa_kernel_page_shift(void)
{
    return (unsigned)sa_lowest_bit(sa_vm.page_bytes);
}

/* Bits first to last of a word. */
SA_INLINE uint64_t sa_bits_between(size_t first, size_t last)
{
    return ~0ull << first & ~0ull >> (63 - last);
}

/* Whether words hold a bit for each object and each page of a span of a class, which the span's
 * record has room for. A span of one object goes back as a whole. */
bool sa_span_can_empty(unsigned cls);

/* Pages that have a part of one of the objects. */
uint64_t sa_pages_of(uint64_t objects, size_t size);

/* Whether pages of free objects of a span hold no memory. */
bool sa_span_is_emptied(const struct sa_span *s) SA_REQUIRES(SA_RANK_CENTRAL);

/* Counts the pages of the objects of a bitmap, or of the whole span (all bits), as memory again.
 * For spans with emptied pages only. */
void sa_central_forget_emptied(struct central *c, struct sa_span *s, uint64_t taken)
    SA_REQUIRES(SA_RANK_CENTRAL);

/* The same for any span, whose objects leave the list, or which leaves its class. If the footprint
 * then exceeds the soft limit, requests that memory is released. */
void sa_central_refill(struct central *c, struct sa_span *s, uint64_t taken)
    SA_REQUIRES(SA_RANK_CENTRAL);

#endif
