/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metadata arena; see arena.h. One lock (ARENA, a leaf) guards everything in the struct. Blocks
 * are mapped under it: growth is rare, and the kernel does not call back.
 */
#include "pagemap/arena.h"

#include "alloc/base/bits.h"
#include "alloc/os/lock.h"
#include "alloc/os/vm.h"

#include <stdint.h>

#define ARENA_BLOCK_BYTES (256 * 1024)

static SA_START_DATA struct {
    struct sa_lock lock;
    uintptr_t next, end; /* the block being carved */
    struct sa_arena_stats stats;
} arena;

void *sa_arena_alloc(size_t bytes, size_t align)
{
    uintptr_t at;

    sa_lock_acquire(&arena.lock, SA_RANK_ARENA);
    at = sa_align_up(arena.next, align);
    if (at + bytes > arena.end || !arena.end) {
        size_t block =
            sa_max(ARENA_BLOCK_BYTES, sa_align_up(bytes, sa_max(sa_vm.page_bytes, 4096)));
        void *p = sa_vm_map(NULL, block, "salloc:metadata");

        if (!p &&
            block > sa_max(sa_vm.page_bytes, 4096)) { /* little may be left: no more than needed */
            block = sa_align_up(bytes, sa_max(sa_vm.page_bytes, 4096));
            p = sa_vm_map(NULL, block, "salloc:metadata");
        }
        if (!p) {
            sa_lock_release(&arena.lock, SA_RANK_ARENA);
            return NULL;
        }
        arena.stats.unavailable_bytes += arena.end - arena.next;
        arena.stats.mapped_bytes += block;
        arena.stats.blocks++;
        arena.next = at = (uintptr_t)p;
        arena.end = arena.next + block;
    }
    arena.stats.unavailable_bytes += at - arena.next;
    arena.stats.allocated_bytes += bytes;
    arena.next = at + bytes;
    sa_lock_release(&arena.lock, SA_RANK_ARENA);
    return (void *)at;
}

void sa_arena_stats(struct sa_arena_stats *ret)
{
    sa_lock_acquire(&arena.lock, SA_RANK_ARENA);
    *ret = arena.stats;
    ret->unallocated_bytes = arena.end - arena.next;
    sa_lock_release(&arena.lock, SA_RANK_ARENA);
}
