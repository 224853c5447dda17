/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking the list of live samples while its owner changes it; see live.h.
 *
 * New records are added in front of the first, so they do not disturb a walk. A record that is
 * taken out meanwhile leads elsewhere: to others that are not live. A record is live if its span
 * points back to it; and those behind it in the list are older, so their numbers are lower. Where
 * that is not so, the walk goes back to the last record that is still live, and on from there. If
 * that one leads to the same record again, the record is in the list: its owner is about to add it
 * or to take it out, and may have been stopped there. So the walk neither ends early nor goes in
 * circles, whatever it reads.
 */
#include "tool/samples/live.h"

#include "alloc/base/page.h"
#include "sampling/record/recording.h"
#include "tool/base/array.h"
#include "tool/samples/waste.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES_MAX (1u << 26)
#define AGAIN_MAX   1000 /* times that a record is read again, and one in SPARE of all */
#define SPARE       4
#define READS_MAX   1000000 /* in all, and READS for each sample */
#define READS       16
#define P_MIN       1e-15

/* As in the target. */
struct record {
    uint64_t next, span, stack;
    double p, interval, offset, hits;
    uint64_t allocated, align, requested, address, number, time_ns;
    uint32_t tid;
    uint8_t cls, kind;
    int8_t guarded;
};

static const struct sa_own_field record_fields[] = {
    SA_OWN_FIELD(struct record, next),     SA_OWN_FIELD(struct record, span),
    SA_OWN_FIELD(struct record, stack),    SA_OWN_FIELD(struct record, p),
    SA_OWN_FIELD(struct record, interval), SA_OWN_FIELD(struct record, offset),
    SA_OWN_FIELD(struct record, hits),     SA_OWN_FIELD(struct record, allocated),
    SA_OWN_FIELD(struct record, align),    SA_OWN_FIELD(struct record, requested),
    SA_OWN_FIELD(struct record, address),  SA_OWN_FIELD(struct record, number),
    SA_OWN_FIELD(struct record, time_ns),  SA_OWN_FIELD(struct record, tid),
    SA_OWN_FIELD(struct record, cls),      SA_OWN_FIELD(struct record, kind),
    SA_OWN_FIELD(struct record, guarded),
};

struct span {
    uint64_t start, sample;
    uint32_t pages;
};

