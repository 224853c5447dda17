/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address space: what the functions of vm.h promise about content, with the kernel's help and
 * without it.
 */
#include "alloc/os/vm.h"

#include "alloc/base/bits.h"
#include "alloc/os/filter.h"

#include "test/support/cmocka.h"
#include "test/support/faults.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static size_t page;

static bool all_bytes_are(const unsigned char *p, size_t n, unsigned char value)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != value)
            return false;
    return true;
}

static int set_up(void **state)
{
    (void)state;
    sa_vm_init();
    page = sa_vm.page_bytes;
    return 0;
}

static void test_vm_page_size_is_the_kernels(void **state)
{
    (void)state;
    assert_int_equal(page, sysconf(_SC_PAGESIZE));
    assert_int_not_equal(sa_vm.seed, 0);
}

static void test_vm_map_gives_zeroed_writable_memory(void **state)
{
    unsigned char *p = sa_vm_map(NULL, 16 * page, "salloc:test");

    (void)state;
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % page, 0);
    assert_true(all_bytes_are(p, 16 * page, 0));
    memset(p, 1, 16 * page);
    sa_vm_unmap(p, 16 * page);
}

static void test_vm_map_fails_without_address_space(void **state)
{
    uint64_t failures = sa_vm.map_failures;

    (void)state;
    assert_null(sa_vm_map(NULL, (size_t)1 << 60, "salloc:test"));
    assert_int_equal(sa_vm.map_failures, failures + 1);
    test_faults.mmap_after = 0;
    assert_null(sa_vm_map(NULL, page, "salloc:test"));
    test_faults_clear();
    assert_int_equal(sa_vm.map_failures, failures + 2);
}

/* What the kernel has in its tables, against what was touched and made a hugepage, over holes and
 * more ranges than are asked for at once. */
static void test_vm_coverage_is_what_is_touched(void **state)
{
    const size_t huge = 2ul << 20, spots = 200;
    unsigned char *p = sa_vm_map(NULL, 6 * huge, "salloc:test"), *at;
    struct sa_vm_coverage c, of_mappings;
    bool made;

    (void)state;
    at = (unsigned char *)sa_align_up((uintptr_t)p, huge);
    sa_vm_no_hugepages(p, 6 * huge);
    if (!sa_vm_coverage((uintptr_t)p, (uintptr_t)p + 6 * huge, &c))
        TEST_SKIP("the kernel does not tell");
    assert_int_equal(c.resident, 0);
    assert_int_equal(c.huge, 0);
    for (size_t i = 0; i < spots; i++)
        at[i * 2 * page] = 1;
    sa_vm_unmap(at + 2 * huge, huge);
    sa_vm_hugepages(at + 3 * huge, huge);
    memset(at + 3 * huge, 1, huge);
    made = sa_vm_collapse(at + 3 * huge, huge);
    assert_true(sa_vm_coverage((uintptr_t)p, (uintptr_t)p + 6 * huge, &c));
    assert_int_equal(c.resident, spots * page + huge);
    if (made)
        assert_int_equal(c.huge, huge);
    assert_true(sa_vm_mappings_coverage((uintptr_t)p, (uintptr_t)p + 6 * huge, &of_mappings));
    assert_int_equal(of_mappings.resident, c.resident);
    assert_int_equal(of_mappings.huge, c.huge);
    assert_true(
        sa_vm_mappings_coverage((uintptr_t)at + 2 * huge, (uintptr_t)at + 3 * huge, &of_mappings));
    assert_int_equal(of_mappings.resident, 0);
    sa_vm_unmap(p, (size_t)(at + 2 * huge - p));
    sa_vm_unmap(at + 3 * huge, (size_t)(p + 3 * huge - at));
}

static void test_vm_release_gives_zeroes(void **state)
{
    unsigned char *p = sa_vm_map(NULL, 8 * page, "salloc:test");

    (void)state;
    memset(p, 7, 8 * page);
    assert_true(sa_vm_release(p + page, 4 * page));
    assert_true(all_bytes_are(p, page, 7));
    assert_true(all_bytes_are(p + page, 4 * page, 0));
    assert_true(all_bytes_are(p + 5 * page, 3 * page, 7));
    sa_vm_unmap(p, 8 * page);
}

