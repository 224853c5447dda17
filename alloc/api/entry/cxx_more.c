/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operators new that tcmalloc has beyond the standard, by the names that clang and libc++ call
 * where a program asks for them: with a hint of how hot the block will be (-fmemprof-use), and with
 * the size that was allocated (std::allocator::allocate_at_least).
 *
 * The hint has no effect. The forms with a hint therefore jump to the operator of the standard, as
 * the loader binds it.
 *
 * A program frees the block with any size from the requested one to the one that was returned. A
 * block without a size class is checked for exactly the requested size, so that is returned. No
 * variables.
 */
#include "alloc/api/entry/entry.h"
#include "alloc/api/init.h"
#include "alloc/api/replaced.h"
#include "alloc/base/atomic.h"
#include "alloc/base/size_class.h"
#include "alloc/front/block.h"
#include "alloc/front/fast_path.h"

#include <stdint.h>

/* tcmalloc::sized_ptr_t, and __sized_ptr_t of libc++. */
struct sized_block {
    void *p;
    size_t size;
};

typedef uint8_t hint; /* __hot_cold_t: 0 (cold) to 255 (hot) */

/* The operators of the standard, as the loader binds them. */
extern void *_Znwm(size_t size) SA_WEAK;
extern void *_Znam(size_t size) SA_WEAK;
extern void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag) SA_WEAK;
extern void *_ZnamRKSt9nothrow_t(size_t size, const void *tag) SA_WEAK;
extern void *_ZnwmSt11align_val_t(size_t size, size_t align) SA_WEAK;
extern void *_ZnamSt11align_val_t(size_t size, size_t align) SA_WEAK;
extern void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t, size_t, const void *) SA_WEAK;
extern void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t, size_t, const void *) SA_WEAK;

extern size_t malloc_usable_size(void *p);

/* In place of a slow path: the callers have their own. */
static void *no_block(size_t size __attribute__((unused)))
{
    return NULL;
}

static SA_NOINLINE void *new_fast(size_t size)
{
    return sa_fast_alloc(SA_FOR_CXX, size, false, no_block);
}

/* The program has operators of its own: nothing is known of their blocks. */
static bool replaced(void)
{
    return SA_UNLIKELY(sa_load_relaxed(&sa_replaced_maybe)) && sa_replaced_cxx();
}

/* A block of a wide alignment has no size class, however small it is. */
static struct sized_block sized(void *p, size_t size, size_t align)
{
    if (sa_block_class(size ? size : 1, align) && !replaced())
        size = malloc_usable_size(p);
    return (struct sized_block){p, size};
}

SA_EXPORT struct sized_block __size_returning_new(size_t size)
{
    void *p = new_fast(size);

    if (!p && !replaced())
        p = sa_entry_alloc(size, 1, 0, SA_ENTRY_NEW, SA_CALLER);
    return sized(p ? p : _Znwm(size), size, 1); /* which calls the new_handler, and throws */
}

SA_EXPORT struct sized_block __size_returning_new_aligned(size_t size, size_t align)
{
    void *p = NULL;

    if (!replaced() && sa_is_pow2(align))
        p = sa_entry_alloc(size, align, 0, SALLOC_KIND_ALIGNED | SA_CALLER_FAMILY(SA_FAMILY_NEW),
                           SA_CALLER);
    return sized(p ? p : _ZnwmSt11align_val_t(size, align), size, align);
}

#define UNUSED __attribute__((unused))

#define WITH_HINT(name, standard, parameters, arguments)                                           \
    SA_EXPORT void *name parameters                                                                \
    {                                                                                              \
        return standard arguments;                                                                 \
    }

WITH_HINT(_Znwm12__hot_cold_t, _Znwm, (size_t size, hint h UNUSED), (size))
WITH_HINT(_Znam12__hot_cold_t, _Znam, (size_t size, hint h UNUSED), (size))
WITH_HINT(_ZnwmRKSt9nothrow_t12__hot_cold_t, _ZnwmRKSt9nothrow_t,
          (size_t size, const void *tag, hint h UNUSED), (size, tag))
WITH_HINT(_ZnamRKSt9nothrow_t12__hot_cold_t, _ZnamRKSt9nothrow_t,
          (size_t size, const void *tag, hint h UNUSED), (size, tag))
WITH_HINT(_ZnwmSt11align_val_t12__hot_cold_t, _ZnwmSt11align_val_t,
          (size_t size, size_t align, hint h UNUSED), (size, align))
WITH_HINT(_ZnamSt11align_val_t12__hot_cold_t, _ZnamSt11align_val_t,
          (size_t size, size_t align, hint h UNUSED), (size, align))
WITH_HINT(_ZnwmSt11align_val_tRKSt9nothrow_t12__hot_cold_t, _ZnwmSt11align_val_tRKSt9nothrow_t,
          (size_t size, size_t align, const void *tag, hint h UNUSED), (size, align, tag))
WITH_HINT(_ZnamSt11align_val_tRKSt9nothrow_t12__hot_cold_t, _ZnamSt11align_val_tRKSt9nothrow_t,
          (size_t size, size_t align, const void *tag, hint h UNUSED), (size, align, tag))

SA_EXPORT struct sized_block __size_returning_new_hot_cold(size_t size, hint h UNUSED)
{
    return __size_returning_new(size);
}

SA_EXPORT struct sized_block __size_returning_new_aligned_hot_cold(size_t size, size_t align,
                                                                   hint h UNUSED)
{
    return __size_returning_new_aligned(size, align);
}
