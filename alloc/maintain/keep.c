/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps free memory; see keep.h. A real-time program locks its memory, touches a reserve, frees it,
 * and expects no page fault from then on. The reserve is ordinary free memory. What lies elsewhere
 * is touched here: the caches of the CPUs that the process may use, the first pages for sampled
 * blocks, the table of stacks, and records. No state but sa_limits.keep.
 */
#include "alloc/maintain/keep.h"

#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/os/filter.h"
#include "alloc/os/rseq.h"
#include "alloc/os/sys.h"
#include "alloc/os/thread.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/page_heap.h"
#include "sampling/estimate/rates.h"
#include "sampling/stack/stack.h"

/* Pages for sampled blocks: 2 MiB. */
#define SAMPLED_PAGES ((2ul << 20) >> SA_PAGE_SHIFT)

#define CPUS_MAX 4096

/* Without a cache per CPU, other threads make theirs when they come. */
static void prepare_caches(void)
{
    unsigned char allowed[CPUS_MAX / 8] = {0};
    int bytes = sa_rseq.per_cpu && !sa_filtered() ? sa_sys_affinity(allowed, sizeof(allowed)) : 0;

    for (int cpu = 0; cpu < 8 * bytes && (unsigned)cpu < sa_rseq.cpus; cpu++)
        if (allowed[cpu / 8] >> cpu % 8 & 1)
            sa_cpu_cache_prepare(cpu);
    if (!sa_rseq.per_cpu && sa_thread.area.cpu_id > 0)
        sa_cpu_cache_prepare(sa_thread.area.cpu_id);
}

static void prepare_sampled(void)
{
    struct sa_span *s = sa_page_heap_alloc(&sa_page_heap_sampled, SAMPLED_PAGES, 1, SA_PAGES_ANY);

    if (!s)
        return;
    sa_vm_populate((void *)s->start, sa_span_bytes(s));
    sa_page_heap_free(&sa_page_heap_sampled, s, false);
}

SA_RARE void sa_keep_set(size_t bytes)
{
    sa_store_relaxed(&sa_limits.keep, bytes == SIZE_MAX ? SA_KEEP_ALL : bytes >> SA_PAGE_SHIFT);
    if (bytes != SIZE_MAX)
        return;
    sa_limits_set_group(SA_NO_LIMIT);
    sa_page_heap_prepare(&sa_page_heap_ordinary);
    prepare_caches();
    if (sa_rates_interval() > 0) {
        prepare_sampled();
        sa_stack_table_prepare();
    }
}
