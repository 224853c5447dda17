/* SPDX-License-Identifier: Apache-2.0 */
/* The sample quarantine; see sample_quarantine.h. State: its counts and entries, under
 * SAMPLE_QUARANTINE unless a field says otherwise. */
#include "sampling/guard/sample_quarantine.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/layout.h"
#include "alloc/base/rng.h"
#include "alloc/base/sort.h"
#include "alloc/os/clock.h"
#include "alloc/os/lock.h"
#include "alloc/os/scratch.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/page_heap.h"

/*
 * When spans in quarantine release their memory. A released page costs a fault when it is used
 * again. For long blocks that cost is small beside the program's own use of the block, and they
 * hold much memory: spans above RELEASE_ABOVE are released when they enter. Every program has
 * samples of small blocks: spans of one page are released together once more than FULL_MAX are
 * backed, with one call for neighbours. Spans between the two stay backed.
 */
#define RELEASE_ABOVE 32768 /* bytes */
#define FULL_MAX      8     /* backed spans of one page */

#define EVICTED_MAX 8 /* spans that leave for one that enters */
#define PAUSE_NS    (10ull * 1000000000)

struct entry {
    /* NULL: the entry is free. Written under SAMPLE_QUARANTINE. Read also by the thread that
     * cleared `ready`. */
    struct sa_span *span;
    struct sa_block_history_slot history;
    uintptr_t start, end; /* of the span; atomic, relaxed: sa_sample_quarantine_find reads them */
    bool ready SA_GUARDED_BY(
        SA_RANK_SAMPLE_QUARANTINE); /* evictable; false while a thread changes its pages */
    bool unbacked SA_GUARDED_BY(SA_RANK_SAMPLE_QUARANTINE); /* the pages hold no memory */
};

static struct {
    struct sa_lock lock;
    uint64_t rng;       /* atomic */
    uint64_t pause_end; /* atomic, relaxed; in ns of the coarse clock */
    size_t limit;       /* bytes; const after init */
    uint64_t ever SA_GUARDED_BY(SA_RANK_SAMPLE_QUARANTINE); /* spans that entered since the start */
    size_t count SA_GUARDED_BY(SA_RANK_SAMPLE_QUARANTINE), bytes
        SA_GUARDED_BY(SA_RANK_SAMPLE_QUARANTINE);
    size_t empty_bytes SA_GUARDED_BY(SA_RANK_SAMPLE_QUARANTINE);
    size_t sampled_count SA_GUARDED_BY(SA_RANK_SAMPLE_QUARANTINE), sampled_bytes
        SA_GUARDED_BY(SA_RANK_SAMPLE_QUARANTINE);
    size_t full SA_GUARDED_BY(SA_RANK_SAMPLE_QUARANTINE);    /* backed spans of one page */
    bool releasing SA_GUARDED_BY(SA_RANK_SAMPLE_QUARANTINE); /* a thread is releasing those */
    /* Those are released from this value of `ever` on; later after the kernel refused. */
    uint64_t full_from SA_GUARDED_BY(SA_RANK_SAMPLE_QUARANTINE);
    /* Spans that the kernel refused to make accessible again, oldest first, to be tried again. They
     * are linked by `aside`: `next` belongs to the page heap, to which they are in use. */
    struct sa_span *refused SA_GUARDED_BY(SA_RANK_SAMPLE_QUARANTINE);
    struct sa_span *refused_last SA_GUARDED_BY(SA_RANK_SAMPLE_QUARANTINE);
    size_t refused_count
        SA_GUARDED_BY(SA_RANK_SAMPLE_QUARANTINE); /* atomic, relaxed: read without the lock */
    size_t refused_bytes SA_GUARDED_BY(SA_RANK_SAMPLE_QUARANTINE);
    size_t refused_sampled_count SA_GUARDED_BY(SA_RANK_SAMPLE_QUARANTINE);
    size_t refused_sampled_bytes SA_GUARDED_BY(SA_RANK_SAMPLE_QUARANTINE);
} quarantine;

/* Filled from the last one on, so that the entries of a small program share a page with the
 * variables behind them. */
static struct entry entries[SA_SAMPLE_QUARANTINE_MAX];

