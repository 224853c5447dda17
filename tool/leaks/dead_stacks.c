/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding parts of stacks that are not in use; see dead_stacks.h. A mapping is looked at as a stack
 * only if an inaccessible one lies before it, as libc makes them, or if it is that of the first
 * thread. A mapping with several stacks is read whole.
 *
 * The stack of a thread ends with its thread control block, which begins with its own address, as
 * does its third word. It stays when the thread has ended: then no thread has that thread pointer.
 * What is in the block and behind it counts even then, as a thread's result is there until it is
 * joined.
 */
#include "tool/leaks/dead_stacks.h"

#include <stdlib.h>
#include <string.h>

#define CONTROL_BYTES 8192 /* at the end of a stack, in which the control block begins */
#define CONTROL_ALIGN 8    /* words */

static int sp_order(const void *a, const void *b)
{
    const struct sa_target_thread *x = a, *y = b;

    return x->sp < y->sp ? -1 : x->sp > y->sp;
}

static int pointer_order(const void *a, const void *b)
{
    const struct sa_target_thread *x = a, *y = b;

    return x->pointer < y->pointer ? -1 : x->pointer > y->pointer;
}

/* Whether any thread has its thread pointer in a mapping. */
static bool has_pointer(const struct sa_target_thread *threads, size_t count,
                        const struct sa_area *area)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (threads[middle].pointer < area->start)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && threads[low].pointer < area->end;
}

/* Where the control block at the end of a stack begins; 0: there is none. */
static uint64_t find_control(struct sa_target *t, const struct sa_area *area)
{
    uint64_t words[CONTROL_BYTES / 8], at = area->end - CONTROL_BYTES;

    if (area->end - area->start < 2 * CONTROL_BYTES || !sa_target_read(t, at, words, sizeof(words)))
        return 0;
    for (size_t i = 0; i + 2 < CONTROL_BYTES / 8; i += CONTROL_ALIGN)
        if (words[i] == at + 8 * i && words[i + 2] == words[i])
            return words[i];
    return 0;
}

struct search {
    struct sa_target *target;
    struct sa_target_thread *by_sp, *by_pointer;
    size_t count;
    size_t next; /* of by_sp: the first that is not below the mapping */
};

/* Where the part of a mapping ends that is not in use; 0: there is none. */
static uint64_t find_end(struct search *s, const struct sa_area *area)
{
    bool guard = area->guarded;
    size_t first;

    while (s->next < s->count && s->by_sp[s->next].sp < area->start)
        s->next++;
    for (first = s->next; s->next < s->count && s->by_sp[s->next].sp < area->end; s->next++)
        guard = guard || s->by_sp[s->next].tid == s->target->pid;
    if (!guard || !(area->access & SA_ACCESS_WRITE))
        return 0;
    if (s->next - first == 1)
        return s->by_sp[first].sp - SA_RED_ZONE;
    return s->next > first || !s->count || !s->by_pointer[0].pointer ||
                   has_pointer(s->by_pointer, s->count, area)
               ? 0
               : find_control(s->target, area);
}

bool sa_stacks_find_dead(struct sa_target *t, const struct sa_threads *threads,
                         struct sa_holes *ret)
{
    struct search s = {.target = t, .count = threads->count};
    struct sa_area area;
    bool fine;

    s.by_sp = calloc(s.count + 1, sizeof(*s.by_sp));
    s.by_pointer = calloc(s.count + 1, sizeof(*s.by_pointer));
    fine = s.by_sp && s.by_pointer;
    if (fine && s.count) {
        memcpy(s.by_sp, threads->threads, s.count * sizeof(*s.by_sp));
        memcpy(s.by_pointer, threads->threads, s.count * sizeof(*s.by_pointer));
        qsort(s.by_sp, s.count, sizeof(*s.by_sp), sp_order);
        qsort(s.by_pointer, s.count, sizeof(*s.by_pointer), pointer_order);
    }
    for (size_t i = 0; fine && t->kind->area(t, i, &area); i++) {
        uint64_t end = find_end(&s, &area);

        fine = end <= area.start || sa_holes_add(ret, area.start, end);
    }
    free(s.by_sp);
    free(s.by_pointer);
    return fine;
}
