/* SPDX-License-Identifier: Apache-2.0 */
/* The optimum that knows the future; see optimum.h. */
#include "alloc/policy/optimum.h"

#include "alloc/base/bits.h"

static void optimum_rise(struct sa_optimum *o, uint64_t now_ns, size_t pages)
{
    while (pages && o->count) {
        struct sa_optimum_fall *f = &o->falls[o->count - 1];
        size_t n = sa_min(pages, f->pages);
        double stay = o->hold * (double)(now_ns - f->at_ns) / 1e9;

        o->cost += (double)n * (stay < o->touch ? stay : o->touch);
        pages -= n;
        f->pages -= n;
        o->count -= f->pages == 0;
    }
    o->cost += (double)pages * o->touch;
    o->top += pages;
}

void sa_optimum_use(struct sa_optimum *o, uint64_t now_ns, size_t used)
{
    if (used < o->used)
        o->falls[o->count++] = (struct sa_optimum_fall){o->used - used, now_ns};
    else if (used > o->used)
        optimum_rise(o, now_ns, used - o->used);
    o->used = used;
}
