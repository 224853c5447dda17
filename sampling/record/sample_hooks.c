/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks of samples; see sample_hooks.h, which has the argument for the table without a lock. */
#include "sampling/record/sample_hooks.h"

#include "alloc/base/atomic.h"
#include "alloc/os/clock.h"
#include "alloc/os/thread.h"

#include <string.h>

enum { FREE, WRITING, IN_USE }; /* turn % 4 */

static struct place {
    uint64_t turn;        /* atomic; see sample_hooks.h */
    sa_sample_hook *hook; /* atomic, relaxed */
    void *arg;            /* the same */
} places[SA_SAMPLE_HOOKS];

static uint32_t hooks; /* atomic, relaxed: places in use, a hint */

bool sa_sample_hooks_add(sa_sample_hook *hook, void *arg)
{
    for (unsigned i = 0; i < SA_SAMPLE_HOOKS; i++) {
        struct place *place = &places[i];
        uint64_t turn = sa_load_relaxed(&place->turn);

        if (turn % 4 != FREE ||
            !__atomic_compare_exchange_n(&place->turn, &turn, turn + WRITING, false,
                                         __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        __atomic_thread_fence(__ATOMIC_RELEASE); /* callers see `turn` change before the rest */
        sa_store_relaxed(&place->hook, hook);
        sa_store_relaxed(&place->arg, arg);
        sa_store_release(&place->turn, turn + IN_USE);
        sa_add_relaxed(&hooks, 1);
        sa_recordings_want(1);
        return true;
    }
    return false;
}

/* Reads the hook of a place. False: there is none, or it is changing. */
static bool place_read(const struct place *place, uint64_t *ret_turn, sa_sample_hook **ret_hook,
                       void **ret_arg)
{
    uint64_t turn = sa_load_acquire(&place->turn);

    if (turn % 4 != IN_USE)
        return false;
    *ret_hook = sa_load_relaxed(&place->hook);
    *ret_arg = sa_load_relaxed(&place->arg);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    *ret_turn = turn;
    return sa_load_relaxed(&place->turn) == turn;
}

bool sa_sample_hooks_remove(sa_sample_hook *hook, void *arg)
{
    for (unsigned i = 0; i < SA_SAMPLE_HOOKS; i++) {
        sa_sample_hook *found;
        void *with;
        uint64_t turn;

        if (!place_read(&places[i], &turn, &found, &with) || found != hook || with != arg ||
            !__atomic_compare_exchange_n(&places[i].turn, &turn, turn + 2, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            continue;
        sa_recordings_want(-1);
        sa_add_relaxed(&hooks, (uint32_t)-1);
        return true;
    }
    return false;
}

/* since_1970: added to times of alloc/os/clock.h. */
static void event_fill(const struct sa_sample *s, int64_t since_1970,
                       struct salloc_sample_event *ret)
{
    *ret = (struct salloc_sample_event){
        .size = sizeof(*ret),
        .handle = s->number,
        .address = (const void *)s->address,
        .requested_size = s->requested,
        .allocated_size = s->allocated,
        .alignment = s->align,
        .kind = (enum salloc_allocation_kind)s->kind,
        .weight = 1 / s->p,
        .stack = (const void *const *)s->stack->pc,
        .depth = s->stack->depth,
        .time_ns = (int64_t)s->time_ns + since_1970,
        .thread = s->tid,
        .cpu = s->place.cpu,
        .free_cpu = -1,
    };
}

void sa_sample_hooks_call(const struct sa_sample *s, const struct sa_stack *free_stack, bool freed)
{
    unsigned char sampling = sa_thread.sampling;
    struct salloc_sample_event event;
    struct sa_place here;
    uint64_t now;

    if (!sa_load_relaxed(&hooks))
        return;
    now = sa_clock_ns();
    event_fill(s, (int64_t)(sa_clock_calendar_ns() - now), &event);
    if (freed) {
        sa_place_here(&here);
        event.event = SALLOC_EVENT_FREED;
        event.free_stack = free_stack ? (const void *const *)free_stack->pc : NULL;
        event.free_depth = free_stack ? free_stack->depth : 0;
        event.free_time_ns = event.time_ns + (int64_t)(now - s->time_ns);
        event.free_thread = sa_sample_tid(false);
        event.free_cpu = here.cpu;
    }
    sa_thread.sampling = 1; /* what a hook allocates is not sampled */
    for (unsigned i = 0; i < SA_SAMPLE_HOOKS; i++) {
        sa_sample_hook *hook;
        void *arg;
        uint64_t turn;

        if (place_read(&places[i], &turn, &hook, &arg))
            hook(&event, arg);
    }
    sa_thread.sampling = sampling;
}