SA_LAYOUT = {
    SA_LAYOUT_STATE("sample_quarantine", quarantine, limit),
    SA_LAYOUT_STATE("sample_quarantine", quarantine, ever),
    SA_LAYOUT_STATE("sample_quarantine", quarantine, count),
    SA_LAYOUT_STATE("sample_quarantine", quarantine, bytes),
    SA_LAYOUT_STATE("sample_quarantine", quarantine, empty_bytes),
    SA_LAYOUT_STATE("sample_quarantine", quarantine, sampled_count),
    SA_LAYOUT_STATE("sample_quarantine", quarantine, sampled_bytes),
    SA_LAYOUT_STATE("sample_quarantine", quarantine, refused_count),
    SA_LAYOUT_STATE("sample_quarantine", quarantine, refused_bytes),
    SA_LAYOUT_STATE("sample_quarantine", quarantine, refused_sampled_count),
    SA_LAYOUT_STATE("sample_quarantine", quarantine, refused_sampled_bytes),
    SA_LAYOUT_SIZE(struct entry),
    SA_LAYOUT_FIELD(struct entry, span),
    SA_LAYOUT_FIELD(struct entry, history),
    SA_LAYOUT_FIELD(struct entry, start),
    SA_LAYOUT_FIELD(struct entry, end),
    SA_LAYOUT_VALUE(SA_SAMPLE_QUARANTINE_MAX),
};
SA_LAYOUT_STATIC_ADDRESS("sample_quarantine", quarantine);
SA_LAYOUT_STATIC_ADDRESS("kept.entries", entries);

static void quarantine_lock(void) SA_ACQUIRE(SA_RANK_SAMPLE_QUARANTINE)
{
    sa_lock_acquire(&quarantine.lock, SA_RANK_SAMPLE_QUARANTINE);
}

static void quarantine_unlock(void) SA_RELEASE(SA_RANK_SAMPLE_QUARANTINE)
{
    sa_lock_release(&quarantine.lock, SA_RANK_SAMPLE_QUARANTINE);
}

void sa_sample_quarantine_init(size_t bytes, uint64_t seed)
{
    quarantine.limit = bytes;
    quarantine.rng = sa_rng_mix(seed);
}

SA_COLD void sa_sample_quarantine_seed(uint64_t seed)
{
    quarantine.rng = sa_rng_mix(seed);
}

SA_RARE void sa_sample_quarantine_pause(void)
{
    sa_store_relaxed(&quarantine.pause_end, sa_clock_coarse_ns() + PAUSE_NS);
}

bool sa_sample_quarantine_paused(void)
{
    uint64_t end = sa_load_relaxed(&quarantine.pause_end);

    return (SA_UNLIKELY(end != 0) && sa_clock_coarse_ns() < end) || sa_limits_keep_all();
}

bool sa_sample_quarantine_wants(size_t bytes)
{
    return bytes <= quarantine.limit;
}

/* A copy of an evicted entry, whose span is returned without the lock. */
struct evicted {
    struct sa_span *span;
    struct sa_block_history history;
    bool unbacked;
};

/* True if a span has one page, of salloc or of the kernel. */
static bool span_is_short(const struct sa_span *span)
{
    return sa_span_bytes(span) <= sa_max(SA_PAGE_BYTES, sa_vm.page_bytes);
}

/* Adds an entry to the counts, or (more == false) subtracts it. */
static void quarantine_count(const struct entry *e, bool more)
    SA_REQUIRES(SA_RANK_SAMPLE_QUARANTINE)
{
    size_t one = more ? 1 : (size_t)-1, bytes = one * sa_span_bytes(e->span);

    SA_DCHECK_HELD(SA_RANK_SAMPLE_QUARANTINE);
    SA_DCHECK(e->end - e->start == sa_span_bytes(e->span) && (more || quarantine.count > 0));
    quarantine.count += one;
    quarantine.bytes += bytes;
    if (e->unbacked)
        quarantine.empty_bytes += bytes;
    else if (span_is_short(e->span))
        quarantine.full += one;
    if (e->span->heap == SA_HEAP_SAMPLED) {
        quarantine.sampled_count += one;
        quarantine.sampled_bytes += bytes;
    }
    SA_DCHECK(quarantine.count <= SA_SAMPLE_QUARANTINE_MAX);
    SA_DCHECK(quarantine.bytes <= quarantine.limit);
    SA_DCHECK(quarantine.empty_bytes <= quarantine.bytes);
    SA_DCHECK(quarantine.sampled_count <= quarantine.count);
    SA_DCHECK(quarantine.full <= quarantine.count);
}

