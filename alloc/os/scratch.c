/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of scratch memory (scratch.h). They are zero pages until they are used. */
#include "alloc/os/scratch.h"

#include "alloc/base/atomic.h"
#include "alloc/base/fatal.h"
#include "alloc/os/percpu.h"
#include "alloc/os/rseq.h"

#include <stdint.h>

struct block {
    uint32_t taken; /* atomic: 1 while the block is lent; see scratch.h for who writes it */
    char data[SA_SCRATCH_BYTES] __attribute__((aligned(SA_CACHELINE)));
};

static struct block blocks[SA_SCRATCHES] __attribute__((aligned(4096)));

SA_STATIC_ASSERT(sizeof(struct block) % 4096 == 0, "a block that is not used touches no page");

/* The block where the search begins. A thread without a CPU number begins at the first one. */
static unsigned first_block(void)
{
    const char *area = (const char *)sa_thread_pointer() + sa_rseq.offset;

    return *(const volatile uint32_t *)(area + SA_RSEQ_CPU_ID) % SA_SCRATCHES;
}

void *sa_scratch_take(void)
{
    unsigned first = first_block();

    for (unsigned i = 0; i < SA_SCRATCHES; i++) {
        struct block *b = &blocks[(first + i) % SA_SCRATCHES];
        uint32_t none = 0;

        if (!sa_load_relaxed(&b->taken) && sa_cas_acquire(&b->taken, &none, 1))
            return b->data;
    }
    return NULL;
}

void sa_scratch_give(void *data)
{
    struct block *b;

    if (!data)
        return;
    b = (struct block *)((char *)data - offsetof(struct block, data));
    SA_DCHECK(b->taken == 1 && (size_t)(b - blocks) < SA_SCRATCHES);
    sa_store_release(&b->taken, 0);
}
