/* SPDX-License-Identifier: Apache-2.0 */
/* Mismatches; see mismatch.h. The message is built on the stack. */
#include "alloc/front/mismatch.h"

#include "alloc/base/fatal.h"
#include "alloc/base/fmt.h"
#include "alloc/base/hardening.h"
#include "alloc/hardening/hardened.h"
#include "sampling/guard/misuse.h"
#include "sampling/guard/pointer_lookup.h"
#include "sampling/stack/stack.h"
#include "sampling/symbolize/private_operators.h"

#include <stdarg.h>

SA_START_DATA bool sa_mismatch_on;

/* Adds a function, as in "operator new[] with alignment 64". names: by family. */
static void add_function(struct sa_fmt *f, const char (*names)[20], unsigned origin)
{
    sa_fmt_add(f, "%s", names[origin >> SA_ORIGIN_FAMILY]);
    if (origin >> SA_ORIGIN_FAMILY && (origin & SA_ORIGIN_ALIGN_LOG))
        sa_fmt_add(f, " with alignment %zu", sa_origin_align(origin));
}

/*
 * True if a mismatch of malloc or free with an operator may be one of an object's own operators,
 * which call malloc and free. found: of a sampled block; NULL: nobody knows who allocated it.
 */
static bool is_by_private_operators(const struct sa_block *b, unsigned call,
                                    const struct sa_lookup *found)
{
    bool is_malloc = b->origin >> SA_ORIGIN_FAMILY == SA_FAMILY_MALLOC;
    const struct sa_stack *maker = found ? found->history.allocated.stack : NULL;
    uintptr_t pc;

    if (is_malloc == (call >> SA_ORIGIN_FAMILY == SA_FAMILY_MALLOC))
        return false;
    if (is_malloc)
        return maker && maker->depth ? sa_private_operators_at(maker->pc[0])
                                     : sa_private_operators_anywhere();
    return sa_stack_capture_caller(&pc, 1) ? sa_private_operators_at(pc)
                                           : sa_private_operators_anywhere();
}

void sa_mismatch_found(const struct sa_block *b, const void *p, unsigned call, bool resized)
{
    static const char makers[][20] = {"malloc", "operator new", "operator new[]"};
    static const char enders[][20] = {"free", "operator delete", "operator delete[]"};
    static const char resizer[][20] = {"realloc"};
    const char *what = resized ? "mismatched realloc" : "mismatched free";
    char text[160] = "";
    size_t size = b->kind == SA_BLOCK_OBJECT ? b->exact : b->span->requested;
    struct sa_lookup found;
    bool sampled;
    struct sa_fmt f;

    SA_DCHECK(b->origin != SA_ORIGIN_UNKNOWN && (b->kind != SA_BLOCK_OBJECT || b->exact));
    if (!sa_mismatch_on)
        return;
    sampled = b->kind != SA_BLOCK_OBJECT && sa_lookup_sample(b->span, &found);
    if (!sampled && !sa_hardening.canaries)
        return;
    if (!resized && is_by_private_operators(b, call, sampled ? &found : NULL))
        return;
    sa_fmt_init(&f, text, sizeof(text));
    sa_fmt_add(&f, "is a block of %zu bytes, allocated by ", size);
    add_function(&f, makers, b->origin);
    sa_fmt_add(&f, " and %s by ", resized ? "resized" : "freed");
    add_function(&f, resized ? resizer : enders, call);
    if (sa_hardening.canaries)
        sa_fatal(what, p, "%s", text);
    sa_misuse_survives(what, p, &found, text);
}

void sa_mismatch_adopt(void *p, unsigned origin)
{
    struct sa_block b;

    sa_block_try(p, &b);
    if (b.kind == SA_BLOCK_NONE)
        return; /* of another allocator, or of the emergency heap */
    if (b.kind != SA_BLOCK_OBJECT)
        b.span->origin = (uint8_t)origin;
    else if (sa_hardening.canaries)
        sa_hardened_change(p, b.cls, sa_hardened_size_if_used(p, b.cls), origin);
}

/* Reports that a block does not have the properties that a sized free names, unless the block
 * crosses between private and shared operators: the private ones round the size up to the
 * alignment. */
SA_COLD static void sized_fault(const struct sa_block *b, const void *p, unsigned call,
                                const char *format, ...)
{
    struct sa_lookup found;
    bool sampled;
    char text[160] = "";
    struct sa_fmt f;
    va_list ap;

    if (!sa_mismatch_on && !sa_hardening.canaries)
        return;
    sampled = b->kind != SA_BLOCK_OBJECT && sa_lookup_sample(b->span, &found);
    if (!sampled)
        found.state = SA_LOOKUP_NOTHING;
    if (b->origin != SA_ORIGIN_UNKNOWN && is_by_private_operators(b, call, sampled ? &found : NULL))
        return;
    sa_fmt_init(&f, text, sizeof(text));
    va_start(ap, format);
    sa_fmt_addv(&f, format, ap);
    va_end(ap);
    if (sa_hardening.canaries)
        sa_fatal("sized free", p, "%s", text);
    sa_misuse_survives("sized free", p, &found, text);
}

/* True if a sized free names a size that the block cannot have. `is`: the size that the block
 * knows. */
static bool size_wrong(const struct sa_block *b, size_t is, size_t size, size_t align)
{
    unsigned cls;

    if (b->exact)
        return sa_max(size, 1) != is;
    switch (b->kind) {
    case SA_BLOCK_OBJECT:
        return sa_block_class(size, align) != b->cls;
    case SA_BLOCK_LARGE: /* one of a size that has a class is sampled: sa_large_alloc_sampled */
        cls = sa_block_class(size, align);
        return size != is && (!cls || cls != sa_block_class(is, align));
    default:
        return size < is || size > sa_block_bytes(b);
    }
}

/* True if the size and the alignment that a sized free names lead to another class. A guarded block
 * without an alignment cannot be judged: the usable size of such a block need not lead to its
 * class. */
static bool class_wrong(const struct sa_block *b, size_t size, size_t align)
{
    if (b->kind == SA_BLOCK_LARGE || (b->kind == SA_BLOCK_GUARDED && align <= SA_MIN_ALIGN))
        return false;
    return sa_block_class(size, align) != b->cls;
}

/* True if a sized free may name an alignment (0: none). In the default mode, any alignment fits a
 * block of a class, and one that is not above the block's own fits a large block. */
static bool align_fits(const struct sa_block *b, size_t align)
{
    size_t is = sa_max(sa_origin_align(b->origin), SA_MIN_ALIGN);

    align = sa_max(align, SA_MIN_ALIGN);
    if (SA_UNLIKELY(sa_hardening.inspect) && b->origin != SA_ORIGIN_UNKNOWN)
        return align == is;
    return b->kind != SA_BLOCK_LARGE || align <= is;
}

void sa_mismatch_check_sized(const struct sa_block *b, const void *p, size_t size, size_t align)
{
    bool is_known = b->exact || b->kind != SA_BLOCK_OBJECT;
    size_t is = b->exact   ? b->exact
                : is_known ? b->span->requested
                           : sa_size_classes.of[b->cls].size;
    unsigned call = sa_caller_origin(sa_max(align, 1));

    if (size_wrong(b, is, size, align))
        sized_fault(b, p, call, "is a block of %s%zu bytes, freed as one of %zu",
                    is_known ? "" : "up to ", is, size);
    else if (class_wrong(b, size, align) || !align_fits(b, align))
        sized_fault(b, p, call, "was not allocated with alignment %zu", sa_max(align, 1));
}
