/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the tables of the fast paths and opens them; see fast_path_open.h. */
#include "alloc/start/fast_path_open.h"

#include "alloc/base/fatal.h"
#include "alloc/base/hardening.h"
#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/front/fast_path.h"
#include "alloc/hot/hot.h"
#include "alloc/os/rseq.h"

/*
 * The multiplier m of the start check in fast_path.h. Any m = ceil(2^64 / size) + d passes
 * multiples of the size up to some quotient, and fails all from there on. This m fails from the
 * number of objects on, so that it also detects offsets behind the last object.
 */
static uint64_t front_start_check(const struct sa_class *k)
{
    uint64_t excess = k->check * k->size; /* m * size - 2^64, for d = 0 */
    uint64_t max = ((1ull << SA_START_SHIFT) - 1) / sa_max(k->objects - 1u, 1), m;

    if (k->objects == 1)
        max = (1ull << SA_START_SHIFT) + k->size;
    m = k->check + (max - excess) / k->size;
    /* The last object passes. Its second 16 bytes fail, and so does what is behind the object. */
    SA_DCHECK((k->objects - 1ull) * k->size * m >> SA_START_SHIFT == 0);
    SA_DCHECK(k->objects * (uint64_t)k->size * m >> SA_START_SHIFT != 0);
    SA_DCHECK(((k->objects - 1ull) * k->size + SA_MIN_ALIGN) * m >> SA_START_SHIFT != 0);
    return m;
}

static void front_init_tables(void)
{
    unsigned least = 1;

    for (size_t i = 0; i <= SA_SMALL_MAX; i++) {
        least += i > sa_size_classes.of[least].size;
        sa_hot.small_class[i] = (uint16_t)SA_CLASS_OFFSET(least);
    }
    for (size_t i = SA_SMALL_MAX / SA_MID_GRAIN; i <= SA_MID_MAX / SA_MID_GRAIN; i++) {
        least += i * SA_MID_GRAIN > sa_size_classes.of[least].size;
        sa_hot.mid_class[i] = (uint16_t)SA_CLASS_OFFSET(least);
    }
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        const struct sa_class *k = &sa_size_classes.of[cls];
        bool whole_pages = k->map_step != SA_PAGE_BYTES || k->size == SA_PAGE_BYTES;
        size_t period = whole_pages ? SA_PAGE_BYTES : (size_t)k->pages << SA_PAGE_SHIFT;

        sa_hot.of_class[cls].start_mask = period - 1;
        sa_hot.of_class[cls].start_check =
            whole_pages ? UINT64_MAX / SA_PAGE_BYTES + 1 : front_start_check(k);
    }
}

/*
 * Hardened: makes every operation leave for the slow path. No size is below the limits but 0, whose
 * class is 0, a cache that is always empty and full. No address of the home window passes the start
 * check. The page map leaves sa_hot.home_class empty.
 */
static void front_close_fast_paths(void)
{
    sa_hot.mid_limit = 1;
    sa_hot.mid_class[0] = 0;
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        sa_hot.of_class[cls].start_mask = UINT64_MAX;
        sa_hot.of_class[cls].start_check = 1ull << (SA_START_SHIFT - SA_HOME_SHIFT);
    }
}

void sa_front_init(size_t cpu_cache_limit)
{
    SA_DCHECK(sa_size_classes.count > 1 && !sa_load_relaxed(&sa_hot.small_limit));
    front_init_tables();
    sa_cpu_cache_init(cpu_cache_limit);
    sa_hot.rseq_offset = sa_rseq.offset;
    if (sa_hardening.on) {
        front_close_fast_paths();
        return;
    }
    sa_hot.mid_limit = SA_MID_MAX + 1;
    sa_store_release(&sa_hot.small_limit, SA_SMALL_MAX + 1);
}

void sa_front_open_cxx(void)
{
    if (sa_hardening.on)
        return;
    SA_DCHECK(sa_load_relaxed(&sa_hot.small_limit) == SA_SMALL_MAX + 1);
    sa_store_relaxed(&sa_hot.cxx_mid_limit, SA_MID_MAX + 1);
    sa_hot.cxx_home_pages = SA_HOME_PAGES;
    sa_store_release(&sa_hot.cxx_small_limit, SA_SMALL_MAX + 1);
}
