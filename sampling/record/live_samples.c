/* SPDX-License-Identifier: Apache-2.0 */
/* The live samples, and the gone ones that were live at the peak; see live_samples.h. SAMPLES
 * guards all state below. */
#include "sampling/record/live_samples.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/layout.h"
#include "alloc/os/clock.h"
#include "alloc/os/lock.h"
#include "alloc/os/thread.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/peak.h"
#include "sampling/record/sample_copies.h"
#include "sampling/record/sample_records.h"

#define FOLDED 64 /* gone samples that are added up at a time, to free their records */

static struct live_samples {
    struct sa_lock lock;
    struct sa_sample *first SA_GUARDED_BY(SA_RANK_SAMPLES); /* live, newest first */
    struct sa_sample *gone SA_GUARDED_BY(SA_RANK_SAMPLES);  /* freed since the peak, but live at it;
                                                             * linked by next */
    /* Sums of gone samples whose records were reused. */
    struct sa_buckets folded SA_GUARDED_BY(SA_RANK_SAMPLES);
    /* Odd while the gone samples and their sums change, and higher afterwards; for readers without
     * the lock. */
    uint32_t changes SA_GUARDED_BY(SA_RANK_SAMPLES);
    size_t count SA_GUARDED_BY(SA_RANK_SAMPLES), gone_count SA_GUARDED_BY(SA_RANK_SAMPLES);
    uint64_t newest SA_GUARDED_BY(SA_RANK_SAMPLES); /* number of the last sample added */
    double bytes SA_GUARDED_BY(SA_RANK_SAMPLES);    /* estimated bytes in use */
    double slack SA_GUARDED_BY(SA_RANK_SAMPLES);    /* of those: beyond the requested sizes */
    /* The last value seen of the high-water mark sa_in_use.peak. */
    int64_t seen_peak SA_GUARDED_BY(SA_RANK_SAMPLES);
    double peak_bytes SA_GUARDED_BY(SA_RANK_SAMPLES);
    uint64_t peak_number SA_GUARDED_BY(SA_RANK_SAMPLES); /* the newest sample at the peak */
    int64_t peak_time_ns SA_GUARDED_BY(SA_RANK_SAMPLES);
    uint8_t peaks SA_GUARDED_BY(SA_RANK_SAMPLES); /* times that the peak moved, modulo 256 */
} live;

SA_LAYOUT = {
    SA_LAYOUT_STATE("live_samples", live, count),
    SA_LAYOUT_STATE("live_samples", live, gone_count),
    SA_LAYOUT_STATE("live_samples", live, folded.count),
    SA_LAYOUT_STATE("live_samples", live, bytes),
    SA_LAYOUT_STATE("live_samples", live, slack),
    SA_LAYOUT_STATE("live_samples", live, peak_bytes),
    SA_LAYOUT_FIELD(struct live_samples, gone),
    SA_LAYOUT_FIELD(struct live_samples, folded),
    SA_LAYOUT_FIELD(struct live_samples, changes),
    SA_LAYOUT_FIELD(struct live_samples, count),
    SA_LAYOUT_FIELD(struct live_samples, newest),
    SA_LAYOUT_FIELD(struct live_samples, bytes),
    SA_LAYOUT_FIELD(struct live_samples, seen_peak),
    SA_LAYOUT_FIELD(struct live_samples, peak_number),
    SA_LAYOUT_FIELD(struct live_samples, peak_time_ns),
    SA_LAYOUT_FIELD(struct live_samples, peaks),
};
SA_LAYOUT_STATIC_ADDRESS("live_samples", live);

/* Gone samples of an earlier peak, to be released. */
struct past {
    struct sa_sample *list;
    struct sa_buckets buckets;
};

static void live_lock(void) SA_ACQUIRE(SA_RANK_SAMPLES)
{
    sa_lock_acquire(&live.lock, SA_RANK_SAMPLES);
}

static void live_unlock(void) SA_RELEASE(SA_RANK_SAMPLES)
{
    sa_lock_release(&live.lock, SA_RANK_SAMPLES);
}

static double sample_weight(const struct sa_sample *s)
{
    return (double)s->allocated / s->p;
}

