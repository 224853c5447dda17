/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles of a target; see reading.h. */
#include "tool/reading/reading.h"

#include "alloc/base/utf8.h"
#include "sampling/guard/guarded.h"
#include "sampling/record/thread_name.h"
#include "sampling/snapshot/residency.h"
#include "tool/base/array.h"
#include "tool/base/io.h"
#include "tool/base/note.h"
#include "tool/base/time.h"
#include "tool/samples/peak.h"
#include "tool/samples/rates.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUCKETS_MAX  65536
#define CHAIN_MAX    65536
#define MEASURED_MAX (1ull << 42) /* bytes of samples whose pages are looked at */
#define TWICE_MAX    1000
#define TOTALS_MAX   (1u << 22)

/* Sets why a target cannot be read. A core may lack what is looked for; then that is the reason,
 * rather than what is concluded from it. */
static void explain(struct sa_reading *r, const char *what, const struct sa_error *why,
                    struct sa_error *e)
{
    const char *headless;

    if (r->target.live || why->code == SA_EXIT_FAILED)
        sa_error_set(e, why->code, "%s: %s", what, why->text);
    if (*r->target.lack)
        sa_error_set(e, SA_EXIT_DAMAGED, "%s: %s", what, r->target.lack);
    headless = why->code == SA_EXIT_NOT_ON_IT && !e->code ? sa_objects_headless(&r->target) : NULL;
    if (headless)
        sa_error_set(e, SA_EXIT_DAMAGED,
                     "%s: it lacks the first page of %s, or has another one; the kernel writes it "
                     "with bit 4 of /proc/PID/coredump_filter",
                     what, headless);
    sa_error_set(e, why->code, "%s: %s", what, why->text);
}

static bool open_source(struct sa_reading *r, struct sa_source source, bool stacks,
                        struct sa_error *e)
{
    struct sa_error one = {SA_EXIT_DONE, ""};
    const char *what = source.name;
    char number[16];

    memset(r, 0, sizeof(*r));
    if (!sa_target_open(&r->target, source, e))
        return false;
    if (!what) {
        snprintf(number, sizeof(number), "%d", source.pid);
        what = number;
    }
    if (!stacks)
        sa_objects_collect_notes(&r->target, &r->objects);
    if ((!stacks || sa_objects_collect(&r->target, &r->objects, &one)) &&
        sa_table_read(&r->target, &r->objects, &r->table, &one) &&
        (!stacks || sa_stacks_open(&r->stacks, &r->target, &r->table, &one))) {
        if (*r->target.lack) /* it was not needed so far */
            sa_note("%s: %s; what it lacks is left out", what, r->target.lack);
        return true;
    }
    explain(r, what, &one, e);
    sa_reading_close(r);
    return false;
}

bool sa_reading_open(struct sa_reading *r, struct sa_source source, struct sa_error *e)
{
    return open_source(r, source, true, e);
}

bool sa_reading_open_numbers(struct sa_reading *r, struct sa_source source, struct sa_error *e)
{
    return open_source(r, source, false, e);
}

bool sa_reading_stop(struct sa_reading *r, struct sa_source source, struct sa_target_stop *stop,
                     struct sa_error *e)
{
    pid_t pid = r->target.pid;

    sa_reading_close(r);
    if (!sa_stop_begin(stop, pid, e))
        return false;
    if (!sa_reading_open(r, source, e))
        sa_stop_end(stop);
    return !e->code;
}

void sa_reading_close(struct sa_reading *r)
{
    sa_code_map_free(&r->code);
    sa_stacks_close(&r->stacks);
    sa_table_free(&r->table);
    sa_objects_free(&r->objects);
    sa_target_close(&r->target);
}

/* What the writers ask about the process. */

static int origin_mappings(const struct sa_profile_origin *origin, struct sa_mappings *ret)
{
    const struct sa_reading *r = origin->arg;

    return sa_objects_copy(&r->objects.mappings, ret);
}

static void origin_thread_name(const struct sa_profile_origin *origin, uint32_t tid, char *ret,
                               size_t cap)
{
    const struct sa_reading *r = origin->arg;
    char name[32];

    snprintf(name, sizeof(name), "task/%u/comm", tid);
    if (!r->target.live || !sa_io_read_proc(r->target.pid, name, ret, cap) || *ret == '\n')
        snprintf(ret, cap, "%u", tid);
    ret[strcspn(ret, "\n")] = '\0';
    sa_utf8_clean(ret, strlen(ret));
}

