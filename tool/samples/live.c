/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the records of live samples while their owner changes them; see live.h.
 *
 * Records lie in blocks, and each says whether its sample is live. A block is read in one piece,
 * twice: a record that is the same both times is whole. Others are read again, one by one. So all
 * records are read within the time that it takes to copy them, and however fast the program samples
 * and frees, each has the same chance to be seen.
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
#define BLOCK_MAX   65536
#define TIMES_READ  20 /* of a record, until it is the same twice */
#define P_MIN       1e-15

/* As in the target. */
struct record {
    uint64_t stack;
    double p, interval, offset, hits;
    uint64_t allocated, align, requested, address, number, time_ns;
    uint32_t tid;
    uint8_t cls, kind, state, peak;
    int8_t guarded;
};

static const struct sa_own_field record_fields[] = {
    SA_OWN_FIELD(struct record, stack),    SA_OWN_FIELD(struct record, p),
    SA_OWN_FIELD(struct record, interval), SA_OWN_FIELD(struct record, offset),
    SA_OWN_FIELD(struct record, hits),     SA_OWN_FIELD(struct record, allocated),
    SA_OWN_FIELD(struct record, align),    SA_OWN_FIELD(struct record, requested),
    SA_OWN_FIELD(struct record, address),  SA_OWN_FIELD(struct record, number),
    SA_OWN_FIELD(struct record, time_ns),  SA_OWN_FIELD(struct record, tid),
    SA_OWN_FIELD(struct record, cls),      SA_OWN_FIELD(struct record, kind),
    SA_OWN_FIELD(struct record, guarded),  SA_OWN_FIELD(struct record, state),
    SA_OWN_FIELD(struct record, peak),
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

struct walk {
    struct sa_target *target;
    struct sa_stacks *stacks;
    struct sa_plan record;
    struct sa_field next, records;      /* of a block */
    uint32_t block_bytes, record_bytes; /* sizes */
    uint64_t newest;                    /* address of the newest block */
    char *first, *second;               /* a block, as it was read */
    bool by_thread;
    int peak;                     /* whose gone samples are wanted; negative: none */
    uint64_t up_to;               /* the highest number that is wanted */
    const struct sa_waste *waste; /* NULL: it is not wanted */
    struct sa_live_copy *ret;
};

static bool walk_open(struct walk *w, const struct sa_table *table, struct sa_error *e)
{
    uint64_t records = sa_table_variable(table, "sample_records", e);
    uint64_t by_thread = sa_table_variable(table, "by_thread", e);
    struct sa_field blocks = sa_table_field(table, "struct sample_records", "blocks", e);
    uint64_t block, record;
    uint8_t on = 0;

    w->next = sa_table_field(table, "struct sample_block", "next", e);
    w->records = sa_table_field(table, "struct sample_block", "records", e);
    block = sa_table_constant(table, "struct sample_block", e);
    record = sa_table_constant(table, "struct sa_sample", e);
    if (!sa_plan_make(table, "struct sa_sample", record_fields, COUNT(record_fields), &w->record,
                      e))
        return false;
    if (block < sizeof(uint64_t) || block > BLOCK_MAX || record > block ||
        w->record.span > record || w->records.offset > block - record ||
        w->next.bytes != sizeof(uint64_t) || w->next.offset > block - sizeof(uint64_t)) {
        sa_error_set(e, SA_EXIT_VERSION,
                     "samples of its library are not what this sallocctl knows");
        return false;
    }
    w->block_bytes = (uint32_t)block;
    w->record_bytes = (uint32_t)record;
    w->first = malloc(w->block_bytes);
    w->second = malloc(w->block_bytes);
    if (!w->first || !w->second)
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the samples");
    else if (!sa_target_read(w->target, by_thread, &on, 1) ||
             !sa_field_read(w->target, records, blocks, &w->newest))
        sa_error_set(e, SA_EXIT_DAMAGED, "the library's data cannot be read");
    w->by_thread = on;
    return !e->code;
}

static void walk_close(struct walk *w)
{
    free(w->first);
    free(w->second);
}

bool sa_live_is_sound(double p, double interval, double offset, double hits, uint64_t allocated,
                      uint64_t requested, uint64_t align, unsigned kind)
{
    return p >= P_MIN && p <= 1 && isfinite(interval) && interval >= 0 && isfinite(offset) &&
           isfinite(hits) && allocated && (allocated | requested | align) >> SA_ADDRESS_BITS == 0 &&
           kind <= SALLOC_KIND_ALIGNED;
}

static bool is_sound(const struct record *r)
{
    return sa_live_is_sound(r->p, r->interval, r->offset, r->hits, r->allocated, r->requested,
                            r->align, r->kind) &&
           r->number && r->number < 1ull << 60 && r->time_ns < 1ull << 62;
}

static void parse(const struct walk *w, const char *bytes, struct record *ret)
{
    memset(ret, 0, sizeof(*ret)); /* records are compared, padding too */
    sa_plan_apply(&w->record, bytes, ret);
}

static bool is_wanted(const struct walk *w, const struct record *r)
{
    return r->state == SA_SAMPLE_LIVE || (r->state == SA_SAMPLE_GONE && r->peak == w->peak);
}

/* Whether two readings show the same sample. It may have been freed in between; before its record
 * is filled anew, the number changes. */
static bool is_same(const struct record *a, struct record b)
{
    b.state = a->state;
    b.peak = a->peak;
    return memcmp(a, &b, sizeof(b)) == 0;
}

/* Reads a record that changes until it is the same twice. False: it keeps changing. */
static bool read_again(struct walk *w, uint64_t address, struct record *ret)
{
    struct record before;

    memset(&before, 0, sizeof(before));
    for (int i = 0; i < TIMES_READ; i++) {
        memset(ret, 0, sizeof(*ret));
        if (!sa_plan_read(w->target, &w->record, address, ret))
            return false;
        if (i > 0 && memcmp(&before, ret, sizeof(before)) == 0)
            return true;
        before = *ret;
    }
    return false;
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
static bool add_copy(struct walk *w, uint64_t address, const struct record *r)
{
    bool freed = r->state != SA_SAMPLE_LIVE;
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

/* A record of the block that was read, at an offset. False: no memory. */
static bool take_record(struct walk *w, uint64_t block, uint32_t at)
{
    struct record r, later;

    parse(w, w->first + at, &r);
    if (!is_wanted(w, &r))
        return true;
    parse(w, w->second + at, &later);
    if (!is_same(&r, later)) {
        w->ret->again++;
        if (!read_again(w, block + at, &r)) {
            w->ret->dropped++;
            return true;
        }
        if (!is_wanted(w, &r))
            return true;
    }
    if (!is_sound(&r)) {
        w->ret->dropped++;
        return true;
    }
    return add_copy(w, block + at, &r);
}

/* A block. Of a target that runs it is read twice. */
static bool read_block(struct walk *w, uint64_t block)
{
    if (!sa_target_read(w->target, block, w->first, w->block_bytes))
        return false;
    if (w->target->live)
        return sa_target_read(w->target, block, w->second, w->block_bytes);
    memcpy(w->second, w->first, w->block_bytes);
    return true;
}

/* All blocks, from the newest on. Their order is fixed, so a block that comes again is damage. */
static bool walk_blocks(struct walk *w)
{
    uint64_t block = w->newest, mark = 0;
    size_t steps = 0, turn = 1, most = SAMPLES_MAX / (w->block_bytes / w->record_bytes);

    while (block && w->ret->count < SAMPLES_MAX) {
        if (block == mark || steps == most || !read_block(w, block)) {
            w->ret->dropped++;
            break;
        }
        if (++steps == turn) {
            mark = block;
            turn *= 2;
        }
        for (uint32_t at = w->records.offset; at + w->record_bytes <= w->block_bytes;
             at += w->record_bytes)
            if (!take_record(w, block, at))
                return false;
        memcpy(&block, w->first + w->next.offset, sizeof(block));
    }
    return true;
}

static int newest_first(const void *a, const void *b)
{
    const struct sa_sample_copy *x = a, *y = b;

    return x->number > y->number ? -1 : x->number < y->number;
}

static bool read_live(struct walk *w, const struct sa_table *table, struct sa_error *e)
{
    struct sa_live_copy *c = w->ret;

    memset(c, 0, sizeof(*c));
    if (walk_open(w, table, e) && !walk_blocks(w))
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the samples");
    if (c->count)
        qsort(c->samples, c->count, sizeof(*c->samples), newest_first);
    walk_close(w);
    return !e->code;
}

bool sa_live_read(struct sa_target *t, const struct sa_table *table, struct sa_stacks *stacks,
                  uint64_t up_to, int peak, struct sa_live_copy *ret, struct sa_error *e)
{
    struct walk w = {.target = t, .stacks = stacks, .up_to = up_to, .peak = peak, .ret = ret};

    return read_live(&w, table, e);
}

bool sa_live_read_waste(struct sa_target *t, const struct sa_table *table, struct sa_stacks *stacks,
                        struct sa_live_copy *ret, struct sa_error *e)
{
    struct sa_waste waste;
    struct walk w = {.target = t,
                     .stacks = stacks,
                     .up_to = UINT64_MAX,
                     .peak = -1,
                     .ret = ret,
                     .waste = &waste};

    memset(ret, 0, sizeof(*ret));
    return sa_waste_open(&waste, t, table, e) && read_live(&w, table, e);
}
