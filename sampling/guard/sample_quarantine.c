/* SPDX-License-Identifier: Apache-2.0 */
/* Freed pages that are kept inaccessible; see sample_quarantine.h. */
#include "sampling/guard/sample_quarantine.h"

#include "alloc/base/bits.h"
#include "alloc/base/layout.h"
#include "alloc/base/rng.h"
#include "alloc/base/sort.h"
#include "alloc/os/clock.h"
#include "alloc/os/lock.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/page_heap.h"

/*
 * Who gives memory up. A page that was released costs a fault when it is used again: for samples of
 * long blocks that is a part of what the program itself does with them, and what they hold would be
 * much. Those of small blocks come in all programs: together they give it up, with one call for
 * neighbours. In between spans keep it.
 */
#define EMPTY_ABOVE 32768 /* bytes: when they are kept */
#define FULL_MAX    8     /* short ones: when there are more */

#define VICTIMS  8 /* at most so many go for one that comes */
#define PAUSE_NS (10ull * 1000000000)

struct entry {
    struct sa_span *span; /* KEPT; NULL: no entry */
    struct sa_block_history_slot history;
    uintptr_t start, end; /* atomic, for readers without the lock */
    bool ready;           /* KEPT: may be chosen to go */
    bool empty;
};

static struct {
    struct sa_lock lock;
    uint64_t rng;       /* atomic */
    uint64_t pause_end; /* atomic, relaxed; by the coarse clock */
    size_t limit;       /* const after init */
    uint64_t ever;
    size_t count, bytes, empty_bytes, sampled_count, sampled_bytes;
    size_t full;        /* short ones that hold memory */
    bool emptying;      /* somebody is about to change that */
    uint64_t full_from; /* `ever` from which on it is tried: later when the kernel refused */
    /* Those that could not be made accessible again, to be tried again, the longest waiting first:
     * linked by aside (next is the page heap's, for which the span is in use). */
    struct sa_span *refused, *refused_last;
    size_t refused_count; /* KEPT; atomic, for a look without it */
    size_t refused_bytes, refused_sampled_count, refused_sampled_bytes;
} kept;

/* Taken from the last one on: those of a small program share a page with what lies behind them. */
static struct entry entries[SA_SAMPLE_QUARANTINE_MAX];

SA_LAYOUT = {
    SA_LAYOUT_SIZE(struct entry),           SA_LAYOUT_FIELD(struct entry, span),
    SA_LAYOUT_FIELD(struct entry, history), SA_LAYOUT_FIELD(struct entry, start),
    SA_LAYOUT_FIELD(struct entry, end),     SA_LAYOUT_VALUE(SA_SAMPLE_QUARANTINE_MAX),
};
SA_LAYOUT_STATIC_ADDRESS("kept.entries", entries);

static void kept_lock(void) SA_ACQUIRE(SA_RANK_KEPT)
{
    sa_lock_acquire(&kept.lock, SA_RANK_KEPT);
}

static void kept_unlock(void) SA_RELEASE(SA_RANK_KEPT)
{
    sa_lock_release(&kept.lock, SA_RANK_KEPT);
}

void sa_sample_quarantine_init(size_t bytes, uint64_t seed)
{
    kept.limit = bytes;
    kept.rng = sa_rng_mix(seed);
}

SA_COLD void sa_sample_quarantine_seed(uint64_t seed)
{
    kept.rng = sa_rng_mix(seed);
}

SA_RARE void sa_sample_quarantine_pause(void)
{
    sa_store_relaxed(&kept.pause_end, sa_clock_coarse_ns() + PAUSE_NS);
}

bool sa_sample_quarantine_paused(void)
{
    uint64_t end = sa_load_relaxed(&kept.pause_end);

    return SA_UNLIKELY(end != 0) && sa_clock_coarse_ns() < end;
}

bool sa_sample_quarantine_wants(size_t bytes)
{
    return bytes <= kept.limit;
}

/* What an entry was, for its span to be given back without the lock. */
struct victim {
    struct sa_span *span;
    struct sa_block_history history;
    bool empty;
};

static bool span_is_short(const struct sa_span *span)
{
    return sa_span_bytes(span) <= sa_max(SA_PAGE_BYTES, sa_vm.page_bytes);
}

