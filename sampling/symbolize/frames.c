/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the addresses of a profile, sorts them, and names them object by object (frames.h). */
#include "sampling/symbolize/frames.h"

#include "alloc/base/fatal.h"
#include "alloc/base/fmt.h"
#include "alloc/base/rng.h"
#include "alloc/base/sort.h"
#include "alloc/base/utf8.h"
#include "alloc/os/vm.h"
#include "sampling/stack/unloaded.h"
#include "sampling/symbolize/symbols.h"

#include <errno.h>
#include <string.h>

/* A set of addresses: a hash table with linear probing, at most half full. An item of 0 is empty,
 * because no call returns to address 0. */
struct set {
    uintptr_t *items;
    size_t count;
    size_t cap; /* items; a power of two, or 0 */
};

/* Adds an address. Requires room. False: the set has it already. */
static bool set_put(struct set *set, uintptr_t pc)
{
    size_t at = sa_rng_mix(pc) & (set->cap - 1);

    SA_DCHECK(pc && set->count < set->cap && !(set->cap & (set->cap - 1)));
    while (set->items[at] && set->items[at] != pc)
        at = (at + 1) & (set->cap - 1);
    if (set->items[at])
        return false;
    set->items[at] = pc;
    set->count++;
    return true;
}

static void set_free(struct set *set)
{
    if (set->items)
        sa_vm_unmap(set->items, set->cap * sizeof(*set->items));
}

/* Adds an address, and doubles the set if it is half full. False: no memory. */
static bool set_add(struct set *set, uintptr_t pc)
{
    if (!pc)
        return true;
    if (set->count >= set->cap / 2) {
        struct set more = {NULL, 0, set->cap ? 2 * set->cap : 8192};

        more.items = sa_vm_map(NULL, more.cap * sizeof(*more.items), "salloc frames");
        if (!more.items)
            return false;
        for (size_t i = 0; i < set->cap; i++)
            if (set->items[i])
                set_put(&more, set->items[i]);
        set_free(set);
        *set = more;
    }
    set_put(set, pc);
    return true;
}

static bool set_add_stack(struct set *set, const struct sa_stack *stack)
{
    for (size_t i = 0; stack && i < sa_frames_depth(stack); i++)
        if (!set_add(set, sa_frames_pc(stack, i)))
            return false;
    return true;
}

static bool frame_before(const void *a, const void *b)
{
    return ((const struct sa_frame *)a)->pc < ((const struct sa_frame *)b)->pc;
}

/* Stores all addresses of the profile in ret->frames, sorted. False: no memory. */
static bool collect(const struct sa_profile *profile, struct sa_frames *ret)
{
    struct set set = {NULL, 0, 0};
    struct sa_frame *frame = NULL;
    bool fine = true;

    for (size_t i = 0; fine && i < profile->bucket_count; i++) {
        const struct sa_bucket_key *key = &profile->buckets[i].key;

        fine = set_add_stack(&set, key->stack) && set_add_stack(&set, key->free_stack);
        if (fine && !key->free_stack && !key->censored && profile->type == SALLOC_PROFILE_LIFETIMES)
            fine = set_add(&set, SA_FRAMES_NOWHERE); /* the stack of a free that is not known */
    }
    for (size_t i = 0; fine && i < profile->total_count; i++)
        fine = set_add_stack(&set, profile->totals[i].stack);
    for (size_t i = 0; fine && i < sa_event_ring_count(&profile->events); i++) {
        const struct sa_ring_event *e = sa_event_ring_get(&profile->events, i);

        fine = set_add_stack(&set, e->stack) && set_add_stack(&set, e->free_stack) &&
               (e->free_stack || !e->free_time_ns || set_add(&set, SA_FRAMES_NOWHERE));
    }
    if (fine)
        frame = sa_buffer_add(&ret->frames, set.count * sizeof(*frame));
    for (size_t i = 0; frame && i < set.cap; i++)
        if (set.items[i])
            (frame++)->pc = set.items[i];
    set_free(&set);
    if (!frame)
        return false;
    sa_sort(ret->frames.data, sa_frames_count(ret), sizeof(*frame), frame_before);
    return true;
}

