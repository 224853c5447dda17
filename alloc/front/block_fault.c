/* SPDX-License-Identifier: Apache-2.0 */
/* Explains a wrong pointer: by the history of a sample, by the page heap, then by the span around;
 * see block_fault.h. Other threads may change the span meanwhile: the message may be wrong then. */
#include "alloc/front/block_fault.h"

#include "alloc/base/fatal.h"
#include "alloc/base/fmt.h"
#include "alloc/base/size_class.h"
#include "alloc/middle/mixed_spans.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "sampling/guard/misuse.h"
#include "sampling/guard/pointer_lookup.h"
#include "sampling/sampler/sampler.h"

#include <string.h>

/* What is known about a pointer. */
struct fault {
    const char *what;
    char text[160];
    struct sa_lookup found;
};

/* Explains a pointer by the records of the page heap and of the span around. */
static void explain_by_spans(uintptr_t address, const char *what, struct fault *ret)
{
    const char *freed = strcmp(what, "invalid free") == 0 ? "double free" : what;
    struct sa_span *s = sa_pagemap_find(address);
    unsigned cls = sa_pagemap_class(address);
    struct sa_fmt f;

    sa_fmt_init(&f, ret->text, sizeof(ret->text));
    if (cls) {
        sa_fmt_add(&f, "is inside a block of %u bytes, not its start",
                   sa_size_classes.of[cls].size);
        return;
    }
    if (!s && sa_page_heap_is_free(&sa_page_heap_ordinary, address)) {
        ret->what = freed;
        sa_fmt_add(&f, "lies in memory that is free");
        return;
    }
    if (!s)
        s = sa_pagemap_find_around(address);
    if (!s) {
        sa_fmt_add(&f, "was not allocated by salloc");
    } else if (sa_load_relaxed(&s->state) == SA_SPAN_OBJECTS) {
        sa_fmt_add(&f, "is inside a block of %u bytes, not its start",
                   sa_size_classes.of[s->cls].size);
    } else if (sa_load_relaxed(&s->state) == SA_SPAN_MIXED && !sa_mixed_is_free(address)) {
        sa_fmt_add(&f, "is inside a block, not its start");
    } else if (sa_load_relaxed(&s->state) != SA_SPAN_LARGE || s->start == address) {
        ret->what = freed;
        sa_fmt_add(&f, "lies in memory that is free");
    } else if (sa_lookup_sample(s, &ret->found)) {
        sa_misuse_describe(&f, what, address, &ret->found);
    } else {
        ret->found.state = SA_LOOKUP_NOTHING;
        sa_fmt_add(&f, "is inside a block of %zu bytes, not its start", s->requested);
    }
}

static void explain(const void *p, const char *what, struct fault *ret)
{
    uintptr_t address = (uintptr_t)p;
    struct sa_fmt f;

    ret->what = what;
    ret->text[0] = '\0';
    if (sa_misuse_find(address, &ret->found)) {
        sa_fmt_init(&f, ret->text, sizeof(ret->text));
        ret->what = sa_misuse_describe(&f, what, address, &ret->found);
        return;
    }
    ret->found.state = SA_LOOKUP_NOTHING;
    explain_by_spans(address, what, ret);
}

void sa_block_fault(const void *p, const char *what)
{
    struct fault fault;

    explain(p, what, &fault);
    if (fault.found.state != SA_LOOKUP_NOTHING)
        sa_misuse_pointer(what, p, &fault.found);
    sa_fatal(fault.what, p, "%s", fault.text);
}

void sa_block_report(const void *p, const char *what)
{
    struct fault fault;

    explain(p, what, &fault);
    sa_misuse_survives(fault.what, p, &fault.found, fault.text);
}