/* Several ranges by one call, where the kernel can: those, and nothing beside them. */
static void test_vm_release_of_runs(void **state)
{
    unsigned char *p = sa_vm_map(NULL, 8 * page, "test");
    const struct iovec runs[] = {{p, page}, {p + 2 * page, 3 * page}, {p + 6 * page, page}};
    const struct iovec odd[] = {{p + 1, page}, {p + 2 * page, page}};
    bool released;

    (void)state;
    assert_non_null(p);
    memset(p, 7, 8 * page);
    released = sa_vm_release_runs(runs, 3);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(p[i * page], released && strchr("02346", '0' + (int)i) ? 0 : 7);
    assert_false(sa_vm_release_runs(odd, 2));
    assert_int_equal(sa_vm_release_runs(runs, 3), released); /* one failure is not for good */
    sa_vm_unmap(p, 8 * page);
    if (!released)
        TEST_SKIP("the kernel cannot");
}

/* Not mlock: sanitizers turn it off. */
static void test_vm_release_of_locked(void **state)
{
    unsigned char *p = sa_vm_map(NULL, 4 * page, "salloc:test");

    (void)state;
    memset(p, 7, 4 * page);
    if (syscall(SYS_mlock, p, 2 * page) != 0)
        TEST_SKIP("no memory may be locked");
    if (sa_vm_release(p, 4 * page)) {
        assert_true(all_bytes_are(p, 4 * page, 0));
        assert_false(sa_vm.keeps_locked);
    } else { /* before Linux 5.18 */
        assert_true(all_bytes_are(p, 4 * page, 7));
        assert_true(sa_vm.keeps_locked);
    }
    memset(p, 7, 4 * page);
    sa_filter_note();
    assert_false(sa_vm_release(p, 4 * page));
    sa_store_relaxed(&sa_filter_known, 0);
    assert_true(all_bytes_are(p, 2 * page, 7)); /* the others may have gone */
    assert_true(sa_vm.keeps_locked);
    sa_store_relaxed(&sa_vm.keeps_locked, false);
    sa_vm_unmap(p, 4 * page);
}

static void test_vm_release_refused_keeps_content(void **state)
{
    unsigned char *p = sa_vm_map(NULL, 4 * page, "salloc:test");
    uint64_t failures = sa_vm.advise_failures;

    (void)state;
    memset(p, 7, 4 * page);
    test_faults.madvise_after = 0;
    assert_false(sa_vm_release(p, 4 * page));
    test_faults_clear();
    assert_true(all_bytes_are(p, 4 * page, 7));
    assert_int_equal(sa_vm.advise_failures, failures + 1);
    assert_false(sa_vm.keeps_locked); /* it was short of memory */
    sa_vm_unmap(p, 4 * page);
}

static void test_vm_renew_gives_zeroes(void **state)
{
    unsigned char *p = sa_vm_map(NULL, 4 * page, "salloc:test");

    (void)state;
    memset(p, 7, 4 * page);
    assert_int_equal(sa_vm_renew(p + page, 2 * page, "salloc:test"), SA_VM_ZEROED);
    assert_true(all_bytes_are(p, page, 7));
    assert_true(all_bytes_are(p + page, 2 * page, 0));
    assert_true(all_bytes_are(p + 3 * page, page, 7));
    memset(p, 8, 4 * page);
    sa_vm_unmap(p, 4 * page);
}

static void test_vm_renew_that_is_refused(void **state)
{
    unsigned char *p = sa_vm_map(NULL, 4 * page, "salloc:test");

    (void)state;
    memset(p, 7, 4 * page);
    test_faults.mmap_after = test_faults.madvise_after = 0;
    assert_int_equal(sa_vm_renew(p + page, 2 * page, "salloc:test"), SA_VM_UNCHANGED);
    assert_true(all_bytes_are(p, 4 * page, 7));
    test_faults.madvise_after = FAULT_NEVER;
    assert_int_equal(sa_vm_renew(p + page, 2 * page, "salloc:test"), SA_VM_ZEROED);
    assert_true(all_bytes_are(p, page, 7));
    assert_true(all_bytes_are(p + page, 2 * page, 0));
    assert_true(all_bytes_are(p + 3 * page, page, 7));
    assert_int_equal(munmap(p + 2 * page, page), 0);
    assert_int_equal(sa_vm_renew(p + page, 2 * page, "salloc:test"), SA_VM_LOST);
    test_faults_clear();
    munmap(p, 4 * page);
}

