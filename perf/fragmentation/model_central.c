/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The central free lists of the model (model.h), by the rules of alloc/middle/central_free_list.c
 * and central_mix.c: the fullest span first, runs of new spans, and when classes take blocks from
 * mixed spans. A class may also borrow objects of longer classes, which salloc does not do.
 */
#include "perf/fragmentation/model.h"

#include <stdlib.h>
#include <string.h>

#define LISTS    8
#define NEW_LIST (LISTS - 1)
#define NO_LIST  LISTS

#define DENSE_OBJECTS  16
#define FRESH_FRACTION 16
#define FRESH_OBJECTS  4
#define RUN_FRACTION   32
#define RUN_MAX        16
#define MIXED_MAX      32768

#define SPAN_WORDS 8 /* the most objects of a span are 512, of 16 bytes */

struct span {
    uint32_t page;
    uint16_t live, objects;
    uint8_t cls, list;
    struct span *next, *prev;
    uint64_t free[SPAN_WORDS];
};

static struct central {
    struct span *lists[LISTS];
    size_t free_objects, spans, fresh, fresh_min;
} centrals[SA_CLASSES_MAX];

static struct span *spans[PAGES_MAX], *unused;
static size_t unshaken, shakes, spans_now, spans_max;

static unsigned list_for(const struct span *s)
{
    unsigned live = s->live;

    if (live == s->objects)
        return NO_LIST;
    if (!live)
        return NEW_LIST;
    return NEW_LIST - (unsigned)sa_min(s->objects <= 16 ? live : sa_log2(live) + 1, NEW_LIST);
}

static void unlink_span(struct central *c, struct span *s)
{
    if (s->list == NO_LIST)
        return;
    if (s->next)
        s->next->prev = s->prev;
    if (s->prev)
        s->prev->next = s->next;
    else
        c->lists[s->list] = s->next;
    c->fresh -= s->list == NEW_LIST;
    s->list = NO_LIST;
}

static void link_span(struct central *c, struct span *s)
{
    s->list = (uint8_t)list_for(s);
    if (s->list == NO_LIST)
        return;
    s->prev = NULL;
    s->next = c->lists[s->list];
    if (s->next)
        s->next->prev = s;
    c->lists[s->list] = s;
    c->fresh += s->list == NEW_LIST;
}

static void place(struct central *c, struct span *s)
{
    if (list_for(s) == s->list)
        return;
    unlink_span(c, s);
    link_span(c, s);
}

static struct span *first_span(const struct central *c)
{
    for (int i = 0; i < LISTS; i++)
        if (c->lists[i])
            return c->lists[i];
    return NULL;
}

bool central_has(unsigned cls)
{
    const struct span *s = first_span(&centrals[cls]);

    return s && s->live;
}

static struct span *new_span(unsigned cls)
{
    const struct sa_class *k = &sa_size_classes.of[cls];
    bool aligned = k->map_step == SA_PAGE_BYTES && sa_is_pow2(k->pages);
    struct span *s = unused;

    if (s)
        unused = s->next;
    else if (!(s = malloc(sizeof(*s))))
        abort();
    *s = (struct span){.objects = k->objects, .cls = (uint8_t)cls, .list = NO_LIST};
    s->page = pages_take(k->pages, aligned ? k->pages : 1, k->objects > DENSE_OBJECTS);
    for (size_t i = 0; i < k->objects; i++)
        s->free[i / 64] |= 1ull << i % 64;
    for (size_t i = 0; i < k->pages; i++)
        spans[s->page + i] = s;
    spans_max = sa_max(spans_max, ++spans_now);
    return s;
}

/* Takes a span off its class. The record is reused. */
static void drop_record(struct central *c, struct span *s)
{
    unlink_span(c, s);
    c->free_objects -= (size_t)(s->objects - s->live);
    c->spans--;
    for (size_t i = 0; i < sa_size_classes.of[s->cls].pages; i++)
        spans[s->page + i] = NULL;
    s->next = unused;
    unused = s;
    spans_now--;
}

