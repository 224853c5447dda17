/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The central free lists of four classes: batches that come and go, aligned objects, pins, objects
 * that move to fuller spans, pages of free objects that are given back, with mappings that fail.
 */
#include "alloc/middle/central_free_list.h"

#include "alloc/middle/central_empty.h"
#include "alloc/page_heap/account/footprint.h"
#include "test/fuzz/central_steps.h"
#include "test/support/faults.h"
#include "test/support/start.h"

#define PINS 8

static struct pin {
    unsigned cls;
    void *object; /* whose span has a pin; it may be free by now */
} pins[PINS];
static unsigned pin_count;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    test_start_layers();
    return 0;
}

static void take(struct fuzz_input *in)
{
    struct live_class *c = live_pick(in);
    size_t n = live_room(c, 1 + fuzz_below(in, LIVE_BATCH)), got;
    void *objs[LIVE_BATCH];

    if (!n)
        return;
    got = sa_central_remove(c->cls, objs, n);
    FUZZ_CHECK(got <= n && (got || test_faults.mmap_after != FAULT_NEVER));
    for (size_t i = 0; i < got; i++)
        live_add(c, objs[i], SA_MIXED_ALIGN);
}

static void unpin(unsigned i)
{
    FUZZ_CHECK(sa_central_pin(pins[i].cls, pins[i].object, false));
    pins[i] = pins[--pin_count];
}

static void pin(struct fuzz_input *in)
{
    struct live_class *c = live_pick(in);
    uint8_t which = fuzz_byte(in);

    if (pin_count == PINS || (pin_count && which % 2)) {
        unpin(which % pin_count);
    } else if (c->count) {
        pins[pin_count] = (struct pin){c->cls, c->blocks[which % c->count].p};
        FUZZ_CHECK(sa_central_pin(c->cls, pins[pin_count++].object, true));
    }
}

/* Pages of free objects go back; the footprint has less by as many. */
static void empty(struct fuzz_input *in)
{
    size_t before = sa_footprint_bytes(), given = sa_central_empty(fuzz_size(in, 20));

    FUZZ_EQUAL(before - given, sa_footprint_bytes());
}

static void check(void)
{
    size_t emptied = 0;

    sa_central_validate();
    for (unsigned i = 0; i < LIVE_CLASSES; i++) {
        const struct live_class *c = &live.classes[i];
        struct sa_central_stats s = central_stats(c->cls);

        FUZZ_EQUAL(live_outside(c->cls), c->count);
        emptied += s.emptied_bytes;
        FUZZ_CHECK(s.emptied_bytes +
                       (c->count - s.mixed_objects) * sa_size_classes.of[c->cls].size <=
                   s.pages << SA_PAGE_SHIFT);
    }
    FUZZ_EQUAL(sa_footprint.emptied, emptied);
}

static void step(struct fuzz_input *in)
{
    uint8_t what = fuzz_byte(in);

    switch (what % 16) {
    case 0 ... 4:
        take(in);
        break;
    case 5 ... 8:
        central_give(in);
        break;
    case 9:
        central_take_aligned(in);
        break;
    case 10:
        central_move(in, false);
        break;
    case 11:
        pin(in);
        break;
    case 12:
        sa_central_plunder();
        break;
    case 13:
        sa_central_flush();
        break;
    case 14:
        empty(in);
        break;
    default:
        test_faults.mmap_after = what % 32 == 15 ? (long)fuzz_below(in, 4) : FAULT_NEVER;
    }
    check();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};

    live_begin(&in, sa_size_classes.of[sa_size_classes.count - 1].size, 16ul << 20);
    while (fuzz_left(&in))
        step(&in);
    test_faults_clear();
    central_give_all();
    check();
    while (pin_count)
        unpin(0);
    sa_central_flush();
    live_end();
    return 0;
}
