/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C allocation functions. Each is the fast path, or jumps to the slow path.
 *
 * A size or count that overflows fails with ENOMEM and changes nothing. malloc(0) returns a block
 * of its own. realloc(p, 0) frees p and returns NULL, as glibc's does. No variables: every thread
 * works on the cache of its CPU.
 */
#include "alloc/api/entry/entry.h"
#include "alloc/api/init.h"
#include "alloc/api/replaced.h"
#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/front/fast_path.h"
#include "alloc/front/fast_path_far.h"
#include "alloc/front/slow_path.h"
#include "alloc/os/vm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

extern void free_sized(void *p, size_t size);

/* The functions of this file. A call by the public name may reach a function of the program. */
extern __typeof__(malloc) sa_own_malloc SA_OWN_NAME_OF(malloc);
extern __typeof__(calloc) sa_own_calloc SA_OWN_NAME_OF(calloc);
extern __typeof__(realloc) sa_own_realloc SA_OWN_NAME_OF(realloc);
extern __typeof__(free_sized) sa_own_free_sized SA_OWN_NAME_OF(free_sized);
extern __typeof__(free) sa_own_free SA_OWN_NAME_OF(free);

void *sa_entry_alloc(size_t size, size_t align, int zero, sa_entry_kind kind, const void *caller)
{
    struct sa_caller before = sa_entry_begin(caller, kind | SA_CALLER_RBP(caller));
    int saved = errno;
    void *p;

    sa_init();
    p = sa_front_alloc(size, align, zero);
    errno = p ? saved : ENOMEM;
    sa_entry_end(before);
    return p;
}

void *sa_entry_malloc(size_t size)
{
    return sa_entry_alloc(size, 1, 0, SALLOC_KIND_MALLOC, SA_CALLER);
}

static SA_NOINLINE void entry_free_for(void *p, size_t align, sa_entry_kind kind,
                                       const void *caller)
{
    struct sa_caller before = sa_entry_begin(caller, kind | SA_CALLER_RBP(caller));
    int saved = errno;

    sa_init();
    sa_front_free_aligned(p, align);
    errno = saved;
    sa_entry_end(before);
}

SA_RARE static SA_NOINLINE void entry_free_far(void *p, size_t align, sa_entry_kind kind,
                                               const void *caller, unsigned cls)
{
    if (!sa_fast_free_far(p, cls))
        entry_free_for(p, align, kind, caller);
}

/* A function of its own, so that sa_entry_free need not save registers on its fast path. */
static SA_NOINLINE void entry_free_slow(void *p, size_t align, sa_entry_kind kind)
{
    unsigned cls = sa_fast_far_class(p);

    if (SA_UNLIKELY(cls))
        entry_free_far(p, align, kind, SA_CALLER, cls);
    else
        entry_free_for(p, align, kind, SA_CALLER);
}

bool sa_entry_free_fast(void *p)
{
    return sa_fast_free_other(p);
}

void sa_entry_free(void *p)
{
    if (sa_fast_free_other(p) || !p)
        return;
    entry_free_slow(p, 1, SALLOC_KIND_MALLOC);
}

void sa_entry_delete(void *p, size_t align, sa_entry_kind kind)
{
    if (sa_fast_free_other(p) || !p)
        return;
    entry_free_slow(p, align, kind);
}

SA_RARE static SA_NOINLINE void entry_free_sized_slow(void *p, size_t size, size_t align,
                                                      sa_entry_kind kind)
{
    struct sa_caller before = sa_entry_begin(SA_CALLER, kind | SA_CALLER_RBP(SA_CALLER));
    int saved = errno;

    if (p) {
        sa_init();
        sa_front_free_sized(p, size, align);
    }
    errno = saved;
    sa_entry_end(before);
}

SA_RARE static SA_NOINLINE void entry_free_sized_far(void *p, size_t size, size_t align,
                                                     sa_entry_kind kind, unsigned cls)
{
    if (align || !sa_fast_far_has_size(cls, size) || !sa_fast_free_far(p, cls))
        entry_free_sized_slow(p, size, align, kind);
}

void sa_entry_free_sized(void *p, size_t size, size_t align, sa_entry_kind kind)
{
    unsigned cls = sa_fast_far_class(p);

    if (SA_UNLIKELY(cls))
        entry_free_sized_far(p, size, align, kind, cls);
    else
        entry_free_sized_slow(p, size, align, kind);
}

