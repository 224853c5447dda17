/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking and releasing samples; see sampler.h. State: the generator (atomic), counters (atomic, relaxed). A
 * record belongs to this code until it is in the list of live ones, and again after it was taken out; the
 * block's owner is the only one who frees it.
 */
#include "sampling/sampler.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/size_class.h"
#include "alloc/os/clock.h"
#include "alloc/os/percpu.h"
#include "alloc/os/thread.h"
#include "alloc/page_heap/page_heap.h"
#include "sampling/draw.h"
#include "sampling/live.h"

static struct {
    uint64_t seed;  /* const after init */
    uint64_t rng;   /* atomic: draws that belong to no CPU */
    uint64_t taken; /* atomic, relaxed */
    uint64_t failed;
} sampler;

void sa_sampler_init(int64_t interval, uint64_t seed)
{
    sampler.seed = seed;
    sampler.rng = sa_rng_mix(seed ^ SA_RNG_STEP);
    sa_rates_init(interval);
}

uint64_t sa_sampler_stream(unsigned number)
{
    return sa_rng_mix(sampler.seed + (number + 1ull) * 0xd1342543de82ef95ull);
}

bool sa_sampler_try(const struct sa_rate *rate)
{
    return sa_draw_trial(&sampler.rng, rate->p);
}

void sa_sampler_try_large(size_t bytes, struct sa_trial *ret)
{
    ret->rate = sa_rate_of_size(bytes);
    ret->won = sa_sampler_try(&ret->rate);
}

/* The stack that called the allocator, in the table. Whoever calls this has set sa_thread.sampling. */
static struct sa_stack *sampler_stack(void)
{
    uintptr_t pc[SA_STACK_MOST];

    return sa_stack_intern(pc, sa_stack_capture(sa_thread.caller, pc, SA_STACK_MOST));
}

/* Fills in and enters the record of a block of `allocated` bytes. */
static bool sampler_record(const struct sa_trial *trial, struct sa_span *span, size_t allocated,
                           size_t requested, size_t align, void *proxy, unsigned cls)
{
    struct sa_sample *s = sa_live_new();

    if (!s)
        return false;
    s->span = span;
    s->proxy = proxy;
    s->cls = (uint8_t)cls;
    s->kind = sa_thread.caller_kind;
    s->p = trial->rate.p;
    s->interval = trial->rate.interval;
    s->offset = sa_draw_offset(&sampler.rng, &trial->rate, (double)allocated);
    s->hits = sa_draw_hits(&sampler.rng, &trial->rate, (double)allocated, s->offset);
    s->allocated = allocated;
    s->requested = requested;
    s->align = align > SA_MIN_ALIGN ? align : 0;
    s->stack = sampler_stack();
    s->thread = sa_sample_thread();
    s->cpu = sa_sample_cpu();
    s->time_ns = sa_clock_ns();
    sa_store_relaxed(&span->sample, s);
    sa_live_add(s);
    return true;
}

/* Brackets the sampler's work; false: this thread is inside already. */
static bool sampler_enter(void)
{
    if (sa_thread.sampling)
        return false;
    sa_thread.sampling = 1;
    return true;
}

static void sampler_leave(bool recorded)
{
    sa_add_relaxed(recorded ? &sampler.taken : &sampler.failed, 1);
    sa_thread.sampling = 0;
}

void *sa_sampler_take(const struct sa_trial *trial, unsigned cls, void *proxy, size_t requested,
                      size_t align)
{
    size_t bytes = sa_size_classes.of[cls].size;
    struct sa_span *span;
    bool recorded = false;

    if (!sampler_enter())
        return NULL;
    span = sa_page_heap_alloc(&sa_page_heap_sampled, (bytes + SA_PAGE_BYTES - 1) >> SA_PAGE_SHIFT,
                              sa_max(align >> SA_PAGE_SHIFT, 1));
    if (span) {
        span->requested = requested;
        recorded = sampler_record(trial, span, bytes, requested, align, proxy, cls);
        if (!recorded)
            sa_page_heap_free(&sa_page_heap_sampled, span, span->zeroed);
    }
    sampler_leave(recorded);
    return recorded ? (void *)span->start : NULL;
}

void sa_sampler_take_large(const struct sa_trial *trial, struct sa_span *span, size_t requested,
                           size_t align)
{
    if (!sampler_enter())
        return;
    sampler_leave(sampler_record(trial, span, sa_span_bytes(span), requested, align, NULL, 0));
}

unsigned sa_sampler_class(const struct sa_span *span)
{
    const struct sa_sample *s;

    /* The span may change hands meanwhile, if whoever asks does not own the block. Those of the sampled heap
     * never hold objects: what stands there is always a record, or NULL. */
    if (span->heap != SA_HEAP_SAMPLED)
        return 0;
    s = sa_load_relaxed(&span->sample);
    return s ? s->cls : 0;
}

void *sa_sampler_release(struct sa_span *span, unsigned *ret_cls)
{
    /* Of threads that free one block at the same time, by mistake, only one may find the record. */
    struct sa_sample *s = sa_xchg_acquire(&span->sample, NULL);
    struct sa_stack *free_stack = NULL;
    bool outside = !sa_thread.sampling;
    void *proxy;

    if (!s)
        sa_fatal("double free", (void *)span->start, "is being freed by another thread");
    proxy = s->proxy;
    *ret_cls = s->cls;
    if (outside && sa_live_wants_free_stacks()) {
        sa_thread.sampling = 1;
        free_stack = sampler_stack();
        sa_thread.sampling = 0;
    }
    sa_live_remove(s, free_stack);
    if (proxy)
        sa_page_heap_free(&sa_page_heap_sampled, span, false);
    return proxy;
}

void sa_sampler_stats(struct sa_sampler_stats *ret)
{
    ret->taken = sa_load_relaxed(&sampler.taken);
    ret->failed = sa_load_relaxed(&sampler.failed);
}
