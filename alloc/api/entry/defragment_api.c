/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of include/salloc/salloc.h for programs that move their blocks. */
#include "include/salloc/salloc.h"

#include "alloc/api/init.h"
#include "alloc/base/bits.h"
#include "alloc/base/size_class.h"
#include "alloc/base/sort.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/front/defragment.h"
#include "alloc/middle/central_free_list.h"

#include <errno.h>
#include <string.h>

SA_RARE SA_EXPORT int salloc_worth_moving(const void *p)
{
    return sa_front_worth_moving(p);
}

SA_RARE SA_EXPORT void *salloc_move(void *p)
{
    int saved = errno;
    void *q = sa_front_move(p);

    errno = saved;
    return q;
}

static bool more_excess(const void *a, const void *b)
{
    const struct salloc_defragment_target *x = a, *y = b;

    return x->excess_bytes > y->excess_bytes;
}

SA_RARE SA_EXPORT size_t salloc_defragment_targets(struct salloc_defragment_target *targets,
                                                   size_t count, size_t target_bytes)
{
    struct salloc_defragment_target all[SA_CLASSES_MAX];
    size_t n = 0;

    if ((!targets && count) || target_bytes != sizeof(*targets)) {
        errno = EINVAL;
        return 0;
    }
    sa_init();
    if (!sa_fork_gate_enter()) {
        errno = EAGAIN;
        return 0;
    }
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        struct sa_central_stats stats;
        size_t excess;

        sa_central_stats(cls, &stats);
        excess = sa_central_excess_bytes(cls, &stats);
        if (excess)
            all[n++] = (struct salloc_defragment_target){sa_size_classes.of[cls].size, stats.spans,
                                                         stats.free_objects, excess};
    }
    sa_fork_gate_leave();
    sa_sort(all, n, sizeof(*all), more_excess);
    if (count)
        memcpy(targets, all, sa_min(n, count) * sizeof(*all));
    return n;
}
