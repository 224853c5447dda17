/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking and releasing samples; see sampler.h. State: the random generator (atomic) and counters
 * (atomic, relaxed). A record belongs to this file until it enters the list of live samples, and
 * again once it is removed. Only the owner of a block frees it.
 */
#include "sampling/sampler/sampler.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/layout.h"
#include "alloc/base/probe.h"
#include "alloc/base/single_threaded.h"
#include "alloc/base/size_class.h"
#include "alloc/os/clock.h"
#include "alloc/os/percpu.h"
#include "alloc/os/scratch.h"
#include "alloc/os/sys.h"
#include "alloc/os/thread.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/page_heap.h"
#include "sampling/estimate/random_variates.h"
#include "sampling/guard/fault_handler.h"
#include "sampling/guard/guard_policy.h"
#include "sampling/guard/guarded.h"
#include "sampling/guard/misuse.h"
#include "sampling/guard/sample_quarantine.h"
#include "sampling/record/live_samples.h"
#include "sampling/record/sample_hooks.h"

/* Proxies are lent up to this sampling probability. Other blocks use lent objects, so spans hold
 * fewer objects of the class by this share. If nearly all blocks were sampled, a few objects would
 * be lent again and again. */
#define LENT_MAX_P 0.125

/* The probes salloc:sample and salloc:sample_free; doc/events.md has their arguments. */
#define SAMPLE_PROBE(name, s)                                                                      \
    SA_PROBE5(name, (s)->address, (s)->requested, (s)->allocated, (s)->number, (s)->p)

static SA_START_DATA struct sampler {
    uint64_t seed;  /* const after init, until a fork */
    uint64_t rng;   /* atomic: the generator for draws that belong to no CPU */
    uint64_t taken; /* atomic, relaxed */
    uint64_t failed;
    uint32_t
        forked; /* atomic: generators of other files still have their state from before a fork */
} sampler;

static uint64_t apart[SA_CLASSES_MAX]; /* sa_sampler_apart; atomic, relaxed */

SA_LAYOUT = {
    SA_LAYOUT_STATE("sampler", sampler, taken), SA_LAYOUT_STATE("sampler", sampler, failed),
    SA_LAYOUT_STATE_ALL("apart", apart),        SA_LAYOUT_FIELD(struct sampler, taken),
    SA_LAYOUT_FIELD(struct sampler, failed),
};
SA_LAYOUT_STATIC_ADDRESS("sampler", sampler);
SA_LAYOUT_STATIC_ADDRESS("apart", apart);

static void sampler_seed(uint64_t seed)
{
    sampler.seed = seed;
    sampler.rng = sa_rng_mix(seed ^ SA_RNG_STEP);
}

void sa_sampler_init(int64_t interval, uint64_t seed)
{
    sampler_seed(seed);
    sa_rates_init(interval);
}

SA_FORK void sa_sampler_after_fork(uint64_t number)
{
    sampler_seed(sa_rng_mix(sa_rng_mix(sampler.seed) + number * SA_RNG_STEP));
    sampler.forked = 1;
}

/* Seeds the generators of other files at the first sample in a child of fork. They lie on pages
 * that most children never write. */
SA_COLD static void sampler_seed_others(void)
{
    if (!sa_xchg_acquire(&sampler.forked, 0))
        return;
    sa_guard_policy_seed(sa_sampler_stream(SA_SLABS));
    sa_guarded_seed(sa_sampler_stream(SA_SLABS + 1));
    sa_sample_quarantine_seed(sa_sampler_stream(SA_SLABS + 2));
}

uint64_t sa_sampler_stream(unsigned number)
{
    return sa_rng_mix(sampler.seed + (number + 1ull) * 0xd1342543de82ef95ull);
}

SA_RARE bool sa_sampler_try(const struct sa_rate *rate)
{
    return sa_variate_bernoulli(&sampler.rng, rate->p);
}

void sa_sampler_try_large(size_t bytes, struct sa_sampling_decision *ret)
{
    ret->sampled = sa_rate_decide_size(bytes, &sampler.rng, &ret->rate);
    ret->bytes = bytes;
    ret->now_ns = 0;
}

/* Whether a sampled block may be guarded, and kept inaccessible when it is freed. */
static bool sampler_may_guard(void)
{
    return sa_fault_may_report() && !sa_limits_keep_all();
}

/* Captures the stack that called the allocator, and enters it in the table. Without scratch memory
 * it is the unknown stack. Requires sa_thread.sampling. */
