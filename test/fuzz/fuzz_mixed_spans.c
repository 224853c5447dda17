/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixed spans under four classes: blocks that come by way of the central free lists and straight
 * from mixed spans, that go back in batches and one by one at once, spans that become mixed, move
 * and are lost again, lookups of any address, with mappings that fail.
 */
#include "alloc/middle/mixed_spans.h"

#include "alloc/middle/central_mix.h"
#include "alloc/page_heap/account/peak.h"
#include "test/fuzz/central_steps.h"
#include "test/support/faults.h"
#include "test/support/start.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    test_start_layers();
    return 0;
}

static void take(struct fuzz_input *in, bool mixed)
{
    struct live_class *c = live_pick(in);
    size_t n = live_room(c, 1 + fuzz_below(in, LIVE_BATCH)), got;
    size_t align = mixed ? 16ul << fuzz_below(in, SA_PAGE_SHIFT - 3) : SA_MIXED_ALIGN;
    void *objs[LIVE_BATCH];

    if (!n)
        return;
    got = mixed ? sa_mixed_take(c->cls, objs + n, n, align) : sa_central_remove(c->cls, objs, n);
    FUZZ_CHECK(got <= n && (got || mixed || test_faults.mmap_after != FAULT_NEVER));
    for (size_t i = 0; i < got; i++)
        live_add(c, objs[mixed ? n - 1 - i : i], align);
}

/* A block goes back at once if it is on a mixed span and not short. */
static void give_back(struct fuzz_input *in)
{
    struct live_class *c = live_pick(in);
    void *block;

    if (!c->count)
        return;
    block = live_remove(c, fuzz_below(in, c->count));
    if (sa_central_mix_return(c->cls, block))
        sa_in_use_add(sa_size_classes.of[c->cls].size); /* it counted as in use */
    else
        sa_central_insert(c->cls, &block, 1);
}

/* An address near a block is one of that block only, or in another that is known, or free. */
static void look(struct fuzz_input *in)
{
    const struct live_class *c = live_pick(in);
    size_t size = sa_size_classes.of[c->cls].size;
    uintptr_t at;

    if (!c->count)
        return;
    at = (uintptr_t)c->blocks[fuzz_below(in, c->count)].p;
    FUZZ_CHECK(!sa_mixed_is_free(at) && !sa_mixed_is_free(at + size - 1));
    if (sa_pagemap_class(at))
        return;
    FUZZ_EQUAL(sa_mixed_class(at), c->cls);
    FUZZ_EQUAL(sa_mixed_class(at + 1 + fuzz_below(in, size - 1)), 0);
    at += fuzz_size(in, 16);
    if (sa_mixed_class(at))
        FUZZ_CHECK(live.set[live_find((void *)at)]);
}

static void check(bool all)
{
    sa_central_validate();
    FUZZ_EQUAL(sa_in_use_bytes(), 0); /* nothing comes from a cache */
    for (unsigned i = 0; i < LIVE_CLASSES; i++) {
        const struct live_class *c = &live.classes[i];
        size_t mixed = 0;

        FUZZ_EQUAL(live_outside(c->cls), c->count);
        if (!all)
            continue;
        for (size_t k = 0; k < c->count; k++) {
            live_check(c, k);
            mixed += !sa_pagemap_class((uintptr_t)c->blocks[k].p);
        }
        FUZZ_EQUAL(sa_mixed_objects(c->cls), mixed);
    }
    if (all)
        sa_mixed_validate();
}

static void step(struct fuzz_input *in)
{
    uint8_t what = fuzz_byte(in);

    switch (what % 16) {
    case 0 ... 3:
        take(in, false);
        break;
    case 4 ... 5:
        take(in, true);
        break;
    case 6 ... 8:
        central_give(in);
        break;
    case 9 ... 10:
        give_back(in);
        break;
    case 11:
        central_take_aligned(in);
        break;
    case 12:
        central_move(in, true);
        break;
    case 13:
        look(in);
        break;
    case 14:
        sa_mixed_use = what < 128 ? SA_MIXED_ALWAYS : SA_MIXED_AUTO;
        if (what % 64 == 14)
            sa_central_flush();
        break;
    default:
        test_faults.mmap_after = what % 32 == 15 ? (long)fuzz_below(in, 4) : FAULT_NEVER;
    }
    check(what % 8 == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};

    live_begin(&in, SA_MIXED_MAX, 4ul << 20);
    sa_mixed_use = fuzz_byte(&in) % 4 ? SA_MIXED_ALWAYS : SA_MIXED_AUTO;
    while (fuzz_left(&in))
        step(&in);
    test_faults_clear();
    check(true);
    central_give_all();
    check(true);
    sa_central_flush();
    live_end();
    return 0;
}
