/* SPDX-License-Identifier: Apache-2.0 */
/* Objects at a multiple of an alignment; see realign.h. An exchange goes past the caches, so that
 * no counter changes, and the object does not come again. */
#include "alloc/front/realign.h"

#include "alloc/base/fatal.h"
#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/fork/deferred_calls.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/front/slow_path.h"
#include "alloc/maintain/maintenance.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/os/clock.h"
#include "alloc/os/thread.h"
#include "alloc/page_heap/account/peak.h"

SA_RARE void *sa_realign_checked(unsigned cls, void *object, size_t align)
{
    void *other;

    SA_DCHECK(sa_thread.gate_depth);
    if (!((uintptr_t)object & (align - 1)))
        return object;
    other = sa_central_remove_aligned(cls);
    if (!other) {
        sa_in_use_add(-(int64_t)sa_size_classes.of[cls].size);
        sa_cpu_cache_count_free(cls);
    }
    sa_central_insert(cls, &object, 1);
    return other;
}

SA_RARE void *sa_front_realign(unsigned cls, void *object, size_t align)
{
    void *other;

    if (!sa_fork_gate_enter()) {
        sa_front_free_aligned(object, 0);
        return NULL;
    }
    other = sa_realign_checked(cls, object, align);
    sa_maintenance_poll(sa_clock_coarse_ns());
    sa_fork_gate_leave();
    sa_deferred_call_run();
    return other;
}
