/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of include/salloc/profile.h, with their contracts there. A function that takes a
 * lock of the allocator enters the fork gate first. Reading or writing a finished profile needs
 * neither.
 *
 * salloc_profile_free cannot wait for a fork that keeps the gate closed, because the fork may be
 * waiting for a lock that this thread holds. It puts the profile on the list `aside`, and the next
 * thread that enters frees it.
 *
 * A token is the handle of a recording in the form of a pointer, which nothing dereferences.
 */
#include "include/salloc/profile.h"

#include "alloc/api/init.h"
#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/maintain/sample_rates.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/middle/mixed_spans.h"
#include "sampling/estimate/rates.h"
#include "sampling/export/write.h"
#include "sampling/record/live_samples.h"
#include "sampling/snapshot/matching.h"
#include "sampling/snapshot/profile_snapshot.h"

#include <errno.h>
#include <string.h>

/* No version has a struct of more bytes: the caller's `size` is not set. */
#define STRUCT_MAX 4096

static struct sa_profile *aside; /* atomic: a stack, linked by `next`. Threads push with release,
                                    and take all of it with acquire. */

/* Leaves a profile for the next thread that enters the gate. */
static void profile_put_aside(struct sa_profile *profile)
{
    struct sa_profile *next = sa_load_relaxed(&aside);

    do {
        profile->next = next;
    } while (!sa_cas_release(&aside, &next, profile));
}

/* Enters the fork gate, as sa_fork_gate_enter does, and frees the profiles put aside. The analysis
 * does not follow a try whose result is returned. */
static bool profile_enter(void) SA_ENTERS_GATE SA_NO_THREAD_SAFETY_ANALYSIS
{
    struct sa_profile *next;

    if (!sa_fork_gate_enter())
        return false;
    for (struct sa_profile *p = sa_xchg_acquire(&aside, NULL); p; p = next) {
        next = p->next;
        sa_profile_free(p);
    }
    return true;
}

/* The public type is another name of the internal one. */
static const struct sa_profile *profile_of(const salloc_profile *profile)
{
    return (const struct sa_profile *)profile;
}

SA_EXPORT int64_t salloc_get_sampling_interval(void)
{
    sa_init();
    return sa_rates_interval();
}

SA_EXPORT int salloc_set_sampling_interval(int64_t bytes)
{
    int saved = errno;

    sa_init();
    if (!sa_fork_gate_enter()) {
        errno = EAGAIN;
        return -1;
    }
    sa_sample_rates_set_interval(bytes);
    sa_fork_gate_leave();
    errno = saved;
    return 0;
}

SA_EXPORT void salloc_set_profile_threads(int on)
{
    int saved = errno;

    sa_init();
    sa_sample_set_by_thread(on != 0);
    errno = saved;
}

static salloc_profile_token *profile_start(enum salloc_profile_type type)
{
    int saved = errno;
    uint64_t handle = 0;

    sa_init();
    if (sa_fork_gate_enter()) {
        handle = sa_live_start(type);
        sa_fork_gate_leave();
    }
    errno = handle ? saved : EAGAIN;
    return (salloc_profile_token *)(uintptr_t)handle;
}

SA_EXPORT salloc_profile_token *salloc_start_allocation_profile(void)
{
    return profile_start(SALLOC_PROFILE_ALLOCATIONS);
}

SA_EXPORT salloc_profile_token *salloc_start_lifetime_profile(void)
{
    return profile_start(SALLOC_PROFILE_LIFETIMES);
}

SA_EXPORT salloc_profile *salloc_profile_token_stop(salloc_profile_token *token)
{
    int saved = errno, error = EAGAIN;
    struct sa_profile *profile = NULL;

    sa_init();
    if (profile_enter()) {
        profile = sa_snapshot_stop((uint64_t)(uintptr_t)token, &error);
        sa_fork_gate_leave();
    }
    errno = profile ? saved : error;
    return (salloc_profile *)profile;
}

