/* SPDX-License-Identifier: Apache-2.0 */
/* See replaced.h. Addresses are compared at initialisation, which costs nothing; only if they differ is the loader asked. */
#include "alloc/api/replaced.h"

#include "alloc/api/init.h"
#include "alloc/base/atomic.h"
#include "alloc/front/front.h"

#include <dlfcn.h>
#include <stdlib.h>

extern void *_Znwm(size_t size);
extern void *_Znam(size_t size);
extern void *_ZnwmSt11align_val_t(size_t size, size_t align);
extern void *_ZnamSt11align_val_t(size_t size, size_t align);
extern void _ZdlPv(void *p);
extern void _ZdaPv(void *p);
extern void _ZdlPvSt11align_val_t(void *p, size_t align);
extern void _ZdaPvSt11align_val_t(void *p, size_t align);

enum replaced { REPLACED_UNKNOWN, REPLACED_NOTHING, REPLACED_OPERATORS, REPLACED_MALLOC };

SA_START_DATA unsigned char sa_replaced_maybe = 1;
static SA_START_DATA unsigned char known; /* enum replaced; atomic, as sa_replaced_maybe */

/* What is there first, and what is ours. */
#define EACH_C_FUNCTION(WITH)                                                                      \
    WITH(malloc, sa_own_malloc)                                                                    \
    WITH(calloc, sa_own_calloc)                                                                    \
    WITH(realloc, sa_own_realloc)                                                                  \
    WITH(free, sa_own_free)
#define EACH_OPERATOR(WITH)                                                                        \
    WITH(_Znwm, sa_own_new)                                                                        \
    WITH(_Znam, sa_own_new_array)                                                                  \
    WITH(_ZnwmSt11align_val_t, sa_own_new_aligned)                                                 \
    WITH(_ZnamSt11align_val_t, sa_own_new_array_aligned)                                           \
    WITH(_ZdlPv, sa_own_delete)                                                                    \
    WITH(_ZdaPv, sa_own_delete_array)                                                              \
    WITH(_ZdlPvSt11align_val_t, sa_own_delete_aligned)                                             \
    WITH(_ZdaPvSt11align_val_t, sa_own_delete_array_aligned)

#define DIFFERS(name, own) || (void *)(name) != (void *)(own)
#define REPLACED(name, own)                                                                        \
    || ((void *)(name) != (void *)(own) && (void *)(name) != dlsym(RTLD_NEXT, #name))

SA_INLINE bool replaced_addresses_differ(void)
{
    return false EACH_C_FUNCTION(DIFFERS) EACH_OPERATOR(DIFFERS);
}

/* Nothing is, and the library is initialised. */
static void replaced_open_fast_paths(void)
{
    sa_store_relaxed(&sa_replaced_maybe, 0);
    sa_front_open_cxx();
}

void sa_replaced_init(void)
{
    if (sa_load_relaxed(&known) == REPLACED_UNKNOWN && !replaced_addresses_differ())
        sa_store_relaxed(&known, REPLACED_NOTHING);
    if (sa_load_relaxed(&known) == REPLACED_NOTHING)
        replaced_open_fast_paths();
}

/* Asks the loader, which may allocate: not with a lock held. */
static SA_COLD enum replaced replaced_find(void)
{
    enum replaced what = REPLACED_NOTHING;

    if (false EACH_C_FUNCTION(REPLACED))
        what = REPLACED_MALLOC;
    else if (false EACH_OPERATOR(REPLACED))
        what = REPLACED_OPERATORS;
    sa_store_relaxed(&known, what);
    return what;
}

void sa_replaced_ask(void)
{
    if (replaced_addresses_differ())
        replaced_find();
}

static SA_COLD enum replaced replaced_what(void)
{
    enum replaced what;

    sa_init();
    what = sa_load_relaxed(&known);
    if (what == REPLACED_UNKNOWN)
        what = replaced_find();
    if (what == REPLACED_NOTHING)
        replaced_open_fast_paths();
    return what;
}

bool sa_replaced_malloc(void)
{
    return replaced_what() == REPLACED_MALLOC;
}

bool sa_replaced_cxx(void)
{
    return replaced_what() > REPLACED_NOTHING;
}