/* The names of the process's own map; a core has none. */
static void origin_code_names(const struct sa_profile_origin *origin, struct sa_symbol *symbols,
                              size_t count, struct sa_buffer *names)
{
    struct sa_reading *r = origin->arg;

    if (r->target.live && !r->code_read)
        sa_code_map_of_process(&r->code, r->target.pid);
    r->code_read = true;
    sa_code_map_symbols(&r->code, symbols, count, names);
}

/* --- rows --- */

static void add_rows(struct sa_outside_profile *p)
{
    for (size_t i = 0; i < p->live.count; i++) {
        struct sa_sample_copy *s = &p->live.samples[i];
        struct sa_bucket *row = sa_buckets_find(&p->rows, &s->key);

        s->bucket = row ? (size_t)(row - p->rows.buckets) : SIZE_MAX;
        if (!row)
            continue;
        row->samples += s->samples;
        row->offsets += s->offset;
        row->hits += s->hits;
        row->waste += s->waste;
    }
    p->profile.buckets = p->rows.buckets;
    p->profile.bucket_count = p->rows.count;
    p->profile.singles = p->live.samples;
    p->profile.single_count = p->live.count;
}

/* Opens what the kernel tells of the pages of the target; it tells the owner and root. */
static bool open_pages(const struct sa_target *t, size_t ranges, struct sa_residency *ret)
{
    char path[SA_PROC_PATH];

    if (!t->live)
        return false;
    sa_residency_open(ret, ranges);
    if (ret->fd >= 0)
        close(ret->fd);
    if (ret->memory >= 0)
        close(ret->memory);
    ret->fd = open(sa_io_proc_path(path, t->pid, "pagemap"), O_RDONLY | O_CLOEXEC);
    ret->memory = open(sa_io_proc_path(path, t->pid, "mem"), O_RDONLY | O_CLOEXEC);
    ret->knows &= ret->fd < 0       ? 0
                  : ret->memory < 0 ? SA_KNOWS_PAGES
                                    : SA_KNOWS_PAGES | SA_KNOWS_ZERO;
    return ret->knows;
}

static bool is_mapped(const struct sa_target *t, const struct sa_sample_copy *s)
{
    return sa_target_row(t, s->start) && sa_target_row(t, s->start + s->key.allocated - 1);
}

/* Which part of the samples is in memory: as sa_snapshot_measure, but for locked memory. */
static void measure(const struct sa_target *t, struct sa_outside_profile *p)
{
    uint64_t left = MEASURED_MAX;
    struct sa_residency pages;
    struct sa_resident found;

    if (!open_pages(t, p->live.count, &pages))
        return;
    p->profile.knows = pages.knows;
    for (size_t i = 0; i < p->live.count; i++) {
        struct sa_sample_copy *s = &p->live.samples[i];
        struct sa_bucket *row = s->bucket == SIZE_MAX ? NULL : &p->rows.buckets[s->bucket];
        bool known;

        if (!row || s->key.allocated > left || !is_mapped(t, s))
            continue;
        left -= s->key.allocated;
        known = s->key.guarded == SALLOC_GUARDED_GUARDED
                    ? sa_residency_of_filled(&pages, s->start, s->key.allocated, s->key.requested,
                                             SA_GUARDED_FILL, &found)
                    : sa_residency_of(&pages, s->start, s->key.allocated, &found);

        if (!known)
            continue;
        s->resident = found.resident;
        s->swapped = found.swapped;
        s->zero = found.zero;
        row->resident += (double)found.resident;
        row->swapped += (double)found.swapped;
        row->zero += (double)found.zero;
    }
    sa_residency_close(&pages);
}

/* --- totals --- */

static bool add_total(struct sa_outside_profile *p, size_t *cap, struct sa_stack *stack,
                      const struct sa_sums *sums)
{
    if (!sa_array_room(&p->profile.totals, cap, p->profile.total_count + 1,
                       sizeof(*p->profile.totals), 1024))
        return false;
    p->profile.totals[p->profile.total_count++] = (struct sa_total){stack, *sums};
    return true;
}

/* The stacks of a bucket. */
static bool add_bucket(struct sa_reading *r, struct sa_outside_profile *p, size_t *cap,
                       uint64_t address)
{
    struct sa_stacks_link link;

    for (unsigned i = 0; address; i++, address = link.next) {
        bool fine = false;

        for (int again = 0; !fine && again < (r->target.live ? 3 : 1); again++) {
            fine = sa_stacks_follow(&r->stacks, address, &link);
            p->again += again > 0;
        }
        if (!fine || i == CHAIN_MAX || p->profile.total_count == TOTALS_MAX ||
            (link.again && p->twice++ > TWICE_MAX)) {
            p->dropped++;
            return true;
        }
        /* A bucket may have been split, and a stack have moved to one that comes later. */
        if (!link.again && (link.totals.samples || link.totals.certain) &&
            !add_total(p, cap, link.own, &link.totals))
            return false;
    }
    return true;
}

