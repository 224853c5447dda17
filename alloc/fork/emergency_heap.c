/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emergency heap; see emergency_heap.h. A block has a 16-byte header with its size, and is
 * recognised by the mapping that contains it. The list of mappings only grows.
 *
 * Shared words, all atomic: `first` is published with release order and read with acquire order.
 * `used` of a mapping is advanced by compare and swap, without an order: each thread writes only
 * the bytes that its swap has carved. A fresh mapping is zero, so a carved block is as well.
 *
 * The heads `aside` and `freed` are lists without a lock. A push is a compare and swap of the head,
 * with release order. A pop takes the whole list by an exchange, with acquire order: no other
 * thread has those blocks then, and their links do not change. The rest goes back at once if the
 * list is still empty, otherwise block by block. Meanwhile other threads find an empty list and
 * carve new blocks. A thread that is killed in between loses the blocks that it has taken.
 */
#include "alloc/fork/emergency_heap.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/layout.h"
#include "alloc/base/size_class.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/os/sys.h"
#include "alloc/os/vm.h"

#include <string.h>
#include <sys/mman.h>

/* The minimum length of a mapping. */
#define EMERGENCY_BYTES (1ul << 20)
#define EMERGENCY_TRIES 4  /* mappings that an allocation tries before it makes a new one */
#define LARGE_LISTS     48 /* lists; one for each power of two above the largest class */
/* Freed blocks of this size and more give their memory back. */
#define RETURN_BYTES (256ul << 10)

struct emergency {
    struct emergency *next; /* const once published */
    size_t bytes;           /* const once published; length of the mapping */
    size_t used;            /* from the mapping's start; atomic, see above */
};

static struct emergency *first; /* the latest mapping; atomic, see above */
/* Head of the list for later: blocks linked by their first word; atomic. */
static SA_START_DATA void *aside;

/* Heads of the lists of freed blocks, by list_for: first those of the classes. Atomic. */
static void *freed[SA_CLASSES_MAX + LARGE_LISTS];

SA_LAYOUT = {
    SA_LAYOUT_SIZE(struct emergency),
    SA_LAYOUT_FIELD(struct emergency, next),
    SA_LAYOUT_FIELD(struct emergency, bytes),
    SA_LAYOUT_FIELD(struct emergency, used),
};
SA_LAYOUT_STATIC_ADDRESS("emergency.first", first);
SA_LAYOUT_STATIC_ADDRESS("emergency.aside", aside);

/* Carves a block from a mapping; NULL: there is no room. `size` is a multiple of 16. */
SA_RARE static void *emergency_carve(struct emergency *e, size_t size, size_t align)
{
    size_t need = size + align + 16, at = sa_load_relaxed(&e->used);
    uintptr_t p;

    SA_DCHECK(size % 16 == 0 && align >= 16 && sa_is_pow2(align) && at <= e->bytes);
    do {
        if (e->bytes - at < need)
            return NULL;
    } while (!sa_cas_relaxed(&e->used, &at, at + need));
    p = sa_align_up((uintptr_t)e + at + 16, align);
    ((size_t *)p)[-1] = size;
    return (void *)p;
}

/* Allocates a block from a new mapping, which other threads may use afterwards. */
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
    SA_DCHECK(p); /* the mapping was made for this block */
    while (!sa_cas_release(&first, &e->next, e))
        ;
    return p;
}

/* The list that serves a request of `size` bytes. *ret_bytes receives the minimum size of its
 * blocks. */
static unsigned list_for(size_t size, size_t *ret_bytes)
{
    unsigned list = SA_CLASSES_MAX;

    if (size <= SA_MID_MAX) {
        list = sa_size_class_find(sa_max(size, 1));
        *ret_bytes = sa_size_classes.of[list].size;
        return list;
    }
    for (*ret_bytes = SA_MID_MAX * 2; *ret_bytes < size; *ret_bytes *= 2)
        list++;
    return list;
}

/* Puts a block on a list. */
static void list_push(unsigned list, void *p)
{
    void *next = sa_load_relaxed(&freed[list]);

    SA_DCHECK(p && list && list < SA_CLASSES_MAX + LARGE_LISTS);
    do {
        *(void **)p = next;
    } while (!sa_cas_release(&freed[list], &next, p));
}

/* Takes a block from a list; NULL: the list is empty. */
static void *list_pop(unsigned list)
{
    void *p = sa_xchg_acquire(&freed[list], NULL), *rest = p ? *(void **)p : NULL, *none = NULL;

    if (!rest || sa_cas_release(&freed[list], &none, rest))
        return p;
    while (rest) { /* another thread has freed a block meanwhile */
        void *next = *(void **)rest;

        list_push(list, rest);
        rest = next;
    }
    return p;
}

SA_RARE void sa_emergency_heap_free(void *p, size_t bytes)
{
    size_t min = 0;
    unsigned list;
    uintptr_t page = sa_max(sa_vm.page_bytes, 4096);
    uintptr_t from = sa_align_up((uintptr_t)p + sizeof(void *), page);
    uintptr_t to = ((uintptr_t)p + bytes) & ~(page - 1);

    if (bytes < sizeof(void *))
        return;
    list = list_for(bytes, &min);
    if (bytes >= RETURN_BYTES && to > from)
        sa_sys_madvise((void *)from, to - from, MADV_DONTNEED);
    if (min > bytes) /* too short for this list: the list before serves smaller requests */
        list = list == SA_CLASSES_MAX ? sa_size_classes.count - 1 : list - 1;
    if (list)
        list_push(list, p);
}

/* Allocates a freed block, and clears it. NULL: the list is empty, or its first block does not have
 * the alignment. */
static void *emergency_reuse(size_t size, size_t align)
{
    size_t bytes;
    unsigned list = list_for(size, &bytes);
    void *p = list_pop(list);

    if (!p)
        return NULL;
    if ((uintptr_t)p % align) {
        list_push(list, p);
        return NULL;
    }
    return memset(p, 0, size);
}

SA_RARE void *sa_emergency_heap_alloc(size_t size, size_t align)
{
    struct emergency *e = sa_load_acquire(&first);
    void *p;

    if (align < 16)
        align = 16;
    if (size > SIZE_MAX / 4 || align > SIZE_MAX / 4)
        return NULL;
    if ((p = emergency_reuse(size, align)))
        return p;
    /* Rounds the size up to that of a list, so that the block can be used again. */
    list_for(size, &size);
    size = sa_align_up(size, 16);
    for (int tries = 0; e && tries < EMERGENCY_TRIES; tries++, e = e->next)
        if ((p = emergency_carve(e, size, align)))
            return p;
    return emergency_map(size, align);
}

bool sa_emergency_heap_owns(const void *p, size_t *ret_size)
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

SA_RARE void sa_emergency_heap_put_aside(void *p)
{
    void *next = sa_load_relaxed(&aside);

    do {
        *(void **)p = next;
    } while (!sa_cas_release(&aside, &next, p));
}

void *sa_emergency_heap_take(void)
{
    if (SA_LIKELY(!sa_load_relaxed(&aside)))
        return NULL;
    return sa_xchg_acquire(&aside, NULL);
}

SA_FORK void sa_emergency_heap_after_fork(void)
{
    sa_store_changed(&aside, NULL);
}