static void kept_count(const struct entry *e, bool more)
{
    size_t one = more ? 1 : (size_t)-1, bytes = one * sa_span_bytes(e->span);

    kept.count += one;
    kept.bytes += bytes;
    if (e->empty)
        kept.empty_bytes += bytes;
    else if (span_is_short(e->span))
        kept.full += one;
    if (e->span->heap == SA_HEAP_SAMPLED) {
        kept.sampled_count += one;
        kept.sampled_bytes += bytes;
    }
}

SA_RARE static void entry_take_out(struct entry *e, struct victim *ret)
{
    kept_count(e, false);
    *ret = (struct victim){e->span, e->history.history, e->empty};
    sa_block_history_write(&e->history, &(struct sa_block_history){0});
    sa_store_relaxed(&e->end, 0);
    e->span = NULL;
    e->ready = false;
}

static struct sa_page_heap *heap_of(const struct sa_span *span)
{
    return span->heap == SA_HEAP_SAMPLED ? &sa_page_heap_sampled : &sa_page_heap_ordinary;
}

static void span_free(struct sa_span *span, bool empty)
{
    sa_store_relaxed(&span->state, SA_SPAN_LARGE);
    sa_page_heap_free(heap_of(span), span, empty);
}

/* A span is put aside, or no more. KEPT. */
SA_RARE static void refused_count(const struct sa_span *span, bool more)
{
    size_t one = more ? 1 : (size_t)-1, sampled = span->heap == SA_HEAP_SAMPLED ? one : 0;

    sa_store_relaxed(&kept.refused_count, kept.refused_count + one);
    kept.refused_bytes += one * sa_span_bytes(span);
    kept.refused_sampled_count += sampled;
    kept.refused_sampled_bytes += sampled * sa_span_bytes(span);
}

/* False: the kernel refused, and the span is put aside: without memory, and all of it inaccessible,
 * as what is accessible counts as data, of which there may be too much. */
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
    kept_lock();
    if (kept.refused)
        kept.refused_last->aside = span;
    else
        kept.refused = span;
    kept.refused_last = span;
    refused_count(span, true);
    kept_unlock();
    return false;
}

static struct sa_span *take_refused(void)
{
    struct sa_span *span;

    kept_lock();
    span = kept.refused;
    if (span) {
        kept.refused = span->aside;
        refused_count(span, false);
    }
    kept_unlock();
    return span;
}

SA_RARE void sa_sample_quarantine_return(struct sa_span *span, bool empty)
{
    sa_store_relaxed(&span->state, SA_SPAN_KEPT);
    span->zeroed = empty;
    span_give_back(span);
}

SA_RARE static void victim_free(const struct victim *v)
{
    sa_block_history_drop(&v->history);
    sa_sample_quarantine_return(v->span, v->empty);
}

bool sa_sample_quarantine_retry(bool all)
{
    size_t n = sa_load_relaxed(&kept.refused_count);
    bool done = true;

    for (; SA_UNLIKELY(n != 0) && (all || done); n--) {
        struct sa_span *span = take_refused();

        if (!span)
            break;
        done &= span_give_back(span);
    }
    return done;
}

/* A place for a span of so many bytes: an entry without a span, and who has to go for it. NULL:
 * there is none. */
static struct entry *kept_make_room(size_t bytes, struct victim *victims, unsigned *ret_count)
{
    bool full = kept.count == SA_SAMPLE_QUARANTINE_MAX || kept.bytes + bytes > kept.limit;
    size_t at =
        full ? sa_rng_next(&kept.rng) % SA_SAMPLE_QUARANTINE_MAX : SA_SAMPLE_QUARANTINE_MAX - 1;
    struct entry *place = NULL;
    unsigned n = 0;

    for (size_t i = 0; i < SA_SAMPLE_QUARANTINE_MAX;
         i++, at = at ? at - 1 : SA_SAMPLE_QUARANTINE_MAX - 1) {
        struct entry *e = &entries[at];

        if (e->span && e->ready && n < VICTIMS &&
            (kept.count == SA_SAMPLE_QUARANTINE_MAX || kept.bytes + bytes > kept.limit))
            entry_take_out(e, &victims[n++]);
        if (!e->span && !place)
            place = e;
        if (place && kept.bytes + bytes <= kept.limit)
            break;
    }
    *ret_count = n;
    return kept.bytes + bytes <= kept.limit ? place : NULL;
}

static bool entry_precedes(const void *a, const void *b)
{
    return (*(struct entry *const *)a)->start < (*(struct entry *const *)b)->start;
}

/* Short spans that hold memory, by address: they cannot be chosen to go until kept_emptied. 0:
 * somebody else is at it. */
