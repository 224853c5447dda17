/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out which functions the program has replaced; see replaced.h. Initialisation compares
 * addresses, which takes no call. The loader is asked only if they differ. */
#include "alloc/api/replaced.h"

#include "alloc/api/init.h"
#include "alloc/base/atomic.h"
#include "alloc/base/fatal.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/start/fast_path_open.h"
#include "alloc/os/loader.h"
#include "alloc/os/thread.h"
#include "alloc/page_heap/page_heap.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

extern void *_Znwm(size_t size);
extern void *_Znam(size_t size);
extern void *_ZnwmSt11align_val_t(size_t size, size_t align);
extern void *_ZnamSt11align_val_t(size_t size, size_t align);
extern void _ZdlPv(void *p);
extern void _ZdaPv(void *p);
extern void _ZdlPvSt11align_val_t(void *p, size_t align);
extern void _ZdaPvSt11align_val_t(void *p, size_t align);

/* The bits of `replaced`; 0: not known yet. */
enum {
    REPLACED_KNOWN = 1,
    REPLACED_MALLOC = 2,
    REPLACED_OPERATORS = 4,
    REPLACED_NEW = 8,
    REPLACED_NEW_ALIGNED = 16,
};

SA_START_DATA unsigned char sa_replaced_maybe = 1;
static SA_START_DATA unsigned char replaced; /* atomic, relaxed: REPLACED_... bits. Every thread
                                                that finds out stores the same value. */

/* Each name that the loader binds, with the function of this library. */
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

#define DIFFERS(name, own)        || (void *)(name) != (void *)(own)
#define OR_IS_REPLACED(name, own) || IS_REPLACED(name, own)

static SA_NOINLINE bool replaced_addresses_differ(void)
{
    return false EACH_C_FUNCTION(DIFFERS) EACH_OPERATOR(DIFFERS);
}

/* Lets the operators use their fast paths. Requires that nothing is replaced and the library is
 * initialised. */
static void replaced_open_fast_paths(void)
{
    sa_store_relaxed(&sa_replaced_maybe, 0);
    sa_front_open_cxx();
}

void sa_replaced_init(void)
{
    if (!sa_load_relaxed(&replaced) && !replaced_addresses_differ())
        sa_store_relaxed(&replaced, REPLACED_KNOWN);
    if (sa_load_relaxed(&replaced) == REPLACED_KNOWN)
        replaced_open_fast_paths();
}

/*
 * Whether the function that the loader binds first is the program's: neither this library's nor
 * that of the library behind this one. An executable at a fixed address that takes the address of a
 * function gives that function the address of its own jump to it, for all modules. Its symbol then
 * has an address but defines nothing (SHN_UNDEF), and is no replacement.
 */
static bool is_replaced(void *first, void *own, const char *name)
{
#ifdef SA_STATIC
    (void)name;
    return first != own;
#else
    ElfW(Sym) *symbol = NULL;
    Dl_info info;

    if (first == own || first == sa_loader_dlsym(RTLD_NEXT, name))
        return false;
    return !dladdr1(first, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol ||
           symbol->st_shndx != SHN_UNDEF;
#endif
}

#define IS_REPLACED(name, own) is_replaced((void *)(name), (void *)(own), #name)

/* Asks the loader about each function. The loader may allocate: the caller holds no lock. */
static SA_COLD unsigned replaced_find(void)
{
    unsigned found = REPLACED_KNOWN;

    SA_DCHECK(!sa_thread.held_ranks);
    if (false EACH_C_FUNCTION(OR_IS_REPLACED))
        found |= REPLACED_MALLOC;
    if (false EACH_OPERATOR(OR_IS_REPLACED))
        found |= REPLACED_OPERATORS;
    if (IS_REPLACED(_Znwm, sa_own_new))
        found |= REPLACED_NEW;
    if (IS_REPLACED(_ZnwmSt11align_val_t, sa_own_new_aligned))
        found |= REPLACED_NEW_ALIGNED;
    sa_store_relaxed(&replaced, (unsigned char)found);
    return found;
}

void sa_replaced_ask(void)
{
    if (replaced_addresses_differ())
        replaced_find();
}

/* Returns the bits of `replaced`; finds them out at the first call. */
static SA_COLD unsigned replaced_what(void)
{
    unsigned what;

    sa_init();
    what = sa_load_relaxed(&replaced);
    if (!what)
        what = replaced_find();
    if (what == REPLACED_KNOWN)
        replaced_open_fast_paths();
    return what;
}

bool sa_replaced_malloc(void)
{
    return replaced_what() & REPLACED_MALLOC;
}

bool sa_replaced_cxx(void)
{
    return replaced_what() != REPLACED_KNOWN;
}

bool sa_replaced_new(bool aligned)
{
    return replaced_what() & (aligned ? REPLACED_NEW_ALIGNED : REPLACED_NEW);
}

SA_COLD bool sa_replaced_serves_nobody(void)
{
    struct sa_page_heap_stats ordinary, sampled;

    if (!(sa_load_relaxed(&replaced) & REPLACED_MALLOC))
        return false;
    if (!sa_load_acquire(&sa_init_done))
        return true;
    if (!sa_fork_gate_enter())
        return false;
    sa_page_heap_stats(&sa_page_heap_ordinary, &ordinary);
    sa_page_heap_stats(&sa_page_heap_sampled, &sampled);
    sa_fork_gate_leave();
    return ordinary.spans_created + sampled.spans_created == 0;
}