static bool munmap_fails;
static long munmaps;

int __real_sa_sys_munmap(void *p, size_t bytes);
int __wrap_sa_sys_munmap(void *p, size_t bytes);

int __wrap_sa_sys_munmap(void *p, size_t bytes)
{
    munmaps++;
    return munmap_fails ? -ENOMEM : __real_sa_sys_munmap(p, bytes);
}

/* What the kernel would not let go of goes with the next call, and is counted until then. */
static void test_vm_unmap_that_is_refused(void **state)
{
    uint64_t before = sa_vm_mapped_bytes();
    unsigned char *p[3], *more, there;

    (void)state;
    for (int i = 0; i < 3; i++) {
        p[i] = sa_vm_map(NULL, (4u + i) * page, "salloc:test");
        memset(p[i], 7, page);
    }
    munmap_fails = true;
    for (int i = 0; i < 3; i++)
        sa_vm_unmap(p[i], (4u + i) * page);
    assert_int_equal(sa_vm_mapped_bytes(), before + 15 * page);
    munmap_fails = false;
    more = sa_vm_map(NULL, page, "salloc:test");
    assert_non_null(more);
    assert_int_equal(sa_vm_mapped_bytes(), before + page);
    munmaps = 0;
    sa_vm_unmap(more, page);
    assert_int_equal(munmaps, 1);
    assert_int_equal(sa_vm_mapped_bytes(), before);
    for (int i = 0; i < 3; i++)
        assert_true(mincore(p[i] + 3 * page, page, &there) == -1 || more == p[i] + 3 * page);
    more = sa_vm_map(NULL, page, "salloc:test");
    munmap_fails = true;
    sa_vm_unmap(more, page);
    sa_vm_unmap_refused();
    assert_int_equal(sa_vm_mapped_bytes(), before + page);
    munmap_fails = false;
    sa_vm_unmap_refused();
    assert_int_equal(sa_vm_mapped_bytes(), before);
    munmaps = 0;
    sa_vm_unmap_refused();
    assert_int_equal(munmaps, 0);
}

static void test_vm_move_takes_pages_along(void **state)
{
    unsigned char *from = sa_vm_map(NULL, 64 * page, "salloc:test");
    unsigned char *to = sa_vm_map(NULL, 64 * page, "salloc:test");

    (void)state;
    memset(from, 7, 64 * page);
    memset(to, 9, 64 * page);
    if (!sa_vm_move(from + page, to + page, 32 * page))
        TEST_SKIP("the kernel cannot move pages (before 5.7)");
    assert_true(all_bytes_are(to, page, 9));
    assert_true(all_bytes_are(to + page, 32 * page, 7));
    assert_true(all_bytes_are(to + 33 * page, 31 * page, 9));
    assert_true(all_bytes_are(from, page, 7));
    assert_true(all_bytes_are(from + page, 32 * page, 0)); /* still mapped */
    assert_true(all_bytes_are(from + 33 * page, 31 * page, 7));
    memset(from, 1, 64 * page);
    sa_vm_unmap(from, 64 * page);
    sa_vm_unmap(to, 64 * page);
}

/*
 * A block that was moved once and has since grown lies in two mappings that the kernel keeps apart.
 * Moving it again may fail, but not halfway.
 */