/* Stores what mixed spans save, and the free bytes of all spans in use. These bound what blocks in
 * use can hold up. */
static void note_waste(struct sa_profile *profile)
{
    double bytes = (double)sa_mixed_free_bytes();
    struct sa_mixed_stats mixed;

    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        struct sa_central_stats stats;

        sa_central_stats(cls, &stats);
        bytes += (double)stats.free_objects * (double)sa_size_classes.of[cls].size;
    }
    sa_mixed_stats(&mixed);
    profile->waste_max = bytes;
    profile->mixed_saved = mixed.saved_bytes;
}

SA_EXPORT salloc_profile *salloc_snapshot_profile(enum salloc_profile_type type)
{
    int saved = errno, error = EAGAIN;
    struct sa_profile *profile = NULL;

    sa_init();
    if (profile_enter()) {
        if (type == SALLOC_PROFILE_PEAK_HEAP)
            sa_cpu_cache_count_use(); /* the peak may be now */
        profile = sa_snapshot_profile(type, &error);
        if (profile && type == SALLOC_PROFILE_FRAGMENTATION)
            note_waste(profile);
        sa_fork_gate_leave();
    }
    if (profile)
        sa_snapshot_measure(profile);
    errno = profile ? saved : error;
    return (salloc_profile *)profile;
}

SA_EXPORT int salloc_profile_iterate(const salloc_profile *profile,
                                     int (*callback)(const struct salloc_profile_sample *sample,
                                                     void *arg),
                                     void *arg)
{
    const struct sa_profile *p = profile_of(profile);
    struct salloc_profile_sample sample;
    int stop = 0;

    if (!p || !callback) {
        errno = EINVAL;
        return -1;
    }
    for (size_t i = 0; !stop && i < p->bucket_count; i++) {
        sa_profile_bucket_sample(p, &p->buckets[i], &sample);
        stop = callback(&sample, arg);
    }
    for (size_t i = 0; !stop && i < p->total_count; i++) {
        sa_profile_total_sample(p, &p->totals[i], &sample);
        stop = callback(&sample, arg);
    }
    return stop;
}

SA_EXPORT int salloc_profile_iterate_samples(
    const salloc_profile *profile,
    int (*callback)(const struct salloc_profile_sample *sample, void *arg), void *arg)
{
    const struct sa_profile *p = profile_of(profile);
    struct salloc_profile_sample sample;
    int stop = 0;

    if (!p || !callback || p->type >= SALLOC_PROFILE_ALLOCATIONS) {
        errno = EINVAL;
        return -1;
    }
    for (size_t i = 0; !stop && i < p->single_count; i++)
        if (sa_profile_single_sample(p, &p->singles[i], &sample))
            stop = callback(&sample, arg);
    return stop;
}

static bool stack_is(const struct sa_stack *s, const void *const *stack, size_t depth)
{
    return s->depth == depth && memcmp(s->pc, stack, depth * sizeof(*stack)) == 0;
}

/* Returns the profile's stack with these return addresses, or NULL. */
static const struct sa_stack *stack_find(const struct sa_profile *p, const void *const *stack,
                                         size_t depth)
{
    for (size_t i = 0; i < p->bucket_count; i++)
        if (stack_is(p->buckets[i].key.stack, stack, depth))
            return p->buckets[i].key.stack;
    for (size_t i = 0; i < p->total_count; i++)
        if (stack_is(p->totals[i].stack, stack, depth))
            return p->totals[i].stack;
    return NULL;
}

SA_EXPORT int salloc_profile_estimate(const salloc_profile *profile, const void *const *stack,
                                      size_t depth, enum salloc_estimator estimator, double level,
                                      struct salloc_estimate *ret)
{
    const struct sa_profile *p = profile_of(profile);
    const struct sa_stack *of = NULL;
    struct sa_sums sums = {0};

