/* SPDX-License-Identifier: Apache-2.0 */
/* Walking over all spans of the ordinary page heap; see page_heap_walk.h. */
#include "test/unit/page_heap_walk.h"

#include "alloc/os/vm.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "test/support/cmocka.h"

#include <string.h>

void *__real_sa_vm_map(void *hint, size_t bytes, const char *name);
void *__wrap_sa_vm_map(void *hint, size_t bytes, const char *name);
void __real_sa_vm_unmap(void *p, size_t bytes);
void __wrap_sa_vm_unmap(void *p, size_t bytes);

/* What the heap holds: ranges that do not touch each other. */
#define RANGES_MOST 4096
static struct range {
    uintptr_t start, end;
} ranges[RANGES_MOST];
static size_t range_count;

static void range_add(uintptr_t start, uintptr_t end)
{
    for (size_t i = 0; i < range_count;) {
        struct range *r = &ranges[i];

        assert_true(end <= r->start || start >= r->end); /* the kernel does not map twice */
        if (r->end == start || r->start == end) {
            start = r->end == start ? r->start : start;
            end = r->start == end ? r->end : end;
            *r = ranges[--range_count];
            i = 0;
        } else {
            i++;
        }
    }
    assert_true(range_count < RANGES_MOST);
    ranges[range_count++] = (struct range){start, end};
}

/* Ranges of others (metadata) are not known here and left alone. */
static void range_remove(uintptr_t start, uintptr_t end)
{
    for (size_t i = 0; i < range_count; i++) {
        struct range r = ranges[i];

        if (start < r.start || end > r.end)
            continue;
        ranges[i] = ranges[--range_count];
        if (r.start < start)
            range_add(r.start, start);
        if (end < r.end)
            range_add(end, r.end);
        return;
    }
}

void *__wrap_sa_vm_map(void *hint, size_t bytes, const char *name)
{
    void *p = __real_sa_vm_map(hint, bytes, name);

    if (p && strcmp(name, "salloc:heap") == 0)
        range_add((uintptr_t)p, (uintptr_t)p + bytes);
    return p;
}

void __wrap_sa_vm_unmap(void *p, size_t bytes)
{
    range_remove((uintptr_t)p, (uintptr_t)p + bytes);
    __real_sa_vm_unmap(p, bytes);
}

static bool walk_is_free(const struct sa_span *s)
{
    return s->state == SA_SPAN_BACKED || s->state == SA_SPAN_RELEASED;
}

static void walk_span(const struct sa_span *s, const struct sa_span *before)
{
    uintptr_t last = sa_span_end(s) - 1;

    assert_in_range(s->state, SA_SPAN_BACKED, SA_SPAN_LARGE);
    assert_true(s->pages > 0);
    assert_ptr_equal(sa_pagemap_span(last), s);
    if (!walk_is_free(s))
        return;
    assert_int_equal(s->start >> SA_HOME_SHIFT, last >> SA_HOME_SHIFT);
    assert_int_equal(sa_pagemap_class(s->start), 0);
    assert_int_equal(sa_pagemap_class(last), 0);
    if (before && s->start % SA_HOME_BYTES != 0)
        assert_int_not_equal(s->state, before->state);
}

void page_heap_check(void)
{
    size_t pages[SA_SPAN_LARGE + 1] = {0}, in_use = 0, mapped = 0;
    struct sa_page_heap_stats stats;

    for (size_t i = 0; i < range_count; i++) {
        struct sa_span *before = NULL, *s;

        for (uintptr_t at = ranges[i].start; at < ranges[i].end; at = sa_span_end(s), before = s) {
            s = sa_pagemap_span(at);
            assert_non_null(s);
            assert_int_equal(s->start, at);
            assert_true(sa_span_end(s) <= ranges[i].end);
            walk_span(s, before);
            pages[s->state] += s->pages;
            in_use += !walk_is_free(s);
        }
        mapped += ranges[i].end - ranges[i].start;
    }
    sa_page_heap_stats(&sa_page_heap_ordinary, &stats);
    assert_int_equal(stats.mapped_bytes, mapped);
    assert_int_equal(stats.backed_bytes, pages[SA_SPAN_BACKED] << SA_PAGE_SHIFT);
    assert_int_equal(stats.released_bytes, pages[SA_SPAN_RELEASED] << SA_PAGE_SHIFT);
    assert_int_equal(stats.in_use_bytes, (pages[SA_SPAN_LARGE] + pages[SA_SPAN_OBJECTS])
                                             << SA_PAGE_SHIFT);
    assert_int_equal(stats.moving_bytes, 0);
    assert_int_equal(stats.spans_in_use, in_use);
}

bool page_heap_is_zero(const struct sa_span *span)
{
    const uint64_t *p = (const uint64_t *)span->start;

    for (size_t i = 0; i < sa_span_bytes(span) / sizeof(*p); i++)
        if (p[i])
            return false;
    return true;
}

size_t page_heap_ranges(void)
{
    return range_count;
}