/* Frees an entry; *ret owns its span and references then. */
SA_RARE static void entry_evict(struct entry *e, struct evicted *ret)
    SA_REQUIRES(SA_RANK_SAMPLE_QUARANTINE)
{
    quarantine_count(e, false);
    *ret = (struct evicted){e->span, e->history.history, e->unbacked};
    sa_block_history_write(&e->history, &(struct sa_block_history){0});
    sa_store_relaxed(&e->end, 0);
    e->span = NULL;
    e->ready = false;
}

static struct sa_page_heap *heap_of(const struct sa_span *span)
{
    return span->heap == SA_HEAP_SAMPLED ? &sa_page_heap_sampled : &sa_page_heap_ordinary;
}

static void span_free(struct sa_span *span, bool unbacked)
{
    SA_DCHECK(sa_load_relaxed(&span->state) == SA_SPAN_QUARANTINED);
    sa_store_relaxed(&span->state, SA_SPAN_LARGE);
    sa_page_heap_free(heap_of(span), span, unbacked);
}

/* Adds a refused span to the counts, or (more == false) subtracts it. */
SA_RARE static void refused_count(const struct sa_span *span, bool more)
    SA_REQUIRES(SA_RANK_SAMPLE_QUARANTINE)
{
    size_t one = more ? 1 : (size_t)-1, sampled = span->heap == SA_HEAP_SAMPLED ? one : 0;

    SA_DCHECK_HELD(SA_RANK_SAMPLE_QUARANTINE);
    SA_DCHECK(more || quarantine.refused_count > 0);
    sa_store_relaxed(&quarantine.refused_count, quarantine.refused_count + one);
    quarantine.refused_bytes += one * sa_span_bytes(span);
    quarantine.refused_sampled_count += sampled;
    quarantine.refused_sampled_bytes += sampled * sa_span_bytes(span);
}

/*
 * Makes a span accessible, and returns it to its page heap. False: the kernel refused, and the span
 * is put aside. It is then unbacked and wholly inaccessible, because accessible pages count as data
 * (RLIMIT_DATA), of which there may be too much.
 */
SA_RARE static bool span_give_back(struct sa_span *span)
{
    if (sa_vm_protect((void *)span->start, sa_span_bytes(span), true)) {
        span_free(span, span->zeroed);
        return true;
    }
    sa_vm_protect((void *)span->start, sa_span_bytes(span), false);
    span->zeroed |= sa_vm_release((void *)span->start, sa_span_bytes(span));
    if (span->zeroed)
        sa_page_heap_emptied(heap_of(span), span);
    span->aside = NULL;
    quarantine_lock();
    if (quarantine.refused)
        quarantine.refused_last->aside = span;
    else
        quarantine.refused = span;
    quarantine.refused_last = span;
    refused_count(span, true);
    quarantine_unlock();
    return false;
}

/* Takes the oldest refused span; NULL: there is none. */
static struct sa_span *take_refused(void)
{
    struct sa_span *span;

    quarantine_lock();
    span = quarantine.refused;
    if (span) {
        quarantine.refused = span->aside;
        refused_count(span, false);
    }
    quarantine_unlock();
    return span;
}

SA_RARE void sa_sample_quarantine_return(struct sa_span *span, bool unbacked)
{
    sa_store_relaxed(&span->state, SA_SPAN_QUARANTINED);
    span->zeroed = unbacked;
    span_give_back(span);
}

SA_RARE static void evicted_free(const struct evicted *v)
{
    sa_block_history_drop(&v->history);
    sa_sample_quarantine_return(v->span, v->unbacked);
}

