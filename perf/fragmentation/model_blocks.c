/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of two levels by address; see model_blocks.h. Blocks that are neighbours in the program
 * are neighbours here, so the processor's caches serve the model as they served the program. A
 * hash table took twice the time of the whole replay of redis-server.
 */
#include "perf/fragmentation/model_blocks.h"

#include "alloc/base/page.h"

#include <stdlib.h>
#include <sys/mman.h>

#define CHUNK_SHIFT 16 /* addresses of a chunk: 1 MiB of the program's memory */
#define CHUNK       (1ul << CHUNK_SHIFT)
#define CHUNKS      (1ul << (SA_ADDRESS_BITS - 4 - CHUNK_SHIFT))

struct entry {
    uint64_t size : 56, cls : 7, used : 1;
    uint64_t place;
};

static struct entry **chunks;

static struct entry *entry_of(uint64_t address)
{
    struct entry **chunk;

    if (!chunks)
        chunks = mmap(NULL, CHUNKS * sizeof(*chunks), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (chunks == MAP_FAILED || address >= CHUNKS * CHUNK)
        abort();
    chunk = &chunks[address >> CHUNK_SHIFT];
    if (!*chunk && !(*chunk = calloc(CHUNK, sizeof(**chunk))))
        abort();
    return &(*chunk)[address % CHUNK];
}

void blocks_add(const struct block *b)
{
    *entry_of(b->address) =
        (struct entry){.size = b->size, .cls = b->cls & 127, .used = 1, .place = b->place};
}

bool blocks_remove(uint64_t address, struct block *ret)
{
    struct entry *e = entry_of(address);

    if (!e->used)
        return false;
    *ret = (struct block){.address = address, .size = e->size, .cls = e->cls, .place = e->place};
    e->used = 0;
    return true;
}
