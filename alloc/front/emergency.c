/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Emergency memory; see emergency.h. Blocks have a 16-byte header with their size. Mappings are kept
 * in a list that only grows; a block is recognised by the mapping it lies in. All shared words are
 * atomic: `first` is published with release and read with acquire.
 */
#include "alloc/front/emergency.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/layout.h"
#include "alloc/os/vm.h"

#define EMERGENCY_BYTES (1ul << 20)

struct emergency {
    struct emergency *next; /* const once published */
    size_t bytes;           /* const */
    size_t used;            /* atomic */
};

static struct emergency *first; /* atomic */
static void *aside;             /* atomic: blocks linked by their first word */

SA_LAYOUT = {
    SA_LAYOUT_SIZE(struct emergency),
    SA_LAYOUT_FIELD(struct emergency, next),
    SA_LAYOUT_FIELD(struct emergency, bytes),
    SA_LAYOUT_FIELD(struct emergency, used),
};
SA_LAYOUT_NAMED_ADDRESS("emergency.first", first);
SA_LAYOUT_NAMED_ADDRESS("emergency.aside", aside);

static void *emergency_carve(struct emergency *e, size_t size, size_t align)
{
    size_t need = size + align + 16, at = sa_load_relaxed(&e->used);
    uintptr_t p;

    do {
        if (e->bytes - at < need)
            return NULL;
    } while (!sa_cas_relaxed(&e->used, &at, at + need));
    p = sa_align_up((uintptr_t)e + at + 16, align);
    ((size_t *)p)[-1] = size;
    return (void *)p;
}

/* A block from a new mapping, which others may then use too. */
static void *emergency_map(size_t size, size_t align)
{
    size_t bytes =
        sa_align_up(sa_max(EMERGENCY_BYTES, sizeof(struct emergency) + size + align + 16),
                    sa_max(sa_vm.page_bytes, 4096));
    struct emergency *e = sa_vm_map(NULL, bytes, "salloc:emergency");
    void *p;

    if (!e)
        return NULL;
    e->bytes = bytes;
    e->used = sizeof(*e);
    p = emergency_carve(e, size, align);
    e->next = sa_load_acquire(&first);
    while (!sa_cas_release(&first, &e->next, e))
        ;
    return p;
}

void *sa_emergency_alloc(size_t size, size_t align)
{
    struct emergency *e = sa_load_acquire(&first);
    void *p;

    if (align < 16)
        align = 16;
    if (size > SIZE_MAX / 4 || align > SIZE_MAX / 4)
        return NULL;
    size = sa_align_up(size, 16);
    p = e ? emergency_carve(e, size, align) : NULL;
    return p ? p : emergency_map(size, align);
}

bool sa_emergency_owns(const void *p, size_t *ret_size)
{
    for (const struct emergency *e = sa_load_acquire(&first); e; e = e->next) {
        if ((uintptr_t)p - (uintptr_t)e < e->bytes) {
            if ((uintptr_t)p % 16 || (uintptr_t)p - (uintptr_t)e < sizeof(*e) + 16)
                return false; /* not the start of a block */
            *ret_size = ((const size_t *)p)[-1];
            return true;
        }
    }
    return false;
}

void sa_emergency_put_aside(void *p)
{
    void *next = sa_load_relaxed(&aside);

    do {
        *(void **)p = next;
    } while (!sa_cas_release(&aside, &next, p));
}

void *sa_emergency_take(void)
{
    if (SA_LIKELY(!sa_load_relaxed(&aside)))
        return NULL;
    return sa_xchg_acquire(&aside, NULL);
}

void sa_emergency_after_fork(void)
{
    sa_store_relaxed(&aside, NULL);
}