static struct sa_stack *sampler_stack(void)
{
    uintptr_t *pc = sa_scratch_take();
    struct sa_stack *stack =
        sa_stack_intern(pc, pc ? sa_stack_capture_caller(pc, SA_STACK_MAX) : 0);

    sa_scratch_give(pc);
    return stack;
}

/* What the record of a sampled block is made from. */
struct sampled_block {
    const struct sa_sampling_decision *decision;
    struct sa_span *span;
    size_t allocated; /* bytes of the block, as far as the program may know */
    size_t requested, align;
    void *proxy; /* see struct sa_sample, as for `lent` and `cls` */
    bool lent;
    unsigned cls;
    struct sa_stack *stack; /* a reference, which the record takes over */
    uint64_t now;
    enum salloc_guarded_status status;
    bool selected; /* the guard policy has chosen the block, whether or not it can be guarded */
};

/* Asks the guard policy. Requires the fields above `status`. */
static void sampler_choose_guard(struct sampled_block *b)
{
    b->status = sampler_may_guard() ? sa_guard_policy_make(b->stack, b->allocated, b->now)
                                    : SALLOC_GUARDED_DISABLED;
    b->selected = b->status == SALLOC_GUARDED_REQUESTED;
}

/* Fills in the record of a block, and adds it. False: there is no memory for a record, and the
 * reference to the stack was given back. */
static bool sampler_record(const struct sampled_block *b)
{
    const struct sa_rate *rate = &b->decision->rate;
    uint64_t rng = sa_rng_next(&sampler.rng);
    struct sa_sample *s = sa_live_new();
    struct sa_span *span = b->span;

    if (!s) {
        sa_stack_unref(b->stack);
        return false;
    }
    s->span = span;
    s->proxy = b->proxy;
    s->lent = b->lent;
    s->cls = (uint8_t)b->cls;
    s->kind = sa_thread.caller_kind & SA_CALLER_KIND;
    s->p = rate->p;
    s->interval = rate->interval;
    s->offset = sa_variate_offset(rng, rate, (double)b->allocated);
    s->hits = sa_variate_hits(&rng, rate, (double)b->allocated, s->offset);
    s->allocated = b->allocated;
    s->requested = b->requested;
    s->align = b->align > SA_MIN_ALIGN ? b->align : 0;
    s->stack = b->stack;
    s->thread = sa_sample_thread();
    s->tid = sa_sample_tid(b->selected);
    s->place = (struct sa_place){-1, -1, -1};
    s->address = sa_guarded_span(span) ? sa_guarded_start(span) : span->start;
    s->guarded = (int8_t)b->status;
    s->selected = b->selected;
    s->quarantine = b->selected || (span->heap == SA_HEAP_SAMPLED && sampler_may_guard() &&
                                    sa_guard_policy_quarantine(b->allocated, b->now));
    s->time_ns = s->quarantine ? sa_clock_ns() : b->now;
    sa_store_relaxed(&span->sample, s);
    sa_live_add(s);
    SAMPLE_PROBE(sample, s);
    if (SA_UNLIKELY(sa_recordings_want_frees()))
        sa_sample_hooks_call(s, NULL, false);
    return true;
}

/* Removes the record of a block that is freed, whose pages are still the block's. free_stack: as
 * for sa_live_remove. */
static void sampler_remove(struct sa_sample *s, struct sa_stack *free_stack)
{
    SAMPLE_PROBE(sample_free, s);
    if (SA_UNLIKELY(sa_recordings_want_frees()))
        sa_sample_hooks_call(s, free_stack, true);
    sa_live_remove(s, free_stack);
}

/* Begins the work of the sampler on this thread; false: the thread is inside the sampler already.
 */
static bool sampler_enter(void)
{
    if (sa_thread.sampling)
        return false;
    sa_thread.sampling = 1;
    if (SA_UNLIKELY(sa_load_relaxed(&sampler.forked)))
        sampler_seed_others();
    return true;
}

static void sampler_leave(bool recorded)
{
    sa_count_shared(recorded ? &sampler.taken : &sampler.failed, 1);
    sa_thread.sampling = 0;
}

/* Allocates the pages of a sampled object: a guarded slot if *status is REQUESTED and one is free,
 * else a span of the sampled heap. NULL: no memory. */