static void *entry_calloc(size_t size)
{
    return sa_entry_alloc(size, 1, 1, SALLOC_KIND_MALLOC, SA_CALLER);
}

SA_RARE static SA_NOINLINE void entry_free_sized(void *p, size_t size)
{
    if (SA_UNLIKELY(sa_load_relaxed(&sa_replaced_maybe)) && sa_replaced_malloc())
        free(p);
    else
        sa_entry_free_sized(p, size, 0, SALLOC_KIND_MALLOC);
}

SA_FAST_ENTRY void *malloc(size_t size)
{
    return sa_fast_alloc(SA_FOR_C, size, false, sa_entry_malloc);
}

SA_FAST_ENTRY void free(void *p)
{
    sa_fast_free(SA_FOR_C, p, sa_entry_free);
}

SA_RARE SA_FAST_ENTRY void free_sized(void *p, size_t size)
{
    sa_fast_free_sized(SA_FOR_C, p, size, entry_free_sized);
}

SA_RARE SA_FAST_ENTRY void free_aligned_sized(void *p, size_t align, size_t size)
{
    if (align <= SA_MIN_ALIGN)
        sa_own_free_sized(p, size);
    else if (SA_UNLIKELY(sa_load_relaxed(&sa_replaced_maybe)) && sa_replaced_malloc())
        free(p);
    else if (!sa_entry_free_aligned(p, size, align))
        sa_entry_free_sized(p, size, align, SALLOC_KIND_MALLOC);
}

SA_FAST_ENTRY void *calloc(size_t count, size_t size)
{
    size_t bytes;

    if (SA_UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) {
        errno = ENOMEM;
        return NULL;
    }
    return sa_fast_alloc(SA_FOR_C, bytes, true, entry_calloc);
}

/* The slow path of realloc. errno: ENOMEM on failure, else unchanged. */
static SA_NOINLINE void *entry_realloc(void *p, size_t size)
{
    struct sa_caller before =
        sa_entry_begin(SA_CALLER, SALLOC_KIND_MALLOC | SA_CALLER_RBP(SA_CALLER));
    int saved = errno;
    void *q = NULL;

    sa_init();
    if (p && size == 0)
        sa_front_free(p);
    else
        q = p ? sa_front_realloc(p, size) : sa_front_alloc(size, 1, false);
    errno = q || (p && size == 0) ? saved : ENOMEM;
    sa_entry_end(before);
    return q;
}

/* In place of a slow path: the caller has its own. */
static void *no_block(size_t size __attribute__((unused)))
{
    return NULL;
}

/* Moves a block to another class by the fast paths alone, if they serve both the old and the new
 * block. Otherwise calls the slow path. */
static SA_NOINLINE void *entry_realloc_moves(void *p, size_t size)
{
    size_t cls = sa_fast_class_of(&sa_hot, p), bytes;
    void *q;

    if (!p)
        return sa_own_malloc(size);
    if (!cls || !size || !(q = sa_fast_alloc(SA_FOR_C, size, false, no_block)))
        return entry_realloc(p, size);
    /* The whole block: the program may use all that malloc_usable_size has reported. */
    bytes = sa_fast_class_bytes(cls);
    sa_fast_copy(q, p, bytes < size ? bytes : sa_align_up(size, SA_MIN_ALIGN));
    if (SA_UNLIKELY(!sa_entry_free_fast(p)))
        entry_free_for(p, 1, SALLOC_KIND_MALLOC, SA_CALLER);
    return q;
}

SA_FAST_ENTRY void *realloc(void *p, size_t size)
{
    return sa_fast_realloc_stays(p, size) ? p : entry_realloc_moves(p, size);
}

SA_RARE SA_EXPORT void *reallocarray(void *p, size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    if (SA_UNLIKELY(sa_load_relaxed(&sa_replaced_maybe)) && sa_replaced_malloc())
        return realloc(p, bytes);
    return sa_own_realloc(p, bytes);
}

SA_RARE SA_EXPORT size_t malloc_usable_size(void *p)
{
    size_t cls = sa_fast_class_of(&sa_hot, p), size;
    struct sa_caller before;
    int saved = errno;

    if (SA_LIKELY(cls != 0))
        return sa_fast_class_bytes(cls);
    if (!p)
        return 0;
    before = sa_entry_begin(SA_CALLER, SALLOC_KIND_MALLOC);
    sa_init();
    size = sa_front_size(p, "malloc_usable_size");
    errno = saved;
    sa_entry_end(before);
    return size;
}