static const struct sa_own_field span_fields[] = {
    SA_OWN_FIELD(struct span, start),
    SA_OWN_FIELD(struct span, sample),
    SA_OWN_FIELD(struct span, pages),
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum state {
    RECORD_LIVE,
    RECORD_LINKED, /* it can be one, but its span does not tell so */
    RECORD_NONE,
};

struct walk {
    struct sa_target *target;
    struct sa_stacks *stacks;
    struct sa_plan record, span;
    uint64_t first; /* address of the pointer to the first record */
    unsigned page_shift;
    bool by_thread;
    struct step {
        uint64_t address, number;
        enum state state;
    } * steps; /* the records on the way, newest first */
    size_t count, cap;
    uint64_t next;                /* address of the record to be read */
    uint64_t below;               /* its number is lower than this */
    uint64_t reads;               /* so far */
    uint64_t up_to;               /* the highest number that is wanted */
    const struct sa_waste *waste; /* NULL: it is not wanted */
    struct sa_live_copy *ret;
};

static bool walk_open(struct walk *w, const struct sa_table *table, struct sa_error *e)
{
    uint64_t by_thread = sa_table_variable(table, "by_thread", e);
    uint8_t on = 0;

    w->first = sa_table_variable(table, "live_samples", e) +
               sa_table_field(table, "struct live_samples", "first", e).offset;
    w->page_shift = (unsigned)sa_table_constant(table, "SA_PAGE_SHIFT", e);
    if (!sa_plan_make(table, "struct sa_sample", record_fields, COUNT(record_fields), &w->record,
                      e) ||
        !sa_plan_make(table, "struct sa_span", span_fields, COUNT(span_fields), &w->span, e))
        return false;
    if (w->page_shift > 30 || !sa_target_read(w->target, by_thread, &on, 1))
        sa_error_set(e, SA_EXIT_DAMAGED, "the library's data cannot be read");
    w->by_thread = on;
    return !e->code;
}

static bool is_sound(const struct record *r)
{
    return r->p >= P_MIN && r->p <= 1 && isfinite(r->interval) && r->interval >= 0 &&
           isfinite(r->offset) && isfinite(r->hits) && r->allocated &&
           r->allocated < 1ull << SA_ADDRESS_BITS && r->requested < 1ull << SA_ADDRESS_BITS &&
           r->align < 1ull << SA_ADDRESS_BITS && r->kind <= SALLOC_KIND_ALIGNED && r->number &&
           r->number < 1ull << 60 && r->time_ns < 1ull << 62;
}

/* Whether the record at an address is that of a live block. */
static bool is_live(struct walk *w, uint64_t address, const struct record *r)
{
    struct span span;

    return sa_plan_read(w->target, &w->span, r->span, &span) && span.sample == address &&
           r->address >= span.start &&
           r->address - span.start < (uint64_t)span.pages << w->page_shift;
}

/* Reads a record that is to be older than a number. */
static enum state read_record(struct walk *w, uint64_t address, uint64_t below, struct record *ret)
{
    w->reads++;
    memset(ret, 0, sizeof(*ret)); /* records are compared, padding too */
    if (!sa_plan_read(w->target, &w->record, address, ret) || !is_sound(ret) ||
        ret->number >= below)
        return RECORD_NONE;
    /* What does not change is what its links say. */
    return !w->target->live || is_live(w, address, ret) ? RECORD_LIVE : RECORD_LINKED;
}

bool sa_live_add_copy(struct sa_live_copy *c, struct sa_stacks *stacks, uint64_t stack,
                      const struct sa_sample_copy *copy)
{
    struct sa_stack *own = sa_stacks_get(stacks, stack);

    if (!own) {
        c->dropped++;
        return true;
    }
    if (!sa_array_room(&c->samples, &c->cap, c->count + 1, sizeof(*c->samples), 4096))
        return false;
    c->samples[c->count] = *copy;
    c->samples[c->count++].key.stack = own;
    return true;
}

/* Another record's copy. False: no memory. */
static bool add_copy(struct walk *w, uint64_t address, const struct record *r, bool freed)
{
    struct sa_sample sample = {.p = r->p,
                               .interval = r->interval,
                               .allocated = r->allocated,
                               .requested = r->requested,
                               .align = r->align,
                               .kind = r->kind,
                               .guarded = r->guarded};
    struct sa_sample_copy copy = {.key = sa_sample_key(&sample),
                                  .samples = 1,
                                  .offset = r->offset,
                                  .hits = r->hits,
                                  .start = freed ? 0 : r->address,
                                  .address = r->address,
                                  .tid = r->tid,
                                  .time_ns = r->time_ns,
                                  .number = r->number};

    if (r->number > w->up_to)
        return true;
    copy.key.tid = w->by_thread ? r->tid : 0;
    copy.waste = w->waste ? sa_waste_of(w->waste, address, r->cls) : 0;
    return sa_live_add_copy(w->ret, w->stacks, r->stack, &copy);
}

/* Remembers where the walk was. False: no memory. */
static bool add_step(struct walk *w, uint64_t address, uint64_t number, enum state state)
{
    if (!sa_array_room(&w->steps, &w->cap, w->count + 1, sizeof(*w->steps), 4096))
        return false;
    w->steps[w->count++] = (struct step){address, number, state};
    return true;
}

/* Sets what comes next: what is behind the last record that is still live, or the first of all. */
static void go_back(struct walk *w)
{
    struct record r;

    for (; w->count; w->count--) {
        const struct step *last = &w->steps[w->count - 1];

        if (read_record(w, last->address, UINT64_MAX, &r) <= last->state &&
            r.number == last->number) {
            w->next = r.next;
            w->below = r.number;
            return;
        }
    }
    w->below = UINT64_MAX;
    if (!sa_target_read(w->target, w->first, &w->next, sizeof(w->next)))
        w->next = 0;
}

/* What could not be read: whether to try it again. */
static bool try_again(struct walk *w)
{
    struct sa_live_copy *c = w->ret;

    if (!w->target->live || c->again > AGAIN_MAX + c->count / SPARE ||
        w->reads > READS_MAX + READS * c->count) {
        c->dropped++;
        return false;
    }
    c->again++;
    go_back(w);
    return true;
}

static bool walk_list(struct walk *w)
{
    uint64_t lowest = UINT64_MAX; /* number of what was copied last */
    struct record r, suspect = {0};

    go_back(w);
    while (w->next && w->ret->count < SAMPLES_MAX) {
        enum state state = read_record(w, w->next, w->below, &r);

        if (state == RECORD_NONE ||
            (state == RECORD_LINKED && memcmp(&r, &suspect, sizeof(r)) != 0)) {
            if (state == RECORD_LINKED)
                suspect = r;
            if (!try_again(w))
                break;
            continue;
        }
        if (!add_step(w, w->next, r.number, state) ||
            (r.number < lowest && !add_copy(w, w->next, &r, false)))
            return false;
        lowest = r.number < lowest ? r.number : lowest;
        w->next = r.next;
        w->below = r.number;
    }
    return true;
}

static bool read_live(struct walk *w, const struct sa_table *table, struct sa_error *e)
{
    memset(w->ret, 0, sizeof(*w->ret));
    if (walk_open(w, table, e) && !walk_list(w))
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the samples");
    free(w->steps);
    return !e->code;
}

bool sa_live_read(struct sa_target *t, const struct sa_table *table, struct sa_stacks *stacks,
                  uint64_t up_to, struct sa_live_copy *ret, struct sa_error *e)
{
    struct walk w = {.target = t, .stacks = stacks, .up_to = up_to, .ret = ret};

    return read_live(&w, table, e);
}

bool sa_live_read_waste(struct sa_target *t, const struct sa_table *table, struct sa_stacks *stacks,
                        struct sa_live_copy *ret, struct sa_error *e)
{
    struct sa_waste waste;
    struct walk w = {
        .target = t, .stacks = stacks, .up_to = UINT64_MAX, .ret = ret, .waste = &waste};

    memset(ret, 0, sizeof(*ret));
    return sa_waste_open(&waste, t, table, e) && read_live(&w, table, e);
}

bool sa_live_read_gone(struct sa_target *t, const struct sa_table *table, struct sa_stacks *stacks,
                       uint64_t up_to, struct sa_live_copy *ret, struct sa_error *e)
{
    struct walk w = {.target = t, .stacks = stacks, .up_to = up_to, .ret = ret};
    struct sa_field gone = sa_table_field(table, "struct live_samples", "gone", e);
    struct sa_field count = sa_table_field(table, "struct live_samples", "gone_count", e);
    uint64_t live = sa_table_variable(table, "live_samples", e), left, address;
    struct record r;

    if (!walk_open(&w, table, e))
        return false;
    if (!sa_field_read(t, live, count, &left) || !sa_field_read(t, live, gone, &address))
        sa_error_set(e, SA_EXIT_DAMAGED, "the library's data cannot be read");
    for (; !e->code && address && left && ret->count < SAMPLES_MAX; left--, address = r.next) {
        if (!sa_plan_read(t, &w.record, address, &r) || !is_sound(&r) || r.number > up_to) {
            ret->dropped++;
            break;
        }
        if (!add_copy(&w, address, &r, true))
            sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the samples");
    }
    return !e->code;
}

bool sa_live_count(struct sa_target *t, const struct sa_table *table, uint64_t *ret_count,
                   double *ret_bytes, struct sa_error *e)
{
    uint64_t live = sa_table_variable(table, "live_samples", e), bits;
    struct sa_field count = sa_table_field(table, "struct live_samples", "count", e);
    struct sa_field bytes = sa_table_field(table, "struct live_samples", "bytes", e);

    if (e->code)
        return false;
    if (!sa_field_read(t, live, count, ret_count) || !sa_field_read(t, live, bytes, &bits)) {
        sa_error_set(e, SA_EXIT_DAMAGED, "the library's data cannot be read");
        return false;
    }
    memcpy(ret_bytes, &bits, sizeof(bits));
    return true;
}