static bool has_totals(enum salloc_profile_type type)
{
    return type == SALLOC_PROFILE_HEAP || type == SALLOC_PROFILE_ALLOCATIONS;
}

/* What is added to the totals of those that have no stack: of stacks that were evicted, and of
 * those that could not be kept. */
static bool add_unknown(struct sa_reading *r, struct sa_outside_profile *p, size_t *cap,
                        uint64_t table, struct sa_error *e)
{
    uint64_t evicted = table + sa_table_field(&r->table, "struct stack_table", "evicted", e).offset;
    uint64_t unknown = sa_table_variable(&r->table, "sa_stack_unknown", e) + r->stacks.totals;
    struct sa_sums sums, more;

    if (e->code || !sa_stacks_sums(&r->stacks, evicted, &sums) ||
        !sa_stacks_sums(&r->stacks, unknown, &more))
        return false;
    p->profile.stacks_evicted = sums.samples + sums.certain;
    sa_sums_merge(&sums, &more);
    return !has_totals(p->profile.type) || (!sums.samples && !sums.certain) ||
           add_total(p, cap, &sa_stack_unknown, &sums);
}

/* What the table of stacks says: totals, of a heap profile, and how many it has no room for. */
static void read_stacks(struct sa_reading *r, struct sa_outside_profile *p, struct sa_error *e)
{
    uint64_t table = sa_table_variable(&r->table, "stack_table", e), buckets, used, dropped;
    struct sa_field at = sa_table_field(&r->table, "struct stack_table", "buckets", e);
    struct sa_field count = sa_table_field(&r->table, "struct stack_table", "used", e);
    struct sa_field stats = sa_table_field(&r->table, "struct stack_table", "stats", e);
    struct sa_field lost = sa_table_field(&r->table, "struct sa_stack_stats", "dropped", e);
    uint64_t *heads = NULL;
    size_t cap = 0;
    bool fine;

    if (e->code)
        return;
    errno = 0;
    fine = sa_field_read(&r->target, table, at, &buckets) &&
           sa_field_read(&r->target, table, count, &used) && used <= BUCKETS_MAX &&
           sa_field_read(&r->target, table + stats.offset, lost, &dropped);
    if (fine && buckets)
        heads = calloc(used + 1, sizeof(*heads));
    fine = fine && (!buckets ||
                    (heads && sa_target_read(&r->target, buckets, heads, used * sizeof(*heads))));
    for (size_t i = 0; heads && fine && has_totals(p->profile.type) && i < used; i++)
        fine = add_bucket(r, p, &cap, heads[i]);
    free(heads);
    fine = fine && add_unknown(r, p, &cap, table, e);
    p->profile.stacks_dropped = fine ? dropped : 0;
    if (!fine && errno == ENOMEM)
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the table of call stacks");
    else if (!fine)
        sa_error_set(e, SA_EXIT_DAMAGED, "the table of call stacks cannot be read");
}

/* --- the rest --- */

uint64_t sa_reading_used_bytes(struct sa_reading *r, struct sa_error *e)
{
    uint64_t footprint = sa_table_variable(&r->table, "sa_footprint", e), sum = 0, parts[64] = {0};
    uint64_t vm = sa_table_variable(&r->table, "sa_vm", e);
    struct sa_field heaps = sa_table_field(&r->table, "struct sa_footprint", "used", e);
    struct sa_field used = sa_table_field(&r->table, "struct sa_vm", "used_bytes", e);

    if (e->code || heaps.bytes > sizeof(parts) || !sa_field_read(&r->target, vm, used, &sum) ||
        !sa_target_read(&r->target, footprint + heaps.offset, parts, heaps.bytes))
        return 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        sum += parts[i];
    return sum;
}

static uint64_t samples_lost(struct sa_reading *r, struct sa_error *e)
{
    uint64_t sampler = sa_table_variable(&r->table, "sampler", e), lost = 0;
    struct sa_field failed = sa_table_field(&r->table, "struct sampler", "failed", e);

    if (!e->code)
        sa_field_read(&r->target, sampler, failed, &lost);
    return lost;
}