/* Gives a frame without a symbol its name. False: no memory. */
static bool name_by_place(struct sa_frames *f, struct sa_frame *frame,
                          const struct sa_profile_origin *origin)
{
    char name[320];
    struct sa_fmt fmt;
    char *copy;

    sa_fmt_init(&fmt, name, sizeof(name));
    if (frame->pc == SA_FRAMES_NOWHERE) {
        sa_fmt_add(&fmt, SA_FRAMES_NO_STACK);
    } else if (sa_unloaded_is(frame->pc)) {
        sa_unloaded_format(origin ? origin->unloaded : &sa_unloaded, frame->pc, &fmt);
    } else if (frame->segment) {
        const struct sa_segment *s = sa_mappings_segment(&f->mappings, frame->segment - 1);
        const struct sa_object *object = sa_mappings_object(&f->mappings, s->object);
        const char *path = sa_mappings_name(&f->mappings, object), *slash = strrchr(path, '/');

        sa_fmt_add(&fmt, "%s+0x%zx", slash ? slash + 1 : path,
                   (size_t)(frame->pc - 1 - object->base));
    } else {
        sa_fmt_add(&fmt, "0x%zx", (size_t)(frame->pc - 1));
    }
    copy = sa_buffer_add(&f->names, fmt.len + 1);
    if (!copy)
        return false;
    memcpy(copy, name, fmt.len);
    sa_utf8_clean(copy, fmt.len);
    frame->name = f->names.used - fmt.len - 1;
    return true;
}

/* Returns the object of a frame, or NULL. */
static const struct sa_object *object_of(const struct sa_frames *f, const struct sa_frame *frame)
{
    return frame->segment
               ? sa_mappings_object(&f->mappings,
                                    sa_mappings_segment(&f->mappings, frame->segment - 1)->object)
               : NULL;
}

/* Names `count` neighbouring frames that are in one object, or all in none. False: no memory. */
static bool name_object(struct sa_frames *f, size_t first, size_t count,
                        const struct sa_profile_origin *origin, struct sa_buffer *scratch)
{
    struct sa_frame *frame = (struct sa_frame *)f->frames.data + first;
    const struct sa_object *object = object_of(f, frame);
    struct sa_symbol *symbols;
    bool found = false;

    scratch->used = 0;
    symbols = sa_buffer_add(scratch, count * sizeof(*symbols));
    if (!symbols)
        return false;
    for (size_t i = 0; i < count; i++)
        symbols[i].address = frame[i].pc - 1 - (object ? object->base : 0);
    if (object)
        found = !object->vdso && sa_symbols_find(&f->mappings, object, symbols, count, &f->names);
    else if (origin && origin->code_names)
        origin->code_names(origin, symbols, count, &f->names);
    for (size_t i = 0; i < count; i++) {
        frame[i].name = symbols[i].name;
        frame[i].guess = object && !found;
        if (!frame[i].name && !name_by_place(f, &frame[i], origin))
            return false;
        if (i == 0 || frame[i].name != frame[i - 1].name)
            f->functions++;
        frame[i].function = f->functions;
    }
    return true;
}

static bool name_all(struct sa_frames *f, const struct sa_profile_origin *origin)
{
    struct sa_buffer scratch = {NULL, 0, 0};
    struct sa_frame *frames = (struct sa_frame *)f->frames.data;
    size_t count = sa_frames_count(f), end;
    bool fine = sa_buffer_add(&f->names, 1) != NULL; /* so that no name has offset 0 */

    for (size_t i = 0; i < count; i++) {
        const struct sa_segment *s = sa_mappings_find(&f->mappings, frames[i].pc - 1);

        frames[i].segment = s ? (uint32_t)(s - sa_mappings_segment(&f->mappings, 0)) + 1 : 0;
    }
    for (size_t i = 0; fine && i < count; i = end) {
        for (end = i + 1; end < count && object_of(f, &frames[end]) == object_of(f, &frames[i]);)
            end++;
        fine = name_object(f, i, end - i, origin, &scratch);
    }
    sa_buffer_free(&scratch);
    return fine;
}

int sa_frames_collect(const struct sa_profile *profile, struct sa_frames *ret)
{
    int failed;

    memset(ret, 0, sizeof(*ret));
    failed = profile->origin ? profile->origin->mappings(profile->origin, &ret->mappings)
                             : sa_mappings_collect(&ret->mappings);
    if (!failed && (!collect(profile, ret) || !name_all(ret, profile->origin)))
        failed = -ENOMEM;
    if (failed)
        sa_frames_free(ret);
    return failed;
}

void sa_frames_free(struct sa_frames *frames)
{
    sa_mappings_free(&frames->mappings);
    sa_buffer_free(&frames->frames);
    sa_buffer_free(&frames->names);
}

size_t sa_frames_find(const struct sa_frames *f, uintptr_t pc)
{
    size_t low = 0, high = sa_frames_count(f);

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (sa_frames_frame(f, middle)->pc <= pc)
            low = middle;
        else
            high = middle;
    }
    SA_DCHECK(high > low && sa_frames_frame(f, low)->pc == pc);
    return low;
}
