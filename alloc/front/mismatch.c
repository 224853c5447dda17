/* SPDX-License-Identifier: Apache-2.0 */
/* Mismatches; see mismatch.h. */
#include "alloc/front/mismatch.h"

#include "alloc/base/fatal.h"
#include "alloc/base/fmt.h"
#include "alloc/base/hardening.h"
#include "alloc/front/front.h"
#include "alloc/front/hardened.h"
#include "pagemap/pagemap.h"
#include "sampling/misuse.h"
#include "sampling/sampler.h"

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
    struct sa_found found;
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
    if (span && sa_sampler_find(span, &found))
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
        sa_hardened_begin(p, cls, size, origin);
}
