/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Realloc of blocks that grow; see realloc_in_place.h. What is done to a block is done by its
 * owner: nothing here is shared but what the layers below guard themselves.
 *
 * The blocks are those of the classes that have a span for each object. The span is lengthened if
 * what is behind it is free, and becomes one of the class that the new size asks for, as a sized
 * free of it looks at nothing else; or a large block. But a block of that class that lies in a
 * cache is better: to copy to it takes no lock of the page heap, and a program that lets blocks
 * grow and frees them finds the ones that it has freed.
 *
 * A growth is a free and an allocation: the new block is sampled or not by a trial of its own. A
 * sampled block does not grow: no span of the ordinary heap is its own.
 */
#include "alloc/front/realloc_in_place.h"

#include "alloc/base/fatal.h"
#include "alloc/base/hardening.h"
#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/front/large.h"
#include "alloc/front/sampled.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/os/thread.h"
#include "pagemap/pagemap.h"

/* From here on most classes have a span for each object. */
#define GROW_MIN 65536

static bool grows_alone(unsigned cls)
{
    const struct sa_class *k = &sa_size_classes.of[cls];

    return cls && k->size >= GROW_MIN && sa_class_alone(k);
}

/* Whether a block can become one of the class (0: a large one), and should. */
static bool grow_serves(unsigned cls, unsigned to)
{
    return grows_alone(cls) && (!to || (to != cls && grows_alone(to) && !sa_cpu_cache_has(to)));
}

/* An object that holds `bytes` of content as the program's block: sampled, it is elsewhere. */
static void *begin_object(void *object, unsigned cls, size_t bytes, size_t size)
{
    struct sa_sampling_decision trial;
    void *sampled = NULL;

    sa_cpu_cache_note_use();
    sa_cpu_cache_try(cls, &trial);
    if (SA_UNLIKELY(trial.won))
        sampled = sa_sampled_begin(&trial, cls, object, bytes, size, 1);
    return sampled ? sampled : object;
}

SA_RARE void *sa_realloc_in_place(const struct sa_block *b, void *p, size_t size)
{
    unsigned to = sa_block_class(size, 1);
    size_t bytes = sa_block_bytes(b);
    struct sa_span *s;

    SA_DCHECK(sa_thread.gate_depth && size > bytes);
    if (sa_hardening.on || b->kind != SA_BLOCK_OBJECT || size > PTRDIFF_MAX ||
        !grow_serves(b->cls, to))
        return NULL;
    sa_cpu_cache_check_freed(b->cls, p);
    s = sa_pagemap_span((uintptr_t)p);
    if (!s || !(to ? sa_central_extend(s, to) : sa_central_extend_large(s, sa_large_pages(size))))
        return NULL;
    sa_cpu_cache_count_free(b->cls);
    return to ? begin_object(p, to, bytes, size) : sa_large_begin(s, size, 1);
}