static struct sa_span *sampler_page(size_t bytes, size_t requested, size_t align, unsigned cls,
                                    struct sa_stack *stack, enum salloc_guarded_status *status)
{
    struct sa_span *span = NULL;

    if (SA_UNLIKELY(*status == SALLOC_GUARDED_REQUESTED)) {
        sa_fault_prepare();
        span = sa_guarded_alloc(requested, align, cls, stack, status);
    }
    if (!span)
        span =
            sa_page_heap_alloc(&sa_page_heap_sampled, (bytes + SA_PAGE_BYTES - 1) >> SA_PAGE_SHIFT,
                               sa_max(align >> SA_PAGE_SHIFT, 1), SA_PAGES_ANY);
    if (span) {
        span->requested = requested;
        span->origin = sa_caller_origin(align);
    }
    return span;
}

/* Returns pages of sampler_page that got no record. */
static void sampler_give_back(struct sa_span *span)
{
    if (sa_guarded_span(span)) {
        sa_guarded_claim(span);
        sa_guarded_free(span, NULL);
    } else {
        sa_page_heap_free(&sa_page_heap_sampled, span, span->zeroed);
    }
}

enum sa_proxy sa_sampler_proxy(unsigned cls, const struct sa_rate *rate)
{
    const struct sa_class *k = &sa_size_classes.of[cls];

    if (k->objects == 1)
        return SA_PROXY_NONE;
    /* Profiles look up a lent object in the bitmap of 64 bits in the span's record. */
    return k->size > SA_PAGE_BYTES && rate->p <= LENT_MAX_P && k->objects <= 64 ? SA_PROXY_LENT
                                                                                : SA_PROXY_HELD;
}

void *sa_sampler_take(struct sa_sampling_decision *decision, unsigned cls, void *object,
                      enum sa_proxy proxy, size_t requested, size_t align)
{
    struct sampled_block b = {.decision = decision,
                              .allocated = sa_size_classes.of[cls].size,
                              .requested = requested,
                              .align = align,
                              .proxy = proxy == SA_PROXY_NONE ? NULL : object,
                              .lent = proxy == SA_PROXY_LENT,
                              .cls = cls};
    bool recorded = false;
    void *p = NULL;

    if (!sampler_enter())
        return NULL;
    b.stack = sampler_stack();
    b.now = sa_sampling_now(decision);
    sampler_choose_guard(&b);
    b.span = sampler_page(b.allocated, requested, align, cls, b.stack, &b.status);
    if (b.span) {
        p = (void *)(sa_guarded_span(b.span) ? sa_guarded_start(b.span) : b.span->start);
        recorded = sampler_record(&b);
        if (!recorded)
            sampler_give_back(b.span);
        else if (proxy != SA_PROXY_HELD)
            sa_count_shared(&apart[cls], 1);
    } else {
        sa_stack_unref(b.stack);
    }
    sampler_leave(recorded);
    return recorded ? p : NULL;
}

void sa_sampler_take_large(const struct sa_sampling_decision *decision, struct sa_span *span,
                           size_t requested, size_t align)
{
    struct sampled_block b = {.decision = decision,
                              .span = span,
                              .allocated = decision->bytes,
                              .requested = requested,
                              .align = align};

    if (!sampler_enter())
        return;
    b.stack = sampler_stack();
    b.now = sa_clock_coarse_ns();
    sampler_choose_guard(&b);
    if (b.selected)
        b.status = SALLOC_GUARDED_LARGER_THAN_ONE_PAGE;
    sampler_leave(sampler_record(&b));
}

SA_COLD void sa_sampler_set_requested(struct sa_span *span, size_t requested)
{
    struct sa_sample *s = sa_load_relaxed(&span->sample);

    if (s)
        sa_live_set_requested(s, requested);
}

unsigned sa_sampler_class(const struct sa_span *span)
{
    const struct sa_sample *s;

    /* A caller that does not own the block may see the span change hands. Spans of the sampled heap
     * never hold objects: span->sample is always a record or NULL. */
    if (span->heap == SA_HEAP_GUARDED)
        return sa_guarded_class(span);
    if (span->heap != SA_HEAP_SAMPLED)
        return 0;
    s = sa_load_relaxed(&span->sample);
    return s ? s->cls : 0;
}

/* Captures the stack that frees a block; NULL: it is not wanted, or this thread is inside the
 * sampler. */
static struct sa_stack *sampler_free_stack(bool wanted)
{
    struct sa_stack *stack;