static void test_vm_move_is_all_or_nothing_across_mappings(void **state)
{
    unsigned char *block = sa_vm_map(NULL, 64 * page, "salloc:test");
    unsigned char *other = sa_vm_map(NULL, 64 * page, "salloc:test");
    unsigned char *to = sa_vm_map(NULL, 64 * page, "salloc:test");

    (void)state;
    memset(other, 7, 32 * page);
    if (!sa_vm_move(other, block, 32 * page))
        TEST_SKIP("the kernel cannot move pages (before 5.7)");
    memset(block + 32 * page, 7, 32 * page);
    if (sa_vm_move(block, to, 64 * page)) {
        assert_true(all_bytes_are(to, 64 * page, 7));
        assert_true(all_bytes_are(block, 64 * page, 0));
    } else {
        assert_true(all_bytes_are(block, 64 * page, 7));
    }
}

/* What is mapped is counted to the byte: after mapping, lengthening in either way, failing,
 * unmapping. */
static void test_vm_counts_what_is_mapped(void **state)
{
    uint64_t before = sa_vm_mapped_bytes(), failures = sa_vm.map_failures;
    unsigned char *p = sa_vm_map(NULL, 8 * page, "salloc:test");

    (void)state;
    assert_int_equal(sa_vm_mapped_bytes(), before + 8 * page);
    memset(p, 7, 8 * page);
    p = sa_vm_lengthen(p, 8 * page, 4096 * page);
    assert_non_null(p);
    assert_true(all_bytes_are(p, 8 * page, 7));
    assert_true(all_bytes_are(p + 8 * page, 4088 * page, 0));
    assert_int_equal(sa_vm_mapped_bytes(), before + 4096 * page);
    assert_null(sa_vm_lengthen(p, 4096 * page, (size_t)1 << 60));
    assert_int_equal(sa_vm.map_failures, failures + 1);
    assert_int_equal(sa_vm_mapped_bytes(), before + 4096 * page);
    assert_true(all_bytes_are(p, 8 * page, 7));
    sa_vm_unmap(p + page, 95 * page);
    sa_vm_unmap(p, page);
    assert_int_equal(sa_vm_mapped_bytes(), before + 4000 * page);
    sa_vm_unmap(p + 96 * page, 4000 * page);
    assert_int_equal(sa_vm_mapped_bytes(), before);
}

/* Pages that were touched are in memory, the others not; more pages than are asked for at a
 * time. */
static void test_vm_resident_counts_pages_in_memory(void **state)
{
    const size_t pages = 5000;
    unsigned char *p = sa_vm_map(NULL, pages * page, "salloc:test");

    (void)state;
    sa_vm_no_hugepages(p, pages * page);
    assert_int_equal(sa_vm_resident(p, pages * page), 0);
    for (size_t i = 0; i < pages; i += 7)
        p[i * page + i % page] = 1;
    assert_int_equal(sa_vm_resident(p, pages * page), (pages + 6) / 7 * page);
    assert_int_equal(sa_vm_resident(p + 7 * page + 1, 1), page); /* part of a page counts whole */
    assert_int_equal(sa_vm_resident(p + 7 * page - 1, 2), page);
    sa_vm_unmap(p, pages * page);
    assert_int_equal(sa_vm_resident(p, page), 0); /* nothing there */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vm_page_size_is_the_kernels),
        cmocka_unit_test(test_vm_map_gives_zeroed_writable_memory),
        cmocka_unit_test(test_vm_map_fails_without_address_space),
        cmocka_unit_test(test_vm_coverage_is_what_is_touched),
        cmocka_unit_test(test_vm_release_gives_zeroes),
        cmocka_unit_test(test_vm_release_of_runs),
        cmocka_unit_test(test_vm_release_of_locked),
        cmocka_unit_test(test_vm_release_refused_keeps_content),
        cmocka_unit_test(test_vm_renew_gives_zeroes),
        cmocka_unit_test(test_vm_renew_that_is_refused),
        cmocka_unit_test(test_vm_unmap_that_is_refused),
        cmocka_unit_test(test_vm_move_takes_pages_along),
        cmocka_unit_test(test_vm_move_is_all_or_nothing_across_mappings),
        cmocka_unit_test(test_vm_counts_what_is_mapped),
        cmocka_unit_test(test_vm_resident_counts_pages_in_memory),
    };

    return cmocka_run_group_tests_name("vm", tests, set_up, NULL);
}