bool sa_sample_quarantine_retry(bool all)
{
    size_t n = sa_load_relaxed(&quarantine.refused_count);
    bool done = true;

    for (; SA_UNLIKELY(n != 0) && (all || done); n--) {
        struct sa_span *span = take_refused();

        if (!span)
            break;
        done &= span_give_back(span);
    }
    return done;
}

/* Finds a free entry for a span of `bytes`, and evicts entries at random where there is no room.
 * NULL: there is no room. *ret_count: the evicted entries, in either case. */
static struct entry *quarantine_make_room(size_t bytes, struct evicted *evicted,
                                          unsigned *ret_count)
    SA_REQUIRES(SA_RANK_SAMPLE_QUARANTINE)
{
    bool full =
        quarantine.count == SA_SAMPLE_QUARANTINE_MAX || quarantine.bytes + bytes > quarantine.limit;
    size_t at = full ? sa_rng_next(&quarantine.rng) % SA_SAMPLE_QUARANTINE_MAX
                     : SA_SAMPLE_QUARANTINE_MAX - 1;
    struct entry *place = NULL;
    unsigned n = 0;

    SA_DCHECK_HELD(SA_RANK_SAMPLE_QUARANTINE);
    for (size_t i = 0; i < SA_SAMPLE_QUARANTINE_MAX;
         i++, at = at ? at - 1 : SA_SAMPLE_QUARANTINE_MAX - 1) {
        struct entry *e = &entries[at];

        if (e->span && e->ready && n < EVICTED_MAX &&
            (quarantine.count == SA_SAMPLE_QUARANTINE_MAX ||
             quarantine.bytes + bytes > quarantine.limit))
            entry_evict(e, &evicted[n++]);
        if (!e->span && !place)
            place = e;
        if (place && quarantine.bytes + bytes <= quarantine.limit)
            break;
    }
    *ret_count = n;
    return quarantine.bytes + bytes <= quarantine.limit ? place : NULL;
}

static bool entry_precedes(const void *a, const void *b)
{
    return (*(struct entry *const *)a)->start < (*(struct entry *const *)b)->start;
}

/* Collects the backed spans of one page, sorted by address. They cannot be evicted until
 * set_unbacked. Returns their number; 0 also if another thread is releasing them. */
static size_t take_full(struct entry **ret)
{
    size_t n = 0;

    quarantine_lock();
    for (size_t i = 0; i < SA_SAMPLE_QUARANTINE_MAX && !quarantine.releasing; i++) {
        struct entry *e = &entries[i];

        if (e->span && e->ready && !e->unbacked && span_is_short(e->span)) {
            e->ready = false;
            ret[n++] = e;
        }
    }
    quarantine.releasing |= n != 0;
    quarantine_unlock();
    sa_sort(ret, n, sizeof(*ret), entry_precedes);
    return n;
}

/* Ends take_full: the first `released` of the n entries were released. */
static void set_unbacked(struct entry **taken, size_t n, size_t released)
{
    for (size_t i = 0; i < released; i++)
        sa_page_heap_emptied(heap_of(taken[i]->span), taken[i]->span);
    quarantine_lock();
    SA_DCHECK(quarantine.releasing);
    for (size_t i = 0; i < n; i++) {
        SA_DCHECK(taken[i]->span && !taken[i]->ready);
        quarantine_count(taken[i], false);
        taken[i]->unbacked = i < released;
        quarantine_count(taken[i], true);
        taken[i]->ready = true;
    }
    quarantine.releasing = false;
    if (released < n)
        quarantine.full_from = quarantine.ever + SA_SAMPLE_QUARANTINE_MAX;
    quarantine_unlock();
}

/* Releases the backed spans of one page, with one call for each run of neighbours. */
SA_NOINLINE static void release_short(void)
{
    struct entry **full = sa_scratch_take();
    size_t n, released = 0, next;
    bool done = true;

    if (!full) /* the next span that enters tries again */
        return;
    n = take_full(full);
    while (done && released < n) {
        uintptr_t start = full[released]->start, end = full[released]->end;

        for (next = released + 1; next < n && full[next]->start == end; next++)
            end = full[next]->end;
        done = sa_vm_release((void *)start, end - start);
        if (done)
            released = next;
    }
    if (n)
        set_unbacked(full, n, released);
    sa_scratch_give(full);
}