static void drop_span(struct central *c, struct span *s)
{
    drop_record(c, s);
    pages_put(s->page, sa_size_classes.of[s->cls].pages);
}

static size_t run_length(const struct central *c, unsigned cls)
{
    if (sa_size_classes.of[cls].objects <= DENSE_OBJECTS || !params.run)
        return 1;
    return sa_min(sa_max(c->spans / RUN_FRACTION, 1), RUN_MAX);
}

static size_t grow(struct central *c, unsigned cls)
{
    size_t run = run_length(c, cls);
    struct span *made[RUN_MAX];

    for (size_t i = 0; i < run; i++)
        made[i] = new_span(cls);
    for (size_t i = run; i--;)
        link_span(c, made[i]);
    c->spans += run;
    c->free_objects += run * sa_size_classes.of[cls].objects;
    return run;
}

/* --- When classes take blocks from mixed spans --- */

size_t central_free_bytes(void)
{
    size_t bytes = 0;

    for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
        bytes += centrals[cls].free_objects * sa_size_classes.of[cls].size;
    return bytes;
}

static bool is_much(size_t wasted)
{
    double part = mixed_is_returning() ? params.returns_waste : params.waste;

    return (double)wasted > params.floor_bytes &&
           (double)wasted > (double)sa_max((size_t)given_bytes, 0) * part;
}

static bool mix_is_due(void)
{
    size_t used = (pages.used + pages.large) * SA_PAGE_BYTES;
    size_t footprint = used + (pages.free + pages.large_free) * SA_PAGE_BYTES;
    size_t given = (size_t)sa_max((size_t)given_bytes, 0);

    if (used <= given || (double)(used - given) <= params.floor_bytes)
        return false;
    return is_much(footprint - sa_min(footprint, given)) &&
           is_much(central_free_bytes() + mixed.bytes - mixed.used +
                   sa_min(pages.between * SA_PAGE_BYTES, mixed.used));
}

/* Makes a mixed span of the span that has the smallest part in use. False: none is sparse. */
static bool convert(void)
{
    double least = 1;
    struct span *best = NULL;

    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        const struct sa_class *k = &sa_size_classes.of[cls];

        if (k->objects == 1 || k->size > MIXED_MAX)
            continue;
        for (unsigned list = NEW_LIST; list--;) {
            struct span *s = centrals[cls].lists[list];
            unsigned step = NEW_LIST - list;
            double live = k->objects <= 16 ? step : (1u << step) - 1;

            if (!s)
                continue;
            if (live / k->objects < least && live <= params.sparse * k->objects) {
                least = live / k->objects;
                best = s;
            }
            break;
        }
    }
    if (!best || best->live > params.sparse * best->objects)
        return false;

    uint64_t free[SPAN_WORDS];
    uint32_t page = best->page;
    unsigned cls = best->cls;

    memcpy(free, best->free, sizeof(free));
    drop_record(&centrals[cls], best);
    mixed_begin(page, sa_size_classes.of[cls].pages, cls, free);
    return true;
}

static size_t take_mixed(unsigned cls, uint32_t *units, size_t n)
{
    size_t got;

    if (!params.mixed || sa_size_classes.of[cls].size > MIXED_MAX || !mix_is_due())
        return 0;
    pages_lean();
    got = mixed_take(cls, units, n);
    for (int i = 0; !got && i < (int)params.convert && convert(); i++)
        got = mixed_take(cls, units, n);
    if (!got) {
        units[0] = mixed_fresh(cls);
        got = 1;
    }
    unshaken += got * sa_size_classes.of[cls].size;
    return got;
}

bool central_shake_is_due(void)
{
    if ((double)unshaken < params.shake_bytes)
        return false;
    unshaken = 0;
    shakes++;
    return true;
}

bool central_drain_is_due(size_t cache_bytes)
{
    if (!params.drain ||
        (double)shakes < params.drain * (double)cache_bytes / params.shake_bytes + 1)
        return false;
    shakes = 0;
    return true;
}

/* --- Objects --- */

