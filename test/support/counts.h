/* SPDX-License-Identifier: Apache-2.0 */
/* What the middle layer and the page heap count, as values. */
#ifndef TEST_SUPPORT_COUNTS_H
#define TEST_SUPPORT_COUNTS_H

#include "alloc/middle/central_free_list.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/page_heap/page_heap.h"

static inline struct sa_central_stats central_stats(unsigned cls)
{
    struct sa_central_stats s;

    sa_central_stats(cls, &s);
    return s;
}

static inline struct sa_transfer_stats transfer_stats(unsigned cls)
{
    struct sa_transfer_stats s;

    sa_transfer_stats(cls, &s);
    return s;
}

/* Bytes of ordinary spans. */
static inline size_t heap_in_use(void)
{
    struct sa_page_heap_stats s;

    sa_page_heap_stats(&sa_page_heap_ordinary, &s);
    return s.in_use_bytes;
}

#endif
