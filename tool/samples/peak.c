/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap of a target at its peak; see peak.h. It is made of what is live and was then, of records
 * of what was freed since, and of sums of such records. The peak may move while they are read, or a
 * record may become part of a sum, and count twice: then all is read again. In the second case it
 * is after a pause that doubles: a sample of the peak becomes part of a sum once at most, so that
 * comes to an end.
 */
#include "tool/samples/peak.h"

#include "sampling/profile/profile_buckets.h"
#include "sampling/record/place.h"
#include "tool/base/time.h"

#include <stdlib.h>
#include <string.h>

#define TIMES        9    /* that a peak is read until it stays */
#define PAUSE        0.01 /* s, before it is read a second time */
#define FOLDED_MAX   SA_BUCKETS_MAX
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* Where the peak is. */
struct state {
    uint64_t number, time_ns;
    uint64_t looked_at, most; /* the high-water mark when the list changed last, and now */
    uint64_t peaks;           /* times that the peak moved */
    uint64_t changes;         /* odd while the peak moves or records become part of sums */
};

struct folded {
    uint64_t samples;
    double offsets, hits;
};

static const struct sa_own_field folded_fields[] = {
    SA_OWN_FIELD(struct folded, samples),
    SA_OWN_FIELD(struct folded, offsets),
    SA_OWN_FIELD(struct folded, hits),
};

struct key {
    uint64_t stack;
    double p, interval;
    uint64_t allocated, requested, align;
    uint32_t tid;
    uint8_t kind;
    int8_t guarded;
};

static const struct sa_own_field key_fields[] = {
    SA_OWN_FIELD(struct key, stack),     SA_OWN_FIELD(struct key, p),
    SA_OWN_FIELD(struct key, interval),  SA_OWN_FIELD(struct key, allocated),
    SA_OWN_FIELD(struct key, requested), SA_OWN_FIELD(struct key, align),
    SA_OWN_FIELD(struct key, tid),       SA_OWN_FIELD(struct key, kind),
    SA_OWN_FIELD(struct key, guarded),
};

static bool read_state(struct sa_target *t, const struct sa_table *table, struct state *ret,
                       struct sa_error *e)
{
    uint64_t live = sa_table_variable(table, "live_samples", e);
    uint64_t in_use = sa_table_variable(table, "sa_in_use", e);
    struct sa_field number = sa_table_field(table, "struct live_samples", "peak_number", e);
    struct sa_field time = sa_table_field(table, "struct live_samples", "peak_time_ns", e);
    struct sa_field looked_at = sa_table_field(table, "struct live_samples", "seen_peak", e);
    struct sa_field most = sa_table_field(table, "struct sa_in_use", "peak", e);
    struct sa_field peaks = sa_table_field(table, "struct live_samples", "peaks", e);
    struct sa_field changes = sa_table_field(table, "struct live_samples", "changes", e);

    if (!e->code && !(sa_field_read(t, live, number, &ret->number) &&
                      sa_field_read(t, live, time, &ret->time_ns) &&
                      sa_field_read(t, live, looked_at, &ret->looked_at) &&
                      sa_field_read(t, in_use, most, &ret->most) &&
                      sa_field_read(t, live, peaks, &ret->peaks) &&
                      sa_field_read(t, live, changes, &ret->changes)))
        sa_error_set(e, SA_EXIT_DAMAGED, "the library's data cannot be read");
    return !e->code;
}

static bool is_sound(const struct key *key, const struct folded *folded)
{
    return sa_live_is_sound(key->p, key->interval, folded->offsets, folded->hits, key->allocated,
                            key->requested, key->align, key->kind) &&
           folded->samples < 1ull << 40;
}

