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

/* Whether a page outside the home window has objects. */
SA_INLINE bool sa_fast_is_far(const void *p)
{
    return ((uintptr_t)p >> SA_PAGE_SHIFT) - SA_HOME_PAGE >= SA_HOME_PAGES &&
           sa_pagemap_class((uintptr_t)p);
}

/* Frees an object of any class. False: the block was not freed. */
SA_INLINE bool sa_fast_free_far(void *p)
{
    struct sa_hot *hot = &sa_hot;
    const struct sa_hot_class *of;
    uint64_t cls;

    SA_OPAQUE(hot);
    cls = SA_CLASS_OFFSET((size_t)sa_pagemap_class((uintptr_t)p));
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
