/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metadata arena; see arena.h. The lock ARENA guards the struct. No lock is taken while it is
 * held. The arena maps blocks under the lock, because that is rare and the kernel does not call
 * back.
 */
#include "pagemap/arena.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/layout.h"
#include "alloc/os/lock.h"
#include "alloc/os/vm.h"

#include <stdint.h>

#define ARENA_BLOCK_BYTES (256 * 1024)

/*
 * A record of this many bytes or more is a table, of which a program may touch little. Tables are
 * carved from the block's end downwards, so that small records lie together.
 */
#define ARENA_TABLE_BYTES 4096

static SA_START_DATA struct {
    struct sa_lock lock;
    /* The unused part of the block being carved. */
    uintptr_t next SA_GUARDED_BY(SA_RANK_ARENA), end SA_GUARDED_BY(SA_RANK_ARENA);
    struct sa_arena_stats stats SA_GUARDED_BY(SA_RANK_ARENA);
} arena;

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE("arena", arena, next),
    SA_LAYOUT_STATE("arena", arena, end),
    SA_LAYOUT_STATE("arena", arena, stats),
};
SA_LAYOUT_STATIC_ADDRESS("arena", arena);

/* Carves a record out of the block and returns its address. 0: too little of the block is left. */
static uintptr_t arena_carve(size_t bytes, size_t align) SA_REQUIRES(SA_RANK_ARENA)
{
    bool table = bytes >= ARENA_TABLE_BYTES;
    uintptr_t at;

    if (!arena.end || bytes > arena.end - arena.next)
        return 0;
    at = table ? sa_align_down(arena.end - bytes, align) : sa_align_up(arena.next, align);
    if (at < arena.next || at + bytes > arena.end)
        return 0;
    arena.stats.unavailable_bytes += table ? arena.end - bytes - at : at - arena.next;
    arena.stats.allocated_bytes += bytes;
    if (table)
        arena.end = at;
    else
        arena.next = at + bytes;
    return at;
}

/* Maps the next block, which holds at least that many bytes. */
static bool arena_map(size_t bytes) SA_REQUIRES(SA_RANK_ARENA)
{
    size_t min = sa_max(sa_vm.page_bytes, 4096);
    size_t block = sa_max(ARENA_BLOCK_BYTES, sa_align_up(bytes, min));
    void *p = sa_vm_map(NULL, block, "salloc:metadata");

    if (!p && block > min) { /* memory may be short: map no more than needed */
        block = sa_align_up(bytes, min);
        p = sa_vm_map(NULL, block, "salloc:metadata");
    }
    if (!p)
        return false;
    arena.stats.unavailable_bytes += arena.end - arena.next;
    arena.stats.mapped_bytes += block;
    arena.stats.blocks++;
    arena.next = (uintptr_t)p;
    arena.end = arena.next + block;
    return true;
}

void *sa_arena_alloc(size_t bytes, size_t align)
{
    uintptr_t at;

    SA_DCHECK(align > 0 && align <= 4096 && (align & (align - 1)) == 0);
    sa_lock_acquire(&arena.lock, SA_RANK_ARENA);
    at = arena_carve(bytes, align);
    if (!at && arena_map(bytes))
        at = arena_carve(bytes, align);
    sa_lock_release(&arena.lock, SA_RANK_ARENA);
    return (void *)at;
}

/* Maps twice as much as is needed: a heap that grows asks again and again. */
SA_RARE void sa_arena_reserve(size_t bytes)
{
    sa_lock_acquire(&arena.lock, SA_RANK_ARENA);
    if (arena.end - arena.next < bytes)
        arena_map(2 * bytes);
    if (arena.end)
        sa_vm_populate((void *)arena.next, arena.end - arena.next);
    sa_lock_release(&arena.lock, SA_RANK_ARENA);
}

SA_RARE void sa_arena_stats(struct sa_arena_stats *ret)
{
    sa_lock_acquire(&arena.lock, SA_RANK_ARENA);
    *ret = arena.stats;
    ret->unallocated_bytes = arena.end - arena.next;
    sa_lock_release(&arena.lock, SA_RANK_ARENA);
}