/* Around changes of the gone samples of which readers without the lock must not see a part. */
static void live_change_begin(void) SA_REQUIRES(SA_RANK_SAMPLES)
{
    /* It is odd already in a child of a raw clone that began within a change. */
    sa_store_relaxed(&live.changes, (live.changes + 1) | 1);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static void live_change_end(void) SA_REQUIRES(SA_RANK_SAMPLES)
{
    sa_store_release(&live.changes, live.changes + 1);
}

/*
 * Adds up FOLDED gone samples in buckets, and frees their records; stops where the buckets have no
 * room. Records therefore stay close in number to the most samples ever live at once.
 */
SA_RARE SA_NOINLINE static void live_fold(void) SA_REQUIRES(SA_RANK_SAMPLES)
{
    int i = 0;

    SA_DCHECK(live.gone_count >= FOLDED);
    for (; i < FOLDED; i++) {
        struct sa_sample *s = live.gone;
        struct sa_bucket_key key = sa_sample_key(s);
        struct sa_bucket *bucket = sa_buckets_find(&live.folded, &key);

        if (!bucket)
            break;
        if (!i)
            live_change_begin();
        bucket->samples++;
        bucket->offsets += s->offset;
        bucket->hits += s->hits;
        sa_stack_unref(s->stack);
        live.gone = s->next;
        live.gone_count--;
        sa_sample_records_drop(s);
    }
    if (i)
        live_change_end();
}

static struct sa_sample *live_take(void) SA_REQUIRES(SA_RANK_SAMPLES)
{
    if (!sa_sample_records_unused() && SA_UNLIKELY(live.gone_count >= FOLDED))
        live_fold();
    return sa_sample_records_take();
}

struct sa_sample *sa_live_new(void)
{
    struct sa_sample *s;
    void *block;

    live_lock();
    s = live_take();
    live_unlock();
    if (s)
        return s;
    block = sa_sample_records_block();
    if (!block)
        return NULL;
    live_lock();
    sa_sample_records_add(block);
    s = sa_sample_records_take();
    live_unlock();
    return s;
}

SA_RARE void sa_live_drop(struct sa_sample *s)
{
    live_lock();
    sa_sample_records_drop(s);
    live_unlock();
}

/* Releases the gone samples of an earlier peak. The caller does not hold SAMPLES. */
static void live_forget(struct past *past)
{
    if (past->buckets.cap)
        sa_buckets_free(&past->buckets);
    while (past->list) {
        struct sa_sample *s = past->list;

        past->list = s->next;
        sa_stack_unref(s->stack);
        sa_live_drop(s);
    }
}

/* Sets the estimated bytes in use, here and for the footprint at the peak. */
static void live_bytes_changed(double bytes) SA_REQUIRES(SA_RANK_SAMPLES)
{
    live.bytes = bytes;
    sa_store_relaxed(&sa_peak.estimate_bytes, bytes > 0 ? (uint64_t)bytes : 0);
}

/* The estimated bytes beyond the requested sizes, of the blocks that the sample stands for. */
SA_INLINE double sample_slack(const struct sa_sample *s)
{
    return s->allocated > s->requested ? (double)(s->allocated - s->requested) / s->p : 0;
}

/* Moves the peak to this moment. *ret gets the gone samples of the earlier peak. */
static void live_move_peak(struct past *ret) SA_REQUIRES(SA_RANK_SAMPLES)
{
    live_change_begin();
    if (live.gone || live.folded.cap) {
        *ret = (struct past){live.gone, live.folded};
        live.gone = NULL;
        live.folded = (struct sa_buckets){0};
        live.gone_count = 0;
    }
    live.peak_bytes = live.bytes;
    live.peak_number = live.newest;
    sa_store_relaxed(&live.peaks, (uint8_t)(live.peaks + 1)); /* past ones are gone no longer */
    live.peak_time_ns = (int64_t)sa_clock_calendar_ns();
    live_change_end();
}

/*
 * Called before the list changes. If the high-water mark has risen since the list changed last, the
 * samples in the list were live at that peak, which moves here.
 */
static void live_look(struct past *ret) SA_REQUIRES(SA_RANK_SAMPLES)
{
    int64_t peak = sa_load_relaxed(&sa_in_use.peak);

    if (peak == live.seen_peak)
        return;
    live.seen_peak = peak;
    live_move_peak(ret);
}

void sa_live_add(struct sa_sample *s)
{
    struct sa_group group = {.p = s->p,
                             .interval = s->interval,
                             .allocated = (double)s->allocated,
                             .samples = 1,
                             .offsets = s->offset,
                             .hits = s->hits};
    struct past past = {0};

    live_lock();
    live_look(&past);
    s->number = ++live.newest;
    s->prev = NULL;
    s->next = live.first;
    if (s->next)
        s->next->prev = s;
    live.first = s;
    live.count++;
    live_bytes_changed(live.bytes + sample_weight(s));
    s->slack = sample_slack(s);
    live.slack += s->slack;
    if (sa_thread.caller_kind & SA_CALLER_RAISED)
        live_move_peak(&past);                     /* this block has raised the mark */
    if (SA_UNLIKELY(sa_recordings_want_frees())) { /* of lifetimes */
        s->time_ns = sa_clock_ns();
        sa_place_here(&s->place);
    }
    sa_sums_add(&s->stack->totals, &group);
    sa_recordings_allocated(s);
    sa_store_release(&s->state, SA_SAMPLE_LIVE);
    live_unlock();
    live_forget(&past);
}

SA_COLD void sa_live_set_requested(struct sa_sample *s, size_t requested)
{
    live_lock();
    live.slack -= s->slack;
    s->requested = requested;
    s->slack = sample_slack(s);
    live.slack += s->slack;
    live_unlock();
}

bool sa_live_wants_free_stacks(void)
{
    return sa_recordings_want_frees();
}

void sa_live_remove(struct sa_sample *s, struct sa_stack *free_stack)
{
    struct sa_stack *stack = s->stack;
    struct past past = {0};
    bool keep;

    live_lock();
    live_look(&past);
    if (s->next)
        s->next->prev = s->prev;
    if (s->prev)
        s->prev->next = s->next;
    else
        live.first = s->next;
    live.count--;
    /* Sums of doubles drift: without samples they are set to exactly 0. */
    live_bytes_changed(live.count ? live.bytes - sample_weight(s) : 0);
    live.slack = live.count ? live.slack - s->slack : 0;
    if (sa_recordings_want_frees())
        sa_recordings_freed(s, free_stack, sa_clock_ns());
    keep = s->number <= live.peak_number;
    if (keep) {
        s->peak = live.peaks;
        sa_store_release(&s->state, SA_SAMPLE_GONE);
        s->next = live.gone;
        live.gone = s;
        live.gone_count++;
    } else {
        sa_sample_records_drop(s);
    }
    live_unlock();
    live_forget(&past);
    if (!keep)
        sa_stack_unref(stack);
    if (free_stack)
        sa_stack_unref(free_stack);
}

/*
 * Maps memory for copies of all samples, and returns true with SAMPLES held. False, without
 * the lock, when out of memory. No analysis inside: it does not follow the result to the caller.
 */
SA_RARE static bool live_lock_to_copy(struct sa_copied *c)
    SA_TRY_ACQUIRE(true, SA_RANK_SAMPLES) SA_NO_THREAD_SAFETY_ANALYSIS
{
    for (;;) {
        struct sa_live_stats stats;
        size_t cap;

        sa_live_stats(&stats);
        cap = (stats.samples + stats.kept) * 9 / 8 + 64;
        c->mapped_bytes = sa_align_up(cap * sizeof(*c->samples), sa_max(sa_vm.page_bytes, 4096));
        c->samples = sa_vm_map(NULL, c->mapped_bytes, "salloc:profile");
        c->count = 0;
        if (!c->samples)
            return false;
        live_lock();
        if (live.count + live.gone_count + live.folded.count <= cap)
            return true;
        live_unlock();
        sa_vm_unmap(c->samples, c->mapped_bytes);
    }
}

SA_RARE bool sa_live_copy(bool peak, struct sa_copied *ret)
{
    struct past past = {0};

    live_lock();
    live_look(&past);
    live_unlock();
    live_forget(&past);
    if (!live_lock_to_copy(ret))
        return false;
    for (const struct sa_sample *s = live.first; s; s = s->next)
        if (!peak || s->number <= live.peak_number)
            sa_sample_copy_live(s, &ret->samples[ret->count++]);
    for (const struct sa_sample *s = peak ? live.gone : NULL; s; s = s->next)
        sa_sample_copy_gone(s, &ret->samples[ret->count++]);
    for (size_t i = 0; peak && i < live.folded.count; i++)
        sa_sample_copy_sums(&live.folded.buckets[i], &ret->samples[ret->count++]);
    ret->time_ns = live.peak_time_ns;
    live_unlock();
    return true;
}

SA_RARE void sa_live_unref_copied(struct sa_copied *c)
{
    for (size_t i = 0; i < c->count; i++) {
        sa_stack_unref(c->samples[i].key.stack);
        c->samples[i].key.stack = &sa_stack_unknown;
    }
}

SA_RARE void sa_live_free_copied(struct sa_copied *c)
{
    sa_live_unref_copied(c);
    if (c->samples)
        sa_vm_unmap(c->samples, c->mapped_bytes);
    *c = (struct sa_copied){0};
}

SA_RARE void sa_live_totals(void (*visit)(struct sa_stack *stack, void *arg), void *arg,
                            struct sa_sums *ret_evicted)
{
    live_lock();
    sa_stack_each(visit, arg, ret_evicted);
    live_unlock();
}

SA_RARE void sa_live_stats(struct sa_live_stats *ret)
{
    live_lock();
    ret->samples = live.count;
    ret->kept = live.gone_count + live.folded.count;
    ret->records = sa_sample_records_created();
    ret->bytes = live.bytes;
    ret->peak_bytes = live.peak_bytes;
    ret->slack_bytes = live.slack > 0 ? live.slack : 0;
    live_unlock();
}

SA_RARE static uint64_t live_start(enum salloc_profile_type type, struct sa_event_ring events)
{
    struct sa_recording r = {.type = type, .events = events};
    uint64_t handle;

    r.start_ns = (int64_t)sa_clock_calendar_ns();
    if (type == SALLOC_PROFILE_LIFETIMES)
        sa_place_learn_caches();
    live_lock();
    r.start_monotonic_ns = sa_clock_ns();
    r.since = live.newest;
    handle = sa_recordings_start(&r);
    live_unlock();
    return handle;
}

SA_RARE uint64_t sa_live_start(enum salloc_profile_type type)
{
    return live_start(type, (struct sa_event_ring){0});
}

SA_RARE uint64_t sa_live_start_events(const struct sa_event_ring *ring)
{
    return live_start(SALLOC_PROFILE_EVENTS, *ring);
}

SA_RARE enum sa_stop sa_live_stop(uint64_t handle, struct sa_recording *ret,
                                  struct sa_copied *ret_censored)
{
    enum sa_stop result = SA_STOP_NONE;
    struct sa_recording *r;

    if (!live_lock_to_copy(ret_censored))
        return SA_STOP_NO_MEMORY;
    r = sa_recordings_get(handle);
    if (r) {
        *ret = *r;
        for (const struct sa_sample *s = live.first;
             r->type == SALLOC_PROFILE_LIFETIMES && s && s->number > r->since; s = s->next)
            sa_sample_copy_live(s, &ret_censored->samples[ret_censored->count++]);
        sa_recordings_end(handle);
        result = SA_STOPPED;
    }
    live_unlock();
    if (!r)
        sa_live_free_copied(ret_censored);
    return result;
}

/* Checks one record of the list of live samples. before: the record in front of it, or NULL. */
static void validate_live(const struct sa_sample *s, const struct sa_sample *before)
    SA_REQUIRES(SA_RANK_SAMPLES)
{
    const struct sa_sample *back = sa_load_relaxed(&s->span->sample);

    SA_CHECK(s->prev == before);
    SA_CHECK(s->number > 0 && s->number <= live.newest);
    SA_CHECK(!before || s->number < before->number);
    SA_CHECK(!back || back == s); /* NULL: the block is being freed */
    SA_CHECK(s->stack && s->p > 0 && s->p <= 1 && s->state == SA_SAMPLE_LIVE);
}

SA_COLD void sa_live_samples_validate(void)
{
    const struct sa_sample *before = NULL;
    size_t count = 0, gone = 0, unused;

    live_lock();
    for (const struct sa_sample *s = live.first; s; before = s, s = s->next, count++)
        validate_live(s, before);
    for (const struct sa_sample *s = live.gone; s; s = s->next, gone++)
        SA_CHECK(s->stack && s->number > 0 && s->number <= live.peak_number &&
                 s->state == SA_SAMPLE_GONE && s->peak == live.peaks);
    unused = sa_sample_records_validate();
    SA_CHECK(count == live.count && gone == live.gone_count);
    SA_CHECK(count + gone + unused <= sa_sample_records_created()); /* others are being filled */
    SA_CHECK(live.peak_number <= live.newest);
    live_unlock();
}
