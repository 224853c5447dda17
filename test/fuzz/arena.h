/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for records that is given back between inputs: a target that links with --wrap for
 * sa_arena_alloc begins each input with page heaps and a radix map that know nothing. Records can
 * be made to run out.
 */
#ifndef SA_TEST_FUZZ_ARENA_H
#define SA_TEST_FUZZ_ARENA_H

#include "alloc/os/vm.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/page_heap.h"
#include "alloc/page_heap/plain/span_heap.h"
#include "pagemap/pagemap.h"
#include "test/fuzz/fuzz.h"

#include <sys/mman.h>

#define FUZZ_ARENA_BYTES (1ul << 30)

static struct {
    uint8_t *memory;
    size_t used;
    long fails_after; /* so many requests succeed, the others do not; -1: all do */
} fuzz_arena = {.fails_after = -1};

void *__wrap_sa_arena_alloc(size_t bytes, size_t align);

void *__wrap_sa_arena_alloc(size_t bytes, size_t align)
{
    size_t at = (fuzz_arena.used + align - 1) & ~(align - 1);

    if (fuzz_arena.fails_after == 0)
        return NULL;
    if (fuzz_arena.fails_after > 0)
        fuzz_arena.fails_after--;
    FUZZ_CHECK(at + bytes <= FUZZ_ARENA_BYTES);
    fuzz_arena.used = at + bytes;
    return fuzz_arena.memory + at;
}

/* Both page heaps and the map begin anew, without limits; the ordinary heap's place comes of the
 * seed. */
static inline void fuzz_arena_begin(uint64_t seed)
{
    static uint64_t used = UINT64_MAX;

    used = used == UINT64_MAX ? sa_vm.used_bytes : used;
    sa_vm.used_bytes = used;
    sa_vm.space_bytes = 0;
    memset(&sa_footprint, 0, sizeof(sa_footprint));
    sa_limits_set(SA_LIMIT_SOFT, SA_NO_LIMIT);
    sa_limits_set(SA_LIMIT_HARD, SA_NO_LIMIT);
    if (!fuzz_arena.memory) {
        fuzz_arena.memory = mmap(NULL, FUZZ_ARENA_BYTES, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        FUZZ_CHECK(fuzz_arena.memory != MAP_FAILED);
    }
    memset(fuzz_arena.memory, 0, fuzz_arena.used);
    fuzz_arena.used = 0;
    fuzz_arena.fails_after = -1;
    for (size_t i = 0; i < SA_MAP_ROOTS; i++)
        if (sa_pagemap.root[i].node)
            sa_pagemap.root[i].node = NULL;
    if (sa_page_heap_ordinary.huge) {
        memset(sa_page_heap_ordinary.huge, 0, sizeof(*sa_page_heap_ordinary.huge));
        memset(sa_page_heap_sampled.plain, 0, sizeof(*sa_page_heap_sampled.plain));
    }
    sa_page_heap_init(seed);
}

#endif