static size_t kept_take_full(struct entry **ret)
{
    size_t n = 0;

    kept_lock();
    for (size_t i = 0; i < SA_SAMPLE_QUARANTINE_MAX && !kept.emptying; i++) {
        struct entry *e = &entries[i];

        if (e->span && e->ready && !e->empty && span_is_short(e->span)) {
            e->ready = false;
            ret[n++] = e;
        }
    }
    kept.emptying |= n != 0;
    kept_unlock();
    sa_sort(ret, n, sizeof(*ret), entry_precedes);
    return n;
}

/* The first of them were emptied. */
static void kept_emptied(struct entry **taken, size_t n, size_t emptied)
{
    for (size_t i = 0; i < emptied; i++)
        sa_page_heap_emptied(heap_of(taken[i]->span), taken[i]->span);
    kept_lock();
    for (size_t i = 0; i < n; i++) {
        kept_count(taken[i], false);
        taken[i]->empty = i < emptied;
        kept_count(taken[i], true);
        taken[i]->ready = true;
    }
    kept.emptying = false;
    if (emptied < n)
        kept.full_from = kept.ever + SA_SAMPLE_QUARANTINE_MAX;
    kept_unlock();
}

SA_NOINLINE static void kept_empty_short(void)
{
    struct entry *full[SA_SAMPLE_QUARANTINE_MAX];
    size_t n = kept_take_full(full), emptied = 0, next;
    bool done = true;

    while (done && emptied < n) {
        uintptr_t start = full[emptied]->start, end = full[emptied]->end;

        for (next = emptied + 1; next < n && full[next]->start == end; next++)
            end = full[next]->end;
        done = sa_vm_release((void *)start, end - start);
        if (done)
            emptied = next;
    }
    if (n)
        kept_emptied(full, n, emptied);
}

bool sa_sample_quarantine_put(struct sa_span *span, const struct sa_block_history *history,
                              bool empty)
{
    size_t bytes = sa_span_bytes(span);
    struct victim victims[VICTIMS];
    struct entry *e;
    bool done, full;
    unsigned n;

    sa_sample_quarantine_retry(false);
    if (sa_sample_quarantine_paused())
        return false;
    kept_lock();
    e = kept_make_room(bytes, victims, &n);
    if (e) {
        e->span = span;
        e->empty = empty || bytes > EMPTY_ABOVE;
        sa_store_relaxed(&e->start, span->start);
        sa_store_relaxed(&e->end, span->start + bytes);
        sa_block_history_write(&e->history, history);
        kept_count(e, true);
        kept.ever++;
    }
    kept_unlock();
    for (unsigned i = 0; i < n; i++)
        victim_free(&victims[i]);
    if (!e)
        return false;
    sa_store_relaxed(&span->state, SA_SPAN_KEPT);
    done = sa_vm_protect((void *)span->start, bytes, false) &&
           (empty || bytes <= EMPTY_ABOVE || sa_vm_release((void *)span->start, bytes));
    if (done && (empty || bytes > EMPTY_ABOVE))
        sa_page_heap_emptied(heap_of(span), span);
    kept_lock();
    e->ready = true;
    if (!done)
        entry_take_out(e, &victims[0]);
    full = kept.full > FULL_MAX && !kept.emptying && kept.ever >= kept.full_from;
    kept_unlock();
    if (!done) { /* locked memory, or too many mappings: as if it had never been kept */
        victims[0].empty = empty;
        victim_free(&victims[0]);
    }
    if (full)
        kept_empty_short();
    return true;
}

SA_RARE void sa_sample_quarantine_flush(void)
{
    sa_sample_quarantine_retry(true);
    for (size_t i = 0; i < SA_SAMPLE_QUARANTINE_MAX; i++) {
        struct entry *e = &entries[i];
        struct victim victim;
        bool taken = false;

        kept_lock();
        if (e->span && e->ready) {
            entry_take_out(e, &victim);
            taken = true;
        }
        kept_unlock();
        if (taken)
            victim_free(&victim);
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
    kept_lock();
    ret->ever = kept.ever;
    ret->spans = kept.count + kept.refused_count;
    ret->bytes = kept.bytes + kept.refused_bytes;
    ret->empty_bytes = kept.empty_bytes;
    ret->sampled_spans = kept.sampled_count + kept.refused_sampled_count;
    ret->sampled_bytes = kept.sampled_bytes + kept.refused_sampled_bytes;
    ret->limit_bytes = kept.limit;
    kept_unlock();
}
