/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast path of a free outside the home window, where a program with more than 64 GiB of
 * addresses has objects. The slow path begins with it. The radix map finds the class, with two
 * loads more than in the home window; the rest is as in fast_path.h.
 */
#ifndef SA_FRONT_FAST_PATH_FAR_H
#define SA_FRONT_FAST_PATH_FAR_H

#include "alloc/front/fast_path.h"
#include "pagemap/pagemap.h"

/* The class of the objects of a page outside the home window; 0: it has none, or lies inside. */
SA_INLINE unsigned sa_fast_far_class(const void *p)
{
    return ((uintptr_t)p >> SA_PAGE_SHIFT) - SA_HOME_PAGE < SA_HOME_PAGES
               ? 0
               : sa_pagemap_class((uintptr_t)p);
}

/* Whether a class is that of a size that the caller names. Hardened, and before start-up, no size
 * has a class. */
SA_INLINE bool sa_fast_far_has_size(unsigned cls, size_t size)
{
    const struct sa_hot *hot = &sa_hot;

    return size < hot->mid_limit && SA_CLASS_OFFSET((size_t)cls) == sa_fast_size_class(hot, size);
}

/* Frees an object of a class that sa_fast_far_class has found. False: the block was not freed. */
SA_INLINE bool sa_fast_free_far(void *p, unsigned of_class)
{
    struct sa_hot *hot = &sa_hot;
    const struct sa_hot_class *of;
    uint64_t cls = SA_CLASS_OFFSET((size_t)of_class);

    SA_OPAQUE(hot);
    of = sa_fast_of_class(hot, cls);
    if (((uintptr_t)p & of->start_mask) * of->start_check >> SA_START_SHIFT)
        return false;
    SA_PERCPU_PUSH(hot, cls, p, full, twice, restart);
    return true;
full:
twice:
restart:
    SA_PERCPU_LABEL;
    return false;
}

#endif