    if (!wanted || sa_thread.sampling)
        return NULL;
    sa_thread.sampling = 1;
    stack = sampler_stack();
    sa_thread.sampling = 0;
    return stack;
}

SA_COLD struct sa_stack *sa_sampler_stack(void)
{
    return sampler_free_stack(true);
}

/* Records the history of a block that is freed, with references of its own. */
static void sampler_remember(const struct sa_sample *s, struct sa_stack *freed,
                             struct sa_block_history *ret)
{
    sa_fault_prepare();
    sa_stack_ref(s->stack);
    if (freed)
        sa_stack_ref(freed);
    ret->start = s->span->start;
    ret->requested = s->span->requested;
    ret->allocated = (struct sa_event){s->stack, s->time_ns, s->tid};
    ret->freed = (struct sa_event){freed, sa_clock_ns(), sa_sys_tid()};
}

/* Takes the record from a span; NULL: another thread has taken it. */
static struct sa_sample *sampler_take_record(struct sa_span *span)
{
    struct sa_sample *s;

    if (!sa_single_threaded())
        return sa_xchg_acquire(&span->sample, NULL);
    s = span->sample;
    span->sample = NULL;
    return s;
}

/* Takes the record of a block that is freed. A second free of the block finds no record, and
 * aborts. */
static struct sa_sample *sampler_claim(struct sa_span *span)
{
    struct sa_sample *s = NULL;
    struct sa_lookup found;

    if (!sa_guarded_span(span) || sa_guarded_claim(span))
        s = sampler_take_record(span);
    if (SA_UNLIKELY(!s)) {
        if (sa_misuse_find(span->start, &found) && found.state == SA_LOOKUP_FREED)
            sa_misuse_pointer("invalid free", (void *)found.history.start, &found);
        sa_fatal("double free", (void *)span->start, "is being freed by another thread");
    }
    return s;
}

enum sa_proxy sa_sampler_free(struct sa_span *span, unsigned *ret_cls, void **ret_proxy)
{
    struct sa_sample *s = sampler_claim(span);
    bool guarded = sa_guarded_span(span), quarantine;
    struct sa_block_history history;
    struct sa_stack *stack;
    enum sa_proxy proxy = !s->proxy ? SA_PROXY_NONE : s->lent ? SA_PROXY_LENT : SA_PROXY_HELD;

    quarantine = !guarded && sa_sample_quarantine_wants(sa_span_bytes(span)) && s->quarantine;
    stack = sampler_free_stack(guarded || quarantine || sa_live_wants_free_stacks());
    *ret_cls = s->cls;
    *ret_proxy = s->proxy;
    if (proxy != SA_PROXY_HELD)
        sa_count_shared(&apart[s->cls], (uint64_t)-1);
    if (quarantine)
        sampler_remember(s, stack, &history);
    if (guarded && stack)
        sa_stack_ref(stack);
    sampler_remove(s, stack);
    if (guarded)
        sa_guarded_free(span, stack);
    if (quarantine && !sa_sample_quarantine_put(span, &history, false)) {
        sa_block_history_drop(&history);
        quarantine = false;
    }
    if (!guarded && !quarantine)
        sa_page_heap_free(&sa_page_heap_sampled, span, false);
    return proxy;
}

SA_RARE size_t sa_sampler_apart(unsigned cls)
{
    return sa_load_relaxed(&apart[cls]);
}

SA_RARE void sa_sampler_release_large(struct sa_span *span)
{
    sampler_remove(sampler_claim(span), sampler_free_stack(sa_live_wants_free_stacks()));
}

SA_RARE bool sa_sampler_quarantine_large(struct sa_span *span, bool unbacked)
{
    struct sa_sample *s = sampler_claim(span);
    bool quarantine = s->selected && sa_sample_quarantine_wants(sa_span_bytes(span));
    struct sa_stack *stack = sampler_free_stack(quarantine || sa_live_wants_free_stacks());
    struct sa_block_history history;

    if (quarantine)
        sampler_remember(s, stack, &history);
    sampler_remove(s, stack);
    if (quarantine && !sa_sample_quarantine_put(span, &history, unbacked)) {
        sa_block_history_drop(&history);
        quarantine = false;
    }
    return quarantine;
}

SA_RARE void sa_sampler_stats(struct sa_sampler_stats *ret)
{
    ret->taken = sa_load_relaxed(&sampler.taken);
    ret->failed = sa_load_relaxed(&sampler.failed);
}
