/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the allocator in a test program; see start.h. */
#include "test/support/start.h"

#include "alloc/base/attrs.h"
#include "alloc/base/size_class.h"
#include "alloc/start/fast_path_open.h"
#include "alloc/os/percpu.h"
#include "alloc/os/rseq.h"
#include "alloc/os/vdso.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define START_SEED 0x5eed5eedull /* heap addresses are the same in every run */

static bool start_allows_rseq(void)
{
    const char *caches = getenv("SALLOC_TEST_CACHES");

    return !SA_TSAN && !(caches && strcmp(caches, "thread") == 0);
}

void test_start_layers(void)
{
    static bool started;

    sa_limits.watch = 0; /* what is tested does not depend on the group that tests run in */
    if (started)
        return;
    started = true;
    sa_vm_init();
    sa_vdso_init();
    sa_size_class_init(sa_vm.page_bytes, SA_SLAB_BEGIN / 8, sizeof(struct sa_slab) / 8);
    sa_pagemap_close();
    sa_pagemap_init();
    sa_page_heap_init(START_SEED);
    sa_rseq_init(start_allows_rseq());
}

void test_start(size_t cpu_cache_limit)
{
    static bool started;

    test_start_layers();
    if (started)
        return;
    started = true;
    sa_front_init(cpu_cache_limit);
}

bool test_per_cpu(void)
{
    test_start_layers();
    return sa_rseq.per_cpu;
}

void test_pin(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)sched_getcpu(), &set);
    sched_setaffinity(0, sizeof(set), &set);
}
