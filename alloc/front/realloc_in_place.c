/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In-place realloc; see realloc_in_place.h. The owner of a block changes it. The layers below guard
 * everything shared.
 *
 * Blocks of classes with a span for each object can grow. The page heap lengthens the span if the
 * pages behind it are free. The span then belongs to the class of the new size, which a sized free
 * of that size names, or becomes a large block. A block of the new class that
 * lies in a cache is preferred: copying to that block takes no lock of the page heap, and a program
 * that grows and frees blocks again and again reuses its freed ones.
 *
 * A growth counts as a free and an allocation, so the new block has a sampling decision of its own.
 * A sampled block does not grow, because it has no span of the ordinary heap.
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

/* From this size on most classes have a span for each object. */
#define GROW_MIN 65536

/* True if blocks of a class can grow in place, or result from that. */
static bool grows_single(unsigned cls)
{
    const struct sa_class *k = &sa_size_classes.of[cls];

    return cls && k->size >= GROW_MIN && sa_class_is_single(k);
}

/* True if a block of a class can become one of the class `to` (0: a large one), and should. */
static bool grow_serves(unsigned cls, unsigned to)
{
    return grows_single(cls) && (!to || (to != cls && grows_single(to) && !sa_cpu_cache_has(to)));
}

/* Makes an object, which holds `bytes` of content, the program's block. If the block is sampled, it
 * moves to pages of its own. */
static void *begin_object(void *object, unsigned cls, size_t bytes, size_t size) SA_INSIDE_GATE
{
    struct sa_sampling_decision decision;

    sa_cpu_cache_note_use();
    sa_cpu_cache_try(cls, &decision);
    return sa_sampled_or(&decision, cls, object, bytes, size, 1);
}

SA_RARE void *sa_realloc_in_place(const struct sa_block *b, void *p, size_t size)
{
    unsigned to = sa_block_class(size, 1);
    size_t bytes = sa_block_bytes(b);

    SA_DCHECK(sa_thread.gate_depth && size > bytes);
    if (sa_hardening.on || b->kind != SA_BLOCK_OBJECT || size > PTRDIFF_MAX ||
        !grow_serves(b->cls, to))
        return NULL;
    SA_DCHECK(sa_load_relaxed(&b->span->state) == SA_SPAN_OBJECTS &&
              b->span->start == (uintptr_t)p);
    sa_cpu_cache_check_freed(b->cls, p);
    if (!(to ? sa_central_extend(b->span, to)
             : sa_central_extend_large(b->span, sa_large_pages(size))))
        return NULL;
    sa_cpu_cache_count_free(b->cls);
    return to ? begin_object(p, to, bytes, size) : sa_large_begin(b->span, size, 1);
}