/* As sa_sample_quarantine_put. evicted: room for EVICTED_MAX. *ret_full: release_short is due. */
static bool quarantine_put(struct sa_span *span, const struct sa_block_history *history,
                           bool unbacked, struct evicted *evicted, bool *ret_full)
{
    size_t bytes = sa_span_bytes(span);
    struct entry *e;
    bool done;
    unsigned n;

    quarantine_lock();
    e = quarantine_make_room(bytes, evicted, &n);
    if (e) {
        SA_DCHECK(!e->span && !e->ready);
        e->span = span;
        e->unbacked = unbacked || bytes > RELEASE_ABOVE;
        sa_store_relaxed(&e->start, span->start);
        sa_store_relaxed(&e->end, span->start + bytes);
        sa_block_history_write(&e->history, history);
        quarantine_count(e, true);
        quarantine.ever++;
    }
    quarantine_unlock();
    for (unsigned i = 0; i < n; i++)
        evicted_free(&evicted[i]);
    if (!e)
        return false;
    sa_store_relaxed(&span->state, SA_SPAN_QUARANTINED);
    done = sa_vm_protect((void *)span->start, bytes, false) &&
           (unbacked || bytes <= RELEASE_ABOVE || sa_vm_release((void *)span->start, bytes));
    if (done && (unbacked || bytes > RELEASE_ABOVE))
        sa_page_heap_emptied(heap_of(span), span);
    quarantine_lock();
    SA_DCHECK(e->span == span && !e->ready);
    e->ready = true;
    if (!done)
        entry_evict(e, &evicted[0]);
    *ret_full = quarantine.full > FULL_MAX && !quarantine.releasing &&
                quarantine.ever >= quarantine.full_from;
    quarantine_unlock();
    if (!done) { /* locked memory, or too many mappings: the span goes back to its page heap */
        evicted[0].unbacked = unbacked;
        evicted_free(&evicted[0]);
    }
    return true;
}

bool sa_sample_quarantine_put(struct sa_span *span, const struct sa_block_history *history,
                              bool unbacked)
{
    struct evicted *evicted;
    bool done, full = false;

    sa_sample_quarantine_retry(false);
    if (sa_sample_quarantine_paused())
        return false;
    evicted = sa_scratch_take();
    done = evicted && quarantine_put(span, history, unbacked, evicted, &full);
    sa_scratch_give(evicted);
    if (full)
        release_short();
    return done;
}

SA_RARE void sa_sample_quarantine_flush(void)
{
    sa_sample_quarantine_retry(true);
    for (size_t i = 0; i < SA_SAMPLE_QUARANTINE_MAX; i++) {
        struct entry *e = &entries[i];
        struct evicted evicted;
        bool taken = false;

        quarantine_lock();
        if (e->span && e->ready) {
            entry_evict(e, &evicted);
            taken = true;
        }
        quarantine_unlock();
        if (taken)
            evicted_free(&evicted);
    }
}

SA_RARE bool sa_sample_quarantine_find(uintptr_t address, struct sa_lookup *ret)
{
    for (size_t i = 0; i < SA_SAMPLE_QUARANTINE_MAX; i++) {
        const struct entry *e = &entries[i];

        if (address >= sa_load_relaxed(&e->start) && address < sa_load_relaxed(&e->end) &&
            sa_block_history_read(&e->history, &ret->history)) {
            ret->state = SA_LOOKUP_FREED;
            ret->between = false;
            return true;
        }
    }
    return false;
}

SA_RARE void sa_sample_quarantine_stats(struct sa_sample_quarantine_stats *ret)
{
    quarantine_lock();
    ret->ever = quarantine.ever;
    ret->spans = quarantine.count + quarantine.refused_count;
    ret->bytes = quarantine.bytes + quarantine.refused_bytes;
    ret->empty_bytes = quarantine.empty_bytes;
    ret->sampled_spans = quarantine.sampled_count + quarantine.refused_sampled_count;
    ret->sampled_bytes = quarantine.sampled_bytes + quarantine.refused_sampled_bytes;
    ret->limit_bytes = quarantine.limit;
    quarantine_unlock();
}