static void read_samples(struct sa_reading *r, struct sa_outside_profile *p, struct sa_error *e)
{
    int64_t time_ns;

    if (p->profile.type == SALLOC_PROFILE_HEAP) {
        sa_live_read(&r->target, &r->table, &r->stacks, UINT64_MAX, -1, &p->live, e);
    } else if (p->profile.type == SALLOC_PROFILE_FRAGMENTATION) {
        sa_live_read_waste(&r->target, &r->table, &r->stacks, &p->live, e);
    } else if (p->profile.type == SALLOC_PROFILE_PEAK_HEAP &&
               sa_peak_read(&r->target, &r->table, &r->stacks, &p->live, &time_ns, e) && time_ns) {
        p->profile.time_ns = time_ns;
    }
}

/* As profile_set_unseen of the library: of a past moment nothing is known but how rare the rarest
 * samples were. */
static void read_unseen(struct sa_reading *r, struct sa_profile *profile, struct sa_error *e)
{
    struct sa_unseen *u = &profile->unseen;

    if (!sa_rates_read(&r->target, &r->table, &profile->interval, u, e) ||
        profile->type == SALLOC_PROFILE_HEAP || profile->type == SALLOC_PROFILE_FRAGMENTATION)
        return;
    if (u->bytes < u->past_bytes_weight)
        u->bytes = u->past_bytes_weight;
    if (u->blocks < u->past_blocks_weight)
        u->blocks = u->past_blocks_weight;
    u->past_bytes_weight = u->past_blocks_weight = u->past_bytes = u->past_blocks = 0;
}

/* Begins a profile with its samples. */
static bool begin(struct sa_reading *r, enum salloc_profile_type type,
                  struct sa_outside_profile *ret, struct sa_error *e)
{
    struct sa_profile *profile = &ret->profile;

    memset(ret, 0, sizeof(*ret));
    profile->type = type;
    profile->time_ns = r->target.time_ns;
    profile->waste_max = INFINITY;
    profile->clock_ns = sa_time_ns(CLOCK_REALTIME) - sa_time_ns(CLOCK_MONOTONIC);
    ret->origin = (struct sa_profile_origin){.pid = r->target.pid,
                                             .unloaded = &r->stacks.unloaded,
                                             .mappings = origin_mappings,
                                             .thread_name = origin_thread_name,
                                             .code_names = origin_code_names,
                                             .arg = r};
    profile->origin = &ret->origin;
    read_samples(r, ret, e);
    if (!e->code)
        add_rows(ret);
    return !e->code;
}

bool sa_reading_without_samples(struct sa_reading *r, enum salloc_profile_type type,
                                struct sa_outside_profile *ret, struct sa_error *e)
{
    if (begin(r, type, ret, e))
        read_unseen(r, &ret->profile, e);
    return !e->code;
}

bool sa_reading_in_use(struct sa_reading *r, struct sa_outside_profile *ret, struct sa_error *e)
{
    if (begin(r, SALLOC_PROFILE_HEAP, ret, e))
        read_unseen(r, &ret->profile, e);
    return !e->code;
}

bool sa_reading_profile(struct sa_reading *r, enum salloc_profile_type type,
                        struct sa_outside_profile *ret, struct sa_error *e)
{
    struct sa_profile *profile = &ret->profile;

    if (!begin(r, type, ret, e))
        return false;
    read_stacks(r, ret, e);
    if (!e->code)
        read_unseen(r, profile, e);
    profile->used_bytes = sa_reading_used_bytes(r, e);
    ret->again += ret->live.again;
    ret->dropped += ret->live.dropped;
    profile->samples_dropped = samples_lost(r, e) + ret->rows.dropped + ret->live.dropped;
    if (!e->code && type == SALLOC_PROFILE_HEAP)
        measure(&r->target, ret);
    return !e->code;
}

void sa_outside_profile_filter(struct sa_outside_profile *p, const bool *keep)
{
    size_t kept = 0;

    for (size_t i = 0; i < p->live.count; i++)
        if (keep[i])
            p->live.samples[kept++] = p->live.samples[i];
    p->live.count = kept;
    p->profile.total_count = 0;
    p->profile.knows = 0;
    sa_buckets_free(&p->rows);
    add_rows(p);
}

void sa_outside_profile_tell(const struct sa_outside_profile *p)
{
    if (p->dropped)
        sa_note("%llu records changed while they were read, and are left out (--stop leaves none)",
                (unsigned long long)p->dropped);
}

void sa_outside_profile_free(struct sa_outside_profile *p)
{
    free(p->live.samples);
    free(p->profile.totals);
    sa_event_ring_close(&p->profile.events);
    sa_buckets_free(&p->rows);
    memset(p, 0, sizeof(*p));
}
