/* SPDX-License-Identifier: Apache-2.0 */
/* Call stacks of a target; see stacks.h. */
#include "tool/samples/stacks.h"

#include "alloc/base/rng.h"
#include "sampling/symbolize/frames.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STACKS_MAX  (1u << 22)
#define TABLE_BYTES ((size_t)1 << 31) /* of our own table, at most */
#define TIMES_READ  3                 /* until a stack is the same twice */
#define FIRST_CAP   4096

/* As in the target, as far as it is needed. */
struct header {
    uint64_t next, hash;
    uint16_t depth;
};

static const struct sa_own_field header_fields[] = {
    SA_OWN_FIELD(struct header, next),
    SA_OWN_FIELD(struct header, hash),
    SA_OWN_FIELD(struct header, depth),
};

static const struct sa_own_field sums_fields[] = {
    SA_OWN_FIELD(struct sa_sums, samples),
    SA_OWN_FIELD(struct sa_sums, certain),
    SA_OWN_FIELD(struct sa_sums, certain_bytes),
    SA_OWN_FIELD(struct sa_sums, count),
    SA_OWN_FIELD(struct sa_sums, bytes),
    SA_OWN_FIELD(struct sa_sums, sampled_bytes),
    SA_OWN_FIELD(struct sa_sums, count_variance),
    SA_OWN_FIELD(struct sa_sums, bytes_variance),
    SA_OWN_FIELD(struct sa_sums, bytes_squares),
    SA_OWN_FIELD(struct sa_sums, offset_count),
    SA_OWN_FIELD(struct sa_sums, offset_bytes),
    SA_OWN_FIELD(struct sa_sums, hits_count),
    SA_OWN_FIELD(struct sa_sums, hits_bytes),
    SA_OWN_FIELD(struct sa_sums, failures),
    SA_OWN_FIELD(struct sa_sums, failures_variance),
    SA_OWN_FIELD(struct sa_sums, offset_count_variance),
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* Names that cannot be read, as of a library without them, stay unknown. */
static void read_unloaded(struct sa_stacks *s, const struct sa_table *table)
{
    struct sa_error none = {SA_EXIT_DONE, ""};
    struct sa_unloaded *u = &s->unloaded;
    uint64_t at = sa_table_variable(table, "sa_unloaded", &none);

    if (none.code || sa_table_constant(table, "struct sa_unloaded", &none) != sizeof(*u) ||
        !sa_target_read(s->target, at, u, sizeof(*u)) || u->count > SA_UNLOADED_NAMES) {
        memset(u, 0, sizeof(*u));
        return;
    }
    for (uint32_t i = 0; i < u->count; i++)
        u->names[i][SA_UNLOADED_NAME - 1] = '\0';
}

bool sa_stacks_open(struct sa_stacks *s, struct sa_target *t, const struct sa_table *table,
                    struct sa_error *e)
{
    memset(s, 0, sizeof(*s));
    s->target = t;
    s->totals = sa_table_field(table, "struct sa_stack", "totals", e).offset;
    s->pc = sa_table_field(table, "struct sa_stack", "pc", e).offset;
    s->unknown = sa_table_variable(table, "sa_stack_unknown", e);
    if (!sa_plan_make(table, "struct sa_stack", header_fields, COUNT(header_fields), &s->stack,
                      e) ||
        !sa_plan_make(table, "struct sa_sums", sums_fields, COUNT(sums_fields), &s->sums, e))
        return false;
    if (s->pc > SA_PLAN_SPAN_MAX || s->stack.span > s->pc || s->totals > s->pc ||
        s->sums.span > s->pc - s->totals)
        sa_error_set(e, SA_EXIT_VERSION, "stacks of its library are not what this sallocctl knows");
    read_unloaded(s, table);
    sa_stack_table_limit(TABLE_BYTES);
    return !e->code;
}

void sa_stacks_close(struct sa_stacks *s)
{
    free(s->entries);
    memset(s, 0, sizeof(*s));
}

static struct sa_stacks_entry *entry_of(const struct sa_stacks *s, uint64_t address)
{
    size_t at = sa_rng_mix(address) & (s->cap - 1);

    while (s->entries[at].address && s->entries[at].address != address)
        at = (at + 1) & (s->cap - 1);
    return &s->entries[at];
}

static bool make_room(struct sa_stacks *s)
{
    struct sa_stacks more = {.cap = s->cap ? 2 * s->cap : FIRST_CAP};

    if (s->count < s->cap / 2)
        return true;
    more.entries = s->count < STACKS_MAX ? calloc(more.cap, sizeof(*more.entries)) : NULL;
    if (!more.entries)
        return false;
    for (size_t i = 0; i < s->cap; i++)
        if (s->entries[i].address)
            *entry_of(&more, s->entries[i].address) = s->entries[i];
    free(s->entries);
    s->entries = more.entries;
    s->cap = more.cap;
    return true;
}

/* Our copy of a stack whose header was read. */
static struct sa_stack *read_frames(struct sa_stacks *s, uint64_t address, const struct header *h)
{
    uintptr_t pc[SA_STACK_MAX];
    struct sa_stack *own;

    if (!h->depth || h->depth > SA_STACK_MAX ||
        !sa_target_read(s->target, address + s->pc, pc, h->depth * sizeof(*pc)))
        return NULL;
    for (unsigned i = 0; i < h->depth; i++)
        if (!pc[i] || pc[i] == SA_FRAMES_NOWHERE)
            return NULL;
    own = sa_stack_intern(pc, h->depth);
    return own->depth == h->depth && own->hash == h->hash ? own : NULL;
}

static struct sa_stack *get(struct sa_stacks *s, uint64_t address, const struct header *known)
{
    struct sa_stacks_entry *entry;
    struct header h;
    struct sa_stack *own;

    if (address == s->unknown)
        return &sa_stack_unknown;
    if (!address || !make_room(s))
        return NULL;
    entry = entry_of(s, address);
    if (known)
        h = *known;
    else if (entry->address)
        return entry->own;
    else if (!sa_plan_read(s->target, &s->stack, address, &h))
        return NULL;
    if (entry->address && entry->own->hash == h.hash)
        return entry->own;
    own = read_frames(s, address, &h);
    if (!own)
        return NULL;
    s->count += !entry->address;
    *entry = (struct sa_stacks_entry){.address = address, .own = own};
    return own;
}

struct sa_stack *sa_stacks_get(struct sa_stacks *s, uint64_t address)
{
    return get(s, address, NULL);
}

#define VALUES 14

/* The sums that are not counts. */
static void values_of(const struct sa_sums *sums, double *ret)
{
    const double values[VALUES] = {sums->certain_bytes,
                                   sums->count,
                                   sums->bytes,
                                   sums->sampled_bytes,
                                   sums->count_variance,
                                   sums->bytes_variance,
                                   sums->bytes_squares,
                                   sums->offset_count,
                                   sums->offset_bytes,
                                   sums->hits_count,
                                   sums->hits_bytes,
                                   sums->failures,
                                   sums->failures_variance,
                                   sums->offset_count_variance};

    memcpy(ret, values, sizeof(values));
}

/* Whether sums can be any. */
static bool is_sound(const struct sa_sums *sums)
{
    double values[VALUES];

    values_of(sums, values);
    for (size_t i = 0; i < VALUES; i++)
        if (!isfinite(values[i]) || values[i] < 0)
            return false;
    return sums->count < 1e18 && sums->bytes < 1e18 && sums->certain_bytes < 1e18 &&
           sums->certain < 1ull << 60 && sums->samples < 1ull << 60;
}

static bool has_grown(const struct sa_sums *from, const struct sa_sums *to)
{
    double before[VALUES], after[VALUES];

    values_of(from, before);
    values_of(to, after);
    for (size_t i = 0; i < VALUES; i++)
        if (!(after[i] >= before[i]))
            return false;
    return to->samples >= from->samples && to->certain >= from->certain;
}

/* A stack, or only sums: then the header is empty. */
struct words {
    struct header header;
    struct sa_sums sums;
};

static bool read_once(struct sa_stacks *s, uint64_t address, bool whole, struct words *ret)
{
    char bytes[SA_PLAN_SPAN_MAX];

    memset(ret, 0, sizeof(*ret));
    if (!sa_target_read(s->target, address, bytes, whole ? s->pc : s->sums.span))
        return false;
    if (whole)
        sa_plan_apply(&s->stack, bytes, &ret->header);
    sa_plan_apply(&s->sums, bytes + (whole ? s->totals : 0), &ret->sums);
    return true;
}

/*
 * Reads until what is read is the same twice. Sums to which a busy program adds all the time never
 * are: then the header must be the same, and the sums have grown. A number of 8 bytes is read as a
 * whole, so each is what it was at some time between the last two readings.
 */
static bool read_words(struct sa_stacks *s, uint64_t address, bool whole, struct words *ret)
{
    struct words before;
    bool same = true;

    if (!read_once(s, address, whole, ret))
        return false;
    for (int i = 0; s->target->live && i < TIMES_READ; i++) {
        before = *ret;
        if (!read_once(s, address, whole, ret))
            return false;
        same = before.header.next == ret->header.next && before.header.hash == ret->header.hash &&
               before.header.depth == ret->header.depth;
        if (same && memcmp(&before.sums, &ret->sums, sizeof(before.sums)) == 0)
            return true;
    }
    return !s->target->live || (same && has_grown(&before.sums, &ret->sums));
}

bool sa_stacks_sums(struct sa_stacks *s, uint64_t address, struct sa_sums *ret)
{
    struct words words;

    if (!read_words(s, address, false, &words)) {
        memset(ret, 0, sizeof(*ret));
        return false;
    }
    *ret = words.sums;
    return is_sound(ret);
}

bool sa_stacks_follow(struct sa_stacks *s, uint64_t address, struct sa_stacks_link *ret)
{
    struct sa_stacks_entry *entry;
    struct words words;

    if (!read_words(s, address, true, &words))
        return false;
    ret->totals = words.sums;
    ret->next = words.header.next;
    ret->own = get(s, address, &words.header);
    if (!ret->own || address == s->unknown || !is_sound(&ret->totals))
        return false;
    entry = entry_of(s, address);
    ret->again = entry->followed;
    entry->followed = true;
    return true;
}
