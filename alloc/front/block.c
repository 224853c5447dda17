/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of blocks; see block.h. Nothing here is shared. */
#include "alloc/front/block.h"

#include "alloc/base/bits.h"
#include "alloc/base/hardening.h"
#include "alloc/base/size_class.h"
#include "alloc/front/large.h"
#include "sampling/guard/guarded.h"

size_t sa_block_bytes(struct sa_block b)
{
    if (b.own_page && sa_guarded_span(b.span))
        return sa_guarded_bytes(b.span); /* the rest is to show overflows */
    if (b.exact)
        return b.exact;
    return b.cls ? sa_size_classes.of[b.cls].size : sa_span_usable_bytes(b.span);
}

unsigned sa_block_class(size_t size, size_t align)
{
    unsigned cls;

    if (size > SA_MID_MAX - sa_hardening.tail || align > SA_PAGE_BYTES)
        return 0;
    cls = sa_size_class_find(sa_max(size, 1) + sa_hardening.tail);
    if (align > SA_MIN_ALIGN)
        while (cls < sa_size_classes.count && sa_size_classes.of[cls].size & (align - 1))
            cls++;
    return cls < sa_size_classes.count ? cls : 0;
}