static size_t take_from(struct central *c, struct span *s, uint32_t *units, size_t n)
{
    size_t got = 0, step = sa_size_classes.of[s->cls].size / UNIT;

    for (size_t w = 0; w < SPAN_WORDS && got < n; w++)
        for (; s->free[w] && got < n; s->free[w] &= s->free[w] - 1)
            units[got++] =
                (uint32_t)(s->page * PAGE_UNITS + (w * 64 + sa_lowest_bit(s->free[w])) * step);
    s->live = (uint16_t)(s->live + got);
    c->free_objects -= got;
    place(c, s);
    c->fresh_min = sa_min(c->fresh_min, c->fresh);
    return got;
}

size_t central_take(unsigned cls, uint32_t *units, size_t n)
{
    struct central *c = &centrals[cls];
    size_t got = 0, fresh = 0;

    while (got < n) {
        struct span *s = first_span(c);
        size_t made;

        if (!s && got &&
            ((fresh + 1) * FRESH_FRACTION > c->spans ||
             sa_size_classes.of[cls].objects < FRESH_OBJECTS))
            break;
        if (!s) {
            made = take_mixed(cls, units + got, n - got);
            got += made;
            if (!made)
                fresh += grow(c, cls);
            continue;
        }
        got += take_from(c, s, units + got, n - got);
    }
    return got;
}

unsigned central_borrow(unsigned cls, uint32_t *ret_unit)
{
    size_t size = sa_size_classes.of[cls].size;

    if (central_has(cls) || !mix_is_due())
        return 0;
    for (unsigned of = cls + 1; of < sa_size_classes.count &&
                                (double)sa_size_classes.of[of].size <= params.borrow * (double)size;
         of++)
        if (central_has(of)) {
            take_from(&centrals[of], first_span(&centrals[of]), ret_unit, 1);
            return of;
        }
    return 0;
}

void central_put(unsigned cls, const uint32_t *units, size_t n)
{
    const struct sa_class *k = &sa_size_classes.of[cls];
    struct central *c = &centrals[cls];

    for (size_t i = 0; i < n; i++) {
        struct span *s = spans[units[i] / PAGE_UNITS];
        size_t at;

        if (!s) {
            MODEL_CHECK(mixed_owns(units[i]));
            mixed_put(cls, units[i]);
            continue;
        }
        at = (units[i] - s->page * PAGE_UNITS) / (k->size / UNIT);
        MODEL_CHECK(s->cls == cls && !(s->free[at / 64] >> at % 64 & 1));
        s->free[at / 64] |= 1ull << at % 64;
        s->live--;
        c->free_objects++;
        if (s->live) {
            place(c, s);
            continue;
        }
        if (c->fresh >= run_length(c, cls) && c->lists[NEW_LIST])
            drop_span(c, c->lists[NEW_LIST]);
        drop_span(c, s);
    }
}

void central_plunder(void)
{
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        struct central *c = &centrals[cls];

        for (size_t n = sa_min(c->fresh_min, c->fresh); n; n--)
            drop_span(c, c->lists[NEW_LIST]);
        c->fresh_min = c->fresh;
    }
}

size_t central_tail_bytes(void)
{
    size_t bytes = 0;

    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        const struct sa_class *k = &sa_size_classes.of[cls];

        bytes += centrals[cls].spans * (k->pages * SA_PAGE_BYTES - (size_t)k->objects * k->size);
    }
    return bytes;
}

size_t central_spans_max(void)
{
    return spans_max;
}

void central_check(void)
{
    size_t free[SA_CLASSES_MAX] = {0}, n[SA_CLASSES_MAX] = {0};

    for (uint32_t page = 0; page < PAGES_MAX; page++) {
        struct span *s = spans[page];
        size_t objects = 0;

        if (!s || s->page != page)
            continue;
        for (size_t w = 0; w < SPAN_WORDS; w++)
            objects += (size_t)__builtin_popcountll(s->free[w]);
        MODEL_CHECK(objects + s->live == s->objects && list_for(s) == s->list);
        free[s->cls] += objects;
        n[s->cls]++;
    }
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
        MODEL_CHECK(free[cls] == centrals[cls].free_objects && n[cls] == centrals[cls].spans);
}
