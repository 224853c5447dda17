/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at what is guarded. */
#ifndef TEST_SUPPORT_GUARDS_H
#define TEST_SUPPORT_GUARDS_H

#include "alloc/os/vm.h"
#include "sampling/guard/guard_policy.h"
#include "sampling/guard/guarded.h"
#include "sampling/guard/sample_quarantine.h"
#include "test/support/sampled.h"

#include <stdint.h>
#include <unistd.h>

#define GUARD_SLOTS 128
#define GUARD_KEPT  (16 * MIB)

/* Every sample is guarded; deterministic. */
static inline void guard_all(void)
{
    sa_guard_policy_init(1, 1);
    sa_guarded_init(GUARD_SLOTS, 2);
    sa_sample_quarantine_init(GUARD_KEPT, 3);
}

static inline bool is_guarded(const void *p)
{
    const struct sa_span *s = sa_pagemap_find((uintptr_t)p);

    return s && sa_guarded_span(s) && sa_guarded_start(s) == (uintptr_t)p;
}

/* The page in which a block lies; slots have one each. */
static inline uintptr_t page_of(const void *p)
{
    return sa_align_down((uintptr_t)p, sa_max(SA_PAGE_BYTES, sa_vm.page_bytes));
}

/* Whether a byte can be read, without reading it: the kernel refuses to. */
static inline bool accessible(uintptr_t address)
{
    static int ends[2];
    char byte;

    if (!ends[1])
        assert_int_equal(pipe(ends), 0);
    if (write(ends[1], (const void *)address, 1) != 1)
        return false;
    assert_int_equal(read(ends[0], &byte, 1), 1);
    return true;
}

static inline struct sa_guarded_stats guarded(void)
{
    struct sa_guarded_stats s;

    sa_guarded_stats(&s);
    return s;
}

static inline struct sa_sample_quarantine_stats kept(void)
{
    struct sa_sample_quarantine_stats s;

    sa_sample_quarantine_stats(&s);
    return s;
}

/* Of guarded blocks and kept pages. */
static inline void assert_no_guards_left(void)
{
    sa_sample_quarantine_flush();
    assert_nothing_left();
    assert_int_equal(guarded().allocated, 0);
    assert_int_equal(guarded().quarantined, guarded().slots);
    assert_int_equal(kept().bytes, 0);
    assert_int_equal(kept().sampled_bytes, 0);
    assert_int_equal(kept().empty_bytes, 0);
}

#endif
