/* SPDX-License-Identifier: Apache-2.0 */
/* Mismatches; see mismatch.h. */
#include "alloc/front/mismatch.h"

#include "alloc/base/fatal.h"
#include "alloc/base/fmt.h"
#include "alloc/base/hardening.h"
#include "alloc/front/slow_path.h"
#include "alloc/hardening/hardened.h"
#include "pagemap/pagemap.h"
#include "sampling/guard/guarded.h"
#include "sampling/guard/misuse.h"
#include "sampling/guard/pointer_lookup.h"
#include "sampling/sampler/sampler.h"

SA_START_DATA bool sa_mismatch_on;

/* What a block was allocated by, its span if that knows, and its size. */
static unsigned origin_of(const void *p, struct sa_span **ret_span, size_t *ret_size)
{
    unsigned cls = sa_pagemap_class((uintptr_t)p);

    *ret_size = sa_front_size_if_ours(p);
    *ret_span = cls ? NULL : sa_pagemap_find((uintptr_t)p);
    if (!*ret_span)
        return sa_hardened_origin(p, cls);
    *ret_size = (*ret_span)->requested;
    return (*ret_span)->origin;
}

/* "operator new[] with alignment 64"; names: of 20 bytes each, by family. */
static void add_function(struct sa_fmt *f, const char (*names)[20], unsigned origin)
{
    sa_fmt_add(f, "%s", names[origin >> SA_ORIGIN_FAMILY]);
    if (origin >> SA_ORIGIN_FAMILY && (origin & SA_ORIGIN_ALIGN_LOG))
        sa_fmt_add(f, " with alignment %zu", sa_origin_align(origin));
}

void sa_mismatch_found(const void *p, unsigned call, bool resized)
{
    static const char makers[][20] = {"malloc", "operator new", "operator new[]"};
    static const char enders[][20] = {"free", "operator delete", "operator delete[]"};
    static const char resizer[][20] = {"realloc"};
    const char *what = resized ? "mismatched realloc" : "mismatched free";
    char text[160] = "";
    struct sa_lookup found;
    struct sa_span *span;
    unsigned origin;
    struct sa_fmt f;
    size_t size;

    if (!sa_mismatch_on)
        return;
    origin = origin_of(p, &span, &size);
    sa_fmt_init(&f, text, sizeof(text));
    sa_fmt_add(&f, "is a block of %zu bytes, allocated by ", size);
    add_function(&f, makers, origin);
    sa_fmt_add(&f, " and %s by ", resized ? "resized" : "freed");
    add_function(&f, resized ? resizer : enders, call);
    if (sa_hardening.marks)
        sa_fatal(what, p, "%s", text);
    if (span && sa_lookup_sample(span, &found))
        sa_misuse_mismatch(what, p, &found, text);
}

void sa_mismatch_adopt(void *p, unsigned origin)
{
    unsigned cls = sa_pagemap_class((uintptr_t)p);
    size_t size = sa_front_size_if_ours(p);
    struct sa_span *span;

    if (!size)
        return; /* of yet another allocator, or put into the reserve of a fork */
    if (!cls && (span = sa_pagemap_find((uintptr_t)p)))
        span->origin = (uint8_t)origin;
    else if (cls && sa_hardening.marks)
        sa_hardened_change(p, cls, size, origin);
}

/* A block is not what a sized free takes it for. */
SA_NORETURN SA_COLD static void sized_fault(struct sa_block b, const void *p, const char *text,
                                            size_t a, size_t size)
{
    struct sa_lookup found;

    if ((b.own_page || !b.cls) && sa_lookup_sample(b.span, &found))
        sa_misuse_sized(p, &found, text, a, size);
    sa_fatal("sized free", p, text, a, size);
}

void sa_mismatch_check_sized(struct sa_block b, const void *p, size_t size, size_t align)
{
    bool known = b.own_page || !b.cls;
    size_t is = b.exact ? b.exact : known ? b.span->requested : sa_size_classes.of[b.cls].size;
    bool wrong;

    if (b.exact)
        wrong = sa_max(size, 1) != is;
    else if (known)
        wrong = size < is || size > (b.cls ? sa_block_bytes(b) : is);
    else
        wrong = sa_block_class(size, align) != b.cls;
    if (wrong)
        sized_fault(b, p, "is a block of %zu bytes, freed as one of %zu", is, size);
    /* Without an alignment: what malloc_usable_size says of a guarded block need not lead to its
     * class. */
    if (b.cls && (align > SA_MIN_ALIGN || !(b.own_page && sa_guarded_span(b.span))) &&
        sa_block_class(size, align) != b.cls)
        sized_fault(b, p, "was not allocated with alignment %zu", sa_max(align, 1), 0);
    if (!sa_mismatch_align_fits(b, align))
        sized_fault(b, p, "was not allocated with alignment %zu", align, 0);
}
