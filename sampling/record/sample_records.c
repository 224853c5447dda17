/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of records of samples, and the list of unused ones; see sample_records.h. */
#include "sampling/record/sample_records.h"

#include "alloc/base/atomic.h"
#include "alloc/base/fatal.h"
#include "alloc/base/layout.h"
#include "pagemap/arena.h"

#define BLOCK_BYTES 2048
#define RECORDS     ((BLOCK_BYTES - sizeof(void *)) / sizeof(struct sa_sample))

struct sample_block {
    struct sample_block *next; /* the one created before; const */
    struct sa_sample records[RECORDS];
};

static struct sample_records {
    struct sample_block *blocks SA_GUARDED_BY(SA_RANK_SAMPLES); /* the newest first */
    unsigned used SA_GUARDED_BY(SA_RANK_SAMPLES);               /* records of the newest block */
    struct sa_sample *unused SA_GUARDED_BY(SA_RANK_SAMPLES);    /* linked by next */
    size_t created;                                             /* see header; atomic, relaxed */
} records;

SA_LAYOUT = {
    SA_LAYOUT_STATE("sample_records", records, created),
    SA_LAYOUT_FIELD(struct sample_records, blocks),
    SA_LAYOUT_FIELD(struct sample_records, unused),
    SA_LAYOUT_SIZE(struct sample_block),
    SA_LAYOUT_FIELD(struct sample_block, next),
    SA_LAYOUT_FIELD(struct sample_block, records),
};
SA_LAYOUT_STATIC_ADDRESS("sample_records", records);

bool sa_sample_records_unused(void)
{
    return records.unused;
}

static bool has_fresh(void) SA_REQUIRES(SA_RANK_SAMPLES)
{
    return records.blocks && records.used < RECORDS;
}

static struct sa_sample *take_fresh(void) SA_REQUIRES(SA_RANK_SAMPLES)
{
    sa_add_relaxed(&records.created, 1);
    return &records.blocks->records[records.used++];
}

struct sa_sample *sa_sample_records_take(void)
{
    struct sa_sample *s = records.unused;

    if (!s)
        return has_fresh() ? take_fresh() : NULL;
    records.unused = s->next;
    /* Before it is filled anew: two copies of a record with the same number are copies of one
     * sample. */
    sa_store_relaxed(&s->number, 0);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    return s;
}

void sa_sample_records_drop(struct sa_sample *s)
{
    sa_store_relaxed(&s->state, SA_SAMPLE_UNUSED);
    s->next = records.unused;
    records.unused = s;
}

void *sa_sample_records_block(void)
{
    return sa_arena_alloc(sizeof(struct sample_block), 8);
}

void sa_sample_records_add(void *memory)
{
    struct sample_block *block = memory;

    while (has_fresh()) /* another thread has added a block meanwhile */
        sa_sample_records_drop(take_fresh());
    block->next = records.blocks;
    sa_store_release(&records.blocks, block);
    records.used = 0;
}

size_t sa_sample_records_created(void)
{
    return sa_load_relaxed(&records.created);
}

SA_COLD size_t sa_sample_records_validate(void)
{
    size_t count = 0;

    for (const struct sa_sample *s = records.unused; s; s = s->next, count++)
        SA_CHECK(s->state == SA_SAMPLE_UNUSED);
    return count;
}
