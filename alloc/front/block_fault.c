/* SPDX-License-Identifier: Apache-2.0 */
/* Explains a wrong pointer: by the history of a sample, by the page heap, then by the span around;
 * see block_fault.h. Other threads may change the span meanwhile: the message may be wrong then,
 * but the program ends in any case. */
#include "alloc/front/block_fault.h"

#include "alloc/base/fatal.h"
#include "alloc/base/size_class.h"
#include "alloc/middle/mixed_spans.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "sampling/guard/misuse.h"
#include "sampling/guard/pointer_lookup.h"
#include "sampling/sampler/sampler.h"

#include <string.h>

void sa_block_fault(const void *p, const char *what)
{
    uintptr_t address = (uintptr_t)p;
    struct sa_span *s = sa_pagemap_find(address);
    struct sa_lookup found;

    if (sa_misuse_find(address, &found))
        sa_misuse_pointer(what, p, &found);
    if (!s && sa_page_heap_is_free(&sa_page_heap_ordinary, address))
        sa_fatal(strcmp(what, "invalid free") == 0 ? "double free" : what, p,
                 "lies in memory that is free");
    if (!s)
        s = sa_pagemap_find_around(address);
    if (!s)
        sa_fatal(what, p, "was not allocated by salloc");
    if (sa_load_relaxed(&s->state) == SA_SPAN_OBJECTS)
        sa_fatal(what, p, "is inside a block of %u bytes, not its start",
                 sa_size_classes.of[s->cls].size);
    if (sa_load_relaxed(&s->state) == SA_SPAN_MIXED && !sa_mixed_is_free(address))
        sa_fatal(what, p, "is inside a block, not its start");
    if (sa_load_relaxed(&s->state) != SA_SPAN_LARGE || s->start == address)
        sa_fatal(strcmp(what, "invalid free") == 0 ? "double free" : what, p,
                 "lies in memory that is free");
    if (sa_lookup_sample(s, &found))
        sa_misuse_pointer(what, p, &found);
    sa_fatal(what, p, "is inside a block of %zu bytes, not its start", s->requested);
}