    if (!p || !ret || !(level > 0 && level < 1) || (unsigned)estimator > SALLOC_ESTIMATE_FAILED ||
        (!stack && depth)) {
        errno = EINVAL;
        return -1;
    }
    if (stack)
        of = stack_find(p, stack, depth);
    if (!stack || of) /* a stack that is not in the profile has no samples */
        sa_profile_sums(p, of, &sums);
    sa_estimate(&sums, &p->unseen, estimator, level, ret);
    return 0;
}

SA_EXPORT int salloc_profile_estimate_matching(const salloc_profile *profile,
                                               const struct salloc_profile_query *query,
                                               struct salloc_interval *ret)
{
    int saved = errno, error = EINVAL;

    if (profile && query && ret)
        error = -sa_profile_estimate_matching(profile_of(profile), query, ret);
    errno = error ? error : saved;
    return error ? -1 : 0;
}

SA_EXPORT int salloc_profile_write_file(const salloc_profile *profile, const char *path)
{
    int saved = errno, error = EINVAL;

    if (profile && path)
        error = -sa_profile_write_file(profile_of(profile), path);
    errno = error ? error : saved;
    return error ? -1 : 0;
}

SA_EXPORT int salloc_profile_write_fd(const salloc_profile *profile, int fd, const char *format)
{
    int saved = errno, error = EINVAL;

    if (profile && format)
        error = -sa_profile_write_fd(profile_of(profile), fd, format);
    errno = error ? error : saved;
    return error ? -1 : 0;
}

/* The function that salloc_profile_write passes bytes to, and its last result. */
struct written {
    int (*write)(void *arg, const void *data, size_t size);
    void *arg;
    int result;
};

static int write_piece(void *arg, const void *data, size_t size)
{
    struct written *w = arg;

    w->result = w->write(w->arg, data, size);
    return w->result ? -ECANCELED : 0;
}

SA_EXPORT int salloc_profile_write(const salloc_profile *profile, const char *format,
                                   int (*write)(void *arg, const void *data, size_t size),
                                   void *arg)
{
    struct written w = {write, arg, 0};
    int saved = errno, error = EINVAL;

    if (profile && format && write)
        error = -sa_profile_write(profile_of(profile), format, write_piece, &w);
    errno = w.result > 0 ? w.result : error ? error : saved;
    return error ? -1 : 0;
}

SA_EXPORT int salloc_profile_get_info(const salloc_profile *profile,
                                      struct salloc_profile_info *info)
{
    const struct sa_profile *p = profile_of(profile);
    struct salloc_profile_info known = {.size = sizeof(known)};

    if (!p || !info || info->size < offsetof(struct salloc_profile_info, samples) ||
        info->size > STRUCT_MAX) {
        errno = EINVAL;
        return -1;
    }
    known.type = p->type;
    known.time_ns = p->time_ns;
    known.duration_ns = p->duration_ns;
    known.interval = p->interval;
    known.samples_dropped = p->samples_dropped;
    known.stacks_dropped = p->stacks_dropped;
    known.stacks_evicted = p->stacks_evicted;
    known.events = sa_event_ring_count(&p->events);
    known.events_lost = sa_event_ring_lost(&p->events);
    for (size_t i = 0; i < p->bucket_count; i++)
        known.samples += p->buckets[i].samples;
    for (size_t i = 0; p->type == SALLOC_PROFILE_ALLOCATIONS && i < p->total_count; i++)
        known.samples += p->totals[i].sums.samples + p->totals[i].sums.certain;
    /* The rest of a longer struct, of a later version, becomes 0. */
    memset((char *)info + sizeof(size_t), 0, info->size - sizeof(size_t));
    memcpy((char *)info + sizeof(size_t), (char *)&known + sizeof(size_t),
           sa_min(info->size, sizeof(known)) - sizeof(size_t));
    return 0;
}

SA_EXPORT void salloc_profile_free(salloc_profile *profile)
{
    int saved = errno;

    if (!profile)
        return;
    if (profile_enter()) {
        sa_profile_free((struct sa_profile *)profile);
        sa_fork_gate_leave();
    } else {
        profile_put_aside((struct sa_profile *)profile);
    }
    errno = saved;
}
