/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The per-CPU caches of four classes: single objects and bursts that come and go, on any CPU that
 * the process may use, while limits change, capacity moves, caches are drained, stopped as for a
 * fork, sent to the slow path, and probabilities of sampling change.
 */
#include "alloc/cpu_cache/cpu_cache_internal.h"

#include "alloc/fork/fork_gate.h"
#include "alloc/maintain/sample_rates.h"
#include "alloc/os/rseq.h"
#include "sampling/sampler/sampler.h"
#include "test/fuzz/live_blocks.h"
#include "test/support/start.h"

#include <sched.h>

#define CPUS  4 /* that are used */
#define BURST 256

static cpu_set_t allowed;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    FUZZ_EQUAL(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    test_start(TEST_CACHE_LIMIT);
    sa_sampler_init(0, 1);
    return 0;
}

static void migrate(unsigned n)
{
    cpu_set_t set;

    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, &allowed) && n-- == 0) {
            CPU_ZERO(&set);
            CPU_SET((size_t)cpu, &set);
            sched_setaffinity(0, sizeof(set), &set);
        }
}

static void take(struct fuzz_input *in, size_t most)
{
    struct live_class *c = live_pick(in);

    for (size_t n = live_room(c, 1 + fuzz_below(in, most)); n; n--) {
        struct sa_sampling_decision decision;
        void *p;

        sa_cpu_cache_claim(c->cls, &decision);
        p = sa_cpu_cache_alloc(c->cls, &decision);
        FUZZ_CHECK(p);
        live_add(c, p, SA_MIXED_ALIGN);
    }
}

static void give(struct fuzz_input *in, size_t most)
{
    struct live_class *c = live_pick(in);
    size_t n = 1 + fuzz_below(in, most);
    void *objs[BURST];

    n = live_remove_some(in, c, objs, n);
    for (size_t i = 0; i < n; i++)
        sa_cpu_cache_free(c->cls, objs[i]);
}

static void set_sampling(struct fuzz_input *in)
{
    static const int64_t intervals[] = {0, 1, 256, 65536};

    if (!sa_fork_gate_enter())
        return;
    sa_sample_rates_set_interval(intervals[fuzz_below(in, 4)]);
    sa_fork_gate_leave();
}

/* As fork does. Caches of threads are their owners'. */
static void stop_and_resume(void)
{
    if (!sa_rseq.per_cpu)
        return;
    FUZZ_CHECK(sa_cpu_cache_stop_all());
    sa_cpu_cache_resume_all();
}

static void check(void)
{
    sa_central_validate();
    for (unsigned i = 0; i < LIVE_CLASSES; i++) {
        const struct live_class *c = &live.classes[i];
        struct sa_cpu_class_stats s;

        sa_cpu_cache_class_stats(c->cls, &s);
        FUZZ_EQUAL(live_outside(c->cls), c->count + s.objects + transfer_stats(c->cls).objects);
        FUZZ_EQUAL(s.allocations - s.frees, c->count);
    }
    for (int cpu = 0; cpu < sa_cpu_cache_count(); cpu++) {
        struct sa_cpu_cache_stats s;

        sa_cpu_cache_stats(cpu, &s);
        FUZZ_CHECK(s.used_bytes <= s.capacity_bytes);
        if (s.populated)
            FUZZ_EQUAL(s.limit_bytes, s.unallocated_bytes + s.capacity_bytes);
    }
}

static void step(struct fuzz_input *in)
{
    uint8_t what = fuzz_byte(in);

    switch (what % 16) {
    case 0 ... 2:
        take(in, 16);
        break;
    case 3 ... 4:
        take(in, BURST);
        break;
    case 5 ... 7:
        give(in, 16);
        break;
    case 8 ... 9:
        give(in, BURST);
        break;
    case 10:
        sa_cpu_cache_tick();
        break;
    case 11:
        sa_cpu_cache_drain(what < 128 ? -1 : (int)fuzz_below(in, (size_t)sa_cpu_cache_count() + 1));
        break;
    case 12:
        sa_cpu_cache_set_limit(fuzz_size(in, 24));
        break;
    case 13:
        if (what < 128)
            sa_cpu_cache_kick();
        else
            stop_and_resume();
        break;
    case 14:
        if (what < 128)
            sa_cpu_cache_rearm();
        else
            set_sampling(in);
        break;
    default:
        if (what < 64) /* it waits for the scheduler */
            migrate((unsigned)fuzz_below(in, CPUS));
    }
    check();
    if (what % 8 == 0 && sa_rseq.per_cpu)
        sa_cpu_cache_validate(); /* stops each CPU */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};

    live_begin(&in, sa_size_classes.of[sa_size_classes.count - 1].size, 16ul << 20);
    while (fuzz_left(&in))
        step(&in);
    for (unsigned i = 0; i < LIVE_CLASSES; i++)
        while (live.classes[i].count)
            sa_cpu_cache_free(live.classes[i].cls,
                              live_remove(&live.classes[i], live.classes[i].count - 1));
    check();
    in = (struct fuzz_input){NULL, NULL};
    set_sampling(&in);
    sa_cpu_cache_set_limit(TEST_CACHE_LIMIT);
    sa_cpu_cache_drain(-1);
    sa_transfer_flush();
    live_end();
    return 0;
}
