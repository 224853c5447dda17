/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A system of memory that exists only in the test: mappings are numbers, and for each page of the
 * home window it is known whether it is mapped, holds memory, was written to, and belongs to a
 * span. Calls can be made to fail. The program is linked with --wrap for the functions of
 * alloc/os/vm.h that are replaced.
 */
#ifndef TEST_SUPPORT_FAKE_SYSTEM_H
#define TEST_SUPPORT_FAKE_SYSTEM_H

#include "alloc/base/page.h"
#include "test/support/random.h"

#include <stdbool.h>
#include <stddef.h>

#define FAKE_PAGES (SA_HOME_PAGES / 2) /* as far as the system goes */

enum {
    FAKE_MAPPED = 1,
    FAKE_MEMORY = 2,
    FAKE_DIRTY = 4,
    FAKE_OWNED = 8,
    FAKE_NO_HUGEPAGES = 16, /* of hugepages */
    FAKE_ADVISED = 32,      /* to be one */
};

struct fake_system {
    unsigned char *pages; /* of the home window, from its start */
    size_t first, end;    /* pages outside were never mapped */
    const char *mode;     /* of transparent hugepages */
    bool eager;           /* a page that is touched brings its hugepage along without advice, too */
    /* So many calls of 100 fail. */
    size_t map_fails, release_fails, renew_fails, renew_loses, advise_fails;
    bool collapse_fails;       /* all calls */
    size_t collapses, advised; /* calls that did something */
    size_t touches;            /* by the heap itself */
    size_t small_touches;      /* of these, of pages that do not bring a hugepage */
    /* Start of a span that is renewed before it is freed: if that fails it stays the heap's. */
    uintptr_t giving;
    struct test_random random;
};

extern struct fake_system fake;

void fake_begin(void);

/* A system in which nothing has happened yet; once more after fake_begin. */
void fake_again(void);

size_t fake_page(const void *p);

/* A span takes pages, or gives them up; they must have been free, or its own. */
void fake_own(uintptr_t start, size_t pages, bool owned);

/* The program writes to pages. */
void fake_touch(uintptr_t start, size_t pages);

/* Free pages that have memory. */
size_t fake_held(void);

/* The advice that stands, against what the ordinary heap believes. */
void fake_check_advice(void);

#endif
