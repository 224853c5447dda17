/* SPDX-License-Identifier: Apache-2.0 */
/* The table of caches: the order of the two stores that make a cache known. */
#include "alloc/base/bits.h"
#include "alloc/cpu_cache/cpu_cache_internal.h"
#include "alloc/fork/cpu_closed.h"
#include "alloc/os/rseq.h"
#include "alloc/os/vm.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/start.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#define LIMIT (1024ul * 1024)

static int cpu;
static volatile sig_atomic_t stores, open_before;

/* The first CPU whose entry begins a page of the table; -1: none does. */
static int first_on_a_page(void)
{
    uintptr_t start = (uintptr_t)sa_cpu_caches;
    uintptr_t page = sa_align_up(start, sa_vm.page_bytes);

    return page + sa_vm.page_bytes <= start + sizeof(sa_cpu_caches)
               ? (int)((page - start) / sizeof(sa_cpu_caches[0]))
               : -1;
}

/* The store to the table has faulted: notes whether the CPU is open, and lets the store pass. */
static void on_store(int signal)
{
    (void)signal;
    stores++;
    open_before = !sa_slab_is_closed(sa_load_acquire(&sa_hot.slabs[cpu]));
    if (mprotect(&sa_cpu_caches[cpu], sa_vm.page_bytes, PROT_READ | PROT_WRITE) != 0)
        _exit(1);
}

/* Makes the cache of a number that no thread has, with its entry of the table read-only. */
static void populate(void *unused)
{
    (void)unused;
    sa_rseq.per_cpu = false; /* then any number may have a cache */
    sa_hot.slabs[cpu] = &sa_slab_empty;
    CHILD_CHECK(signal(SIGSEGV, on_store) != SIG_ERR);
    CHILD_CHECK(mprotect(&sa_cpu_caches[cpu], sa_vm.page_bytes, PROT_READ) == 0);
    CHILD_CHECK(sa_cpu_cache_populate(cpu));
    CHILD_CHECK(stores == 1 && sa_cpu_caches[cpu] && sa_slab_is_closed(&sa_slab_empty));
    CHILD_CHECK(open_before);
}

/*
 * A cache is opened before other threads can find it in the table. Otherwise one of them could take
 * the cache's lock and stop the CPU, and this thread would open the CPU meanwhile: it holds another
 * lock, of the same rank.
 */
static void test_cpu_cache_opened_before_found(void **state)
{
    (void)state;
    cpu = first_on_a_page();
    if (cpu < 0)
        TEST_SKIP("no page of the table has no other variables");
    test_child_passes(populate, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu_cache_opened_before_found),
    };

    test_start(LIMIT);
    return cmocka_run_group_tests_name("cpu_cache_table", tests, NULL, NULL);
}