/* One sum of records that were freed. False: no memory. */
static bool add_folded(struct sa_live_copy *c, struct sa_stacks *stacks, const struct key *key,
                       const struct folded *folded)
{
    struct sa_sample_copy copy = {.key = {.p = key->p,
                                          .interval = key->interval,
                                          .allocated = key->allocated,
                                          .requested = key->requested,
                                          .align = key->align,
                                          .kind = key->kind,
                                          .guarded = key->guarded,
                                          .same_cpu = SA_SAME_NONE,
                                          .same_vcpu = SA_SAME_NONE,
                                          .same_l3 = SA_SAME_NONE,
                                          .same_numa = SA_SAME_NONE,
                                          .same_thread = SA_SAME_NONE,
                                          .tid = key->tid},
                                  .samples = folded->samples,
                                  .offset = folded->offsets,
                                  .hits = folded->hits};

    return sa_live_add_copy(c, stacks, key->stack, &copy);
}

static bool read_folded(struct sa_target *t, const struct sa_table *table, struct sa_stacks *stacks,
                        struct sa_live_copy *c, struct sa_error *e)
{
    uint64_t buckets = sa_table_variable(table, "live_samples", e) +
                       sa_table_field(table, "struct live_samples", "folded", e).offset;
    struct sa_field rows_at = sa_table_field(table, "struct sa_buckets", "buckets", e);
    struct sa_field count_at = sa_table_field(table, "struct sa_buckets", "count", e);
    uint64_t bytes = sa_table_constant(table, "struct sa_bucket", e), rows, count;
    uint32_t key_at = sa_table_field(table, "struct sa_bucket", "key", e).offset;
    struct sa_plan plan, key_plan;

    if (e->code ||
        !sa_plan_make(table, "struct sa_bucket", folded_fields, COUNT(folded_fields), &plan, e) ||
        !sa_plan_make(table, "struct sa_bucket_key", key_fields, COUNT(key_fields), &key_plan, e))
        return false;
    if (!sa_field_read(t, buckets, rows_at, &rows) || !sa_field_read(t, buckets, count_at, &count))
        sa_error_set(e, SA_EXIT_DAMAGED, "the library's data cannot be read");
    for (uint64_t i = 0; !e->code && i < count && i < FOLDED_MAX; i++) {
        struct folded folded;
        struct key key;

        if (!sa_plan_read(t, &plan, rows + i * bytes, &folded) ||
            !sa_plan_read(t, &key_plan, rows + i * bytes + key_at, &key) ||
            !is_sound(&key, &folded)) {
            c->dropped++;
            break;
        }
        if (!add_folded(c, stacks, &key, &folded))
            sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the samples");
    }
    return !e->code;
}

bool sa_peak_read(struct sa_target *t, const struct sa_table *table, struct sa_stacks *stacks,
                  struct sa_live_copy *ret, int64_t *ret_time_ns, struct sa_error *e)
{
    struct state state, after;
    uint64_t still = 0; /* `changes` at both ends of the last reading */

    for (int i = 0; i < TIMES; i++) {
        bool now;

        if (!read_state(t, table, &state, e))
            return false;
        /* The mark has risen since the list changed last: what is in the list was live then. */
        now = state.most != state.looked_at;
        if (!sa_live_read(t, table, stacks, now ? UINT64_MAX : state.number,
                          now ? -1 : (int)(state.peaks & UINT8_MAX), ret, e) ||
            (!now && !read_folded(t, table, stacks, ret, e)) || !read_state(t, table, &after, e))
            return false;
        *ret_time_ns = now ? 0 : (int64_t)state.time_ns;
        /* A thread that is stopped within a change leaves an odd number. */
        if (!t->live || (memcmp(&state, &after, sizeof(state)) == 0 &&
                         (after.changes % 2 == 0 || after.changes == still)))
            return true;
        free(ret->samples);
        memset(ret, 0, sizeof(*ret));
        still = after.changes == state.changes ? after.changes : 0;
        if (after.peaks == state.peaks && (!still || still % 2) && i + 1 < TIMES)
            sa_time_wait(PAUSE * (1 << i));
    }
    sa_error_set(e, SA_EXIT_DAMAGED, "the peak changes while it is read: use --stop");
    return false;
}
