/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The radix map against a list of spans: every page of a span of objects leads to it, the ends of
 * others do, classes stand where objects may begin, an address in no span finds none, and none of
 * the lookups is disturbed by any number that is no address. Growing fails when records run out,
 * and then nothing is lost.
 */
#include "pagemap/pagemap.h"

#include "alloc/base/bits.h"
#include "alloc/base/size_class.h"
#include "test/fuzz/arena.h"
#include "test/fuzz/fuzz.h"
#include "test/support/start.h"

#define SPANS 64

static struct sa_span spans[SPANS];
static unsigned count;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    test_start_layers();
    return 0;
}

/* In one of four windows, the last of all among them. */
static uintptr_t pick_page(struct fuzz_input *in)
{
    static const uintptr_t windows[] = {SA_HOME_START, SA_HOME_START + SA_HOME_BYTES, 0,
                                        (1ul << SA_ADDRESS_BITS) - SA_HOME_BYTES};
    uintptr_t window = windows[fuzz_below(in, 4)];
    uint8_t how = fuzz_byte(in);
    uintptr_t page = how & 1 ? fuzz_number(in, 1) : fuzz_number(in, 3) % SA_HOME_PAGES;

    return window +
           (how & 2 ? SA_HOME_BYTES - SA_PAGE_BYTES - page * SA_PAGE_BYTES : page * SA_PAGE_BYTES);
}

static struct sa_span *span_at(uintptr_t address)
{
    for (unsigned i = 0; i < count; i++)
        if (address - spans[i].start < sa_span_bytes(&spans[i]))
            return &spans[i];
    return NULL;
}

static void add(struct fuzz_input *in)
{
    uintptr_t start = pick_page(in);
    uint32_t pages = (uint32_t)fuzz_size(in, 8);
    unsigned cls = fuzz_byte(in) % 2 ? 1 + (unsigned)fuzz_below(in, sa_size_classes.count - 1) : 0;
    struct sa_span *s = &spans[count];

    if (cls)
        pages = sa_size_classes.of[cls].pages;
    if (count == SPANS ||
        (start & (SA_HOME_BYTES - 1)) + ((size_t)pages << SA_PAGE_SHIFT) > SA_HOME_BYTES)
        return;
    for (uint32_t i = 0; i < pages; i++)
        if (span_at(start + ((uintptr_t)i << SA_PAGE_SHIFT)))
            return;
    if (!sa_pagemap_grow(start, (size_t)pages << SA_PAGE_SHIFT)) {
        FUZZ_CHECK(fuzz_arena.fails_after == 0);
        return;
    }
    *s = (struct sa_span){.start = start, .pages = pages, .cls = (uint8_t)cls};
    s->state = cls ? SA_SPAN_OBJECTS : SA_SPAN_LARGE;
    count++;
    if (cls)
        sa_pagemap_set_objects(s, sa_size_classes.of[cls].map_step);
    else
        sa_pagemap_set_ends(s);
}

static void check_span(struct sa_span *s)
{
    size_t step = s->cls ? sa_size_classes.of[s->cls].map_step : 0;

    for (uint32_t i = 0; i < s->pages; i++) {
        uintptr_t at = s->start + ((uintptr_t)i << SA_PAGE_SHIFT);
        bool starts = s->cls && ((uintptr_t)i << SA_PAGE_SHIFT) % step == 0;

        if (s->cls || i == 0 || i == s->pages - 1) {
            FUZZ_CHECK(sa_pagemap_span(at) == s);
            FUZZ_CHECK(sa_pagemap_find(at + SA_PAGE_BYTES - 1) == s);
        }
        FUZZ_EQUAL(sa_pagemap_class(at), starts ? s->cls : 0);
        if (s->cls && s->pages == 1 && at >> SA_HOME_SHIFT == SA_HOME_START >> SA_HOME_SHIFT)
            FUZZ_EQUAL(sa_hot.home_class[(at >> SA_PAGE_SHIFT) - SA_HOME_PAGE],
                       SA_CLASS_OFFSET(s->cls));
    }
}

static void drop(unsigned i)
{
    struct sa_span *s = &spans[i];

    check_span(s);
    if (s->cls)
        sa_pagemap_clear_classes(s);
    /* As the page heap leaves it: entries that are stale, of a record that others use next. */
    for (uint32_t k = 0; k < s->pages; k++)
        FUZZ_EQUAL(sa_pagemap_class(s->start + ((uintptr_t)k << SA_PAGE_SHIFT)), 0);
    *s = spans[--count];
    spans[count].state = SA_SPAN_UNUSED;
    if (i == count)
        return;
    if (s->cls)
        sa_pagemap_set_objects(s, sa_size_classes.of[s->cls].map_step);
    else
        sa_pagemap_set_ends(s);
}

static void look(uintptr_t address)
{
    struct sa_span *s = span_at(address), *found = sa_pagemap_find(address);

    /* In the middle of a large span the map may be stale; what it says is never wrong. */
    FUZZ_CHECK(found == s || (!found && s && !s->cls));
    if (!s)
        FUZZ_EQUAL(sa_pagemap_class(address), 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};

    fuzz_arena_begin(0);
    count = 0;
    memset(spans, 0, sizeof(spans));
    while (fuzz_left(&in)) {
        switch (fuzz_byte(&in) % 8) {
        case 0:
        case 1:
        case 2:
            add(&in);
            break;
        case 3:
            if (count)
                drop((unsigned)fuzz_below(&in, count));
            break;
        case 4:
            fuzz_arena.fails_after = fuzz_byte(&in) % 2 ? (long)fuzz_below(&in, 4) : -1;
            break;
        case 5:
            look(fuzz_number(&in, 8));
            break;
        default:
            look(pick_page(&in) + fuzz_number(&in, 2) % SA_PAGE_BYTES);
        }
    }
    while (count)
        drop(count - 1);
    return 0;
}
