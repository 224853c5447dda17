/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transfer caches of four classes, with shards for up to 24 CPUs and up to four domains:
 * batches that come from one CPU and go to another, idle objects that are passed on, with mappings
 * that fail. Each input begins with no shard claimed.
 */
#include "alloc/middle/transfer_cache.h"

#include "alloc/middle/transfer_shards.h"
#include "alloc/page_heap/account/peak.h"
#include "test/fuzz/live_blocks.h"
#include "test/support/faults.h"
#include "test/support/start.h"

#define CPUS 24

static struct calls {
    uint64_t removes, inserts; /* calls for a class */
} calls[LIVE_CLASSES];
static struct sa_transfer_stats before[LIVE_CLASSES];
static size_t in_use;
static unsigned cpus, domains;
static uint8_t domain_of[CPUS];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    test_start_layers();
    return 0;
}

static void begin(struct fuzz_input *in)
{
    memset(&sa_transfer_shards, 0, sizeof(sa_transfer_shards));
    memset(&sa_transfer_others, 0, sizeof(sa_transfer_others));
    memset(calls, 0, sizeof(calls));
    cpus = 1 + (unsigned)fuzz_below(in, CPUS);
    domains = 1;
    in_use = sa_in_use_bytes();
    for (unsigned i = 0; i < LIVE_CLASSES; i++)
        before[i] = transfer_stats(live.classes[i].cls);
}

static int pick_cpu(struct fuzz_input *in)
{
    return (int)fuzz_below(in, cpus + 1) - 1; /* -1: unknown */
}

/* Objects that a CPU of a domain cannot get count as none. */
static void take(struct fuzz_input *in)
{
    struct live_class *c = live_pick(in);
    size_t n = live_room(c, 1 + fuzz_below(in, LIVE_BATCH)), got;
    int cpu = pick_cpu(in);
    void *objs[LIVE_BATCH];

    if (!n)
        return;
    got = sa_transfer_remove(cpu, c->cls, objs, n);
    calls[c - live.classes].removes++;
    FUZZ_CHECK(got <= n && (got || test_faults.mmap_after != FAULT_NEVER));
    for (size_t i = 0; i < got; i++)
        live_add(c, objs[i], SA_MIXED_ALIGN);
}

/* What a CPU gives, it gets back if no other has the shard and all of it fitted: last in first
 * out. */
static void give(struct fuzz_input *in)
{
    struct live_class *c = live_pick(in);
    size_t n = 1 + fuzz_below(in, LIVE_BATCH), had;
    int cpu = pick_cpu(in);
    bool again = fuzz_byte(in) % 4 == 0;
    void *objs[LIVE_BATCH], *back[LIVE_BATCH];

    n = live_remove_some(in, c, objs, n);
    if (!n)
        return;
    had = transfer_stats(c->cls).objects;
    sa_transfer_insert(cpu, c->cls, objs, n);
    calls[c - live.classes].inserts++;
    if (!again || transfer_stats(c->cls).objects - had != n)
        return;
    FUZZ_EQUAL(sa_transfer_remove(cpu, c->cls, back, n), n);
    calls[c - live.classes].removes++;
    FUZZ_CHECK(memcmp(objs, back, n * sizeof(*back)) == 0);
    for (size_t i = 0; i < n; i++)
        live_add(c, back[i], SA_MIXED_ALIGN);
}

static void split(struct fuzz_input *in)
{
    unsigned want = 2 + (unsigned)fuzz_below(in, 3);

    for (unsigned cpu = 0; cpu < cpus; cpu++)
        domain_of[cpu] = (uint8_t)fuzz_below(in, want);
    if (sa_transfer_split(domain_of, cpus, want)) {
        FUZZ_EQUAL(domains, 1);
        domains = want;
    }
    FUZZ_EQUAL(sa_transfer_domains(), domains);
}

static void check(void)
{
    sa_central_validate();
    for (unsigned i = 0; i < LIVE_CLASSES; i++) {
        const struct live_class *c = &live.classes[i];
        struct sa_transfer_stats s = transfer_stats(c->cls);

        FUZZ_EQUAL(live_outside(c->cls), c->count + s.objects);
        /* Shards share the capacity, but each may have 1/16 beyond it. */
        FUZZ_CHECK(s.capacity <= s.max_capacity || s.capacity == s.objects);
        FUZZ_CHECK(s.objects <= s.capacity && s.objects <= 2 * s.max_capacity);
        FUZZ_CHECK(s.sharded <= s.objects);
        FUZZ_CHECK(s.insert_partial <= s.insert_misses && s.remove_partial <= s.remove_misses);
        FUZZ_EQUAL(s.insert_hits + s.insert_misses - before[i].insert_hits -
                       before[i].insert_misses,
                   calls[i].inserts);
        FUZZ_CHECK(s.remove_hits + s.remove_misses - before[i].remove_hits -
                       before[i].remove_misses >=
                   calls[i].removes); /* a second stack is asked when there is no memory */
        if (s.objects == 0)
            FUZZ_CHECK(!sa_transfer_has(0, c->cls));
    }
    FUZZ_EQUAL(sa_in_use_bytes(), in_use + live.bytes);
}

static void step(struct fuzz_input *in)
{
    uint8_t what = fuzz_byte(in);

    switch (what % 16) {
    case 0 ... 5:
        take(in);
        break;
    case 6 ... 11:
        give(in);
        break;
    case 12:
        sa_transfer_plunder();
        break;
    case 13:
        if (what < 64)
            sa_transfer_flush();
        break;
    case 14:
        if (what < 64)
            split(in);
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
    begin(&in);
    while (fuzz_left(&in))
        step(&in);
    test_faults_clear();
    for (unsigned i = 0; i < LIVE_CLASSES; i++)
        while (live.classes[i].count) {
            void *object = live_remove(&live.classes[i], live.classes[i].count - 1);

            sa_transfer_insert((int)i, live.classes[i].cls, &object, 1);
            calls[i].inserts++;
        }
    check();
    sa_transfer_flush();
    live_end();
    return 0;
}
