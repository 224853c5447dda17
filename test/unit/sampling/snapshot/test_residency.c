/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resident bytes against pages that the test has touched, locked, and filled with zeros. Nothing is
 * swapped out here (memory that was written a moment ago), so that count is 0.
 */
#include "sampling/snapshot/residency.h"

#include "alloc/os/sys.h"
#include "alloc/os/vm.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"
#include "test/support/start.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGES 3000 /* more than are read at a time */

static struct sa_residency pages;
static size_t page;
static char *memory;
static bool touched[PAGES];

static size_t resident(const char *start, size_t bytes)
{
    struct sa_resident r;

    assert_true(sa_residency_of(&pages, (uintptr_t)start, bytes, &r));
    assert_int_equal(r.swapped, 0);
    return r.resident;
}

/* Bytes of a range that lie in touched pages. */
static size_t expected(size_t from, size_t bytes)
{
    size_t sum = 0;

    for (size_t at = from; at < from + bytes; at++)
        sum += touched[at / page];
    return sum;
}

static void test_residency_of_every_third_page(void **state)
{
    (void)state;
    assert_int_equal(resident(memory, PAGES * page), 0);
    for (size_t i = 0; i < PAGES; i += 3) {
        memory[i * page + i % page] = 1;
        touched[i] = true;
    }
    assert_int_equal(resident(memory, PAGES * page), PAGES / 3 * page);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(resident(memory + i * page, page), i % 3 == 0 ? page : 0);
}

/* Ranges that begin and end anywhere, also within one page. */
static void test_residency_of_parts(void **state)
{
    struct test_random r = {0x2e5};

    (void)state;
    for (int i = 0; i < 300; i++) {
        size_t from = test_random_below(&r, PAGES * page);
        size_t bytes = 1 + test_random_below(&r, i % 2 ? 3 * page : PAGES * page / 64);

        if (from + bytes > PAGES * page)
            bytes = PAGES * page - from;
        assert_int_equal(resident(memory + from, bytes), expected(from, bytes));
    }
    assert_int_equal(resident(memory + 1, PAGES * page - 2), PAGES / 3 * page - 1);
    assert_int_equal(resident(memory, 0), 0);
}

/* Where a read ends in the middle of the range: 512 pages at a time. */
static void test_residency_across_reads(void **state)
{
    (void)state;
    for (size_t first = 0; first < 4; first++)
        for (size_t n = 510; n < 516; n++)
            assert_int_equal(resident(memory + first * page + 5, n * page),
                             expected(first * page + 5, n * page));
}

static void test_residency_after_release(void **state)
{
    (void)state;
    assert_true(sa_vm_release(memory, 600 * page));
    for (size_t i = 0; i < 600; i++)
        touched[i] = false;
    assert_int_equal(resident(memory, PAGES * page), (PAGES - 600) / 3 * page);
    munmap(memory + 600 * page, 300 * page);
    for (size_t i = 600; i < 900; i++)
        touched[i] = false;
    assert_int_equal(resident(memory, PAGES * page), (PAGES - 900) / 3 * page);
}

/* A mapping of its own, each page touched. */
static char *fresh(size_t n)
{
    char *p = mmap(NULL, n * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(p != MAP_FAILED);
    sa_vm_no_hugepages(p, n * page);
    memset(p, 0, n * page);
    return p;
}

static void lock(char *p, size_t n)
{
    if (syscall(SYS_mlock, p, n * page) != 0) /* sanitizers replace mlock by nothing */
        TEST_SKIP("this process may not lock memory");
}

static struct sa_resident all_of(const char *start, size_t bytes)
{
    struct sa_resident r;

    assert_true(sa_residency_of(&pages, (uintptr_t)start, bytes, &r));
    return r;
}

/* Pages that are locked, and resident: with mlock2's MLOCK_ONFAULT those that were touched. */
static void test_residency_of_locked_pages(void **state)
{
    char *p = fresh(16);

    (void)state;
    assert_int_equal(all_of(p, 16 * page).locked, 0);
    lock(p + 4 * page, 3);
    assert_int_equal(all_of(p, 16 * page).locked, 3 * page);
    assert_int_equal(all_of(p, 4 * page).locked, 0);
    assert_int_equal(all_of(p + 5, 4 * page).locked, 5);
    assert_int_equal(all_of(p + 6 * page + 1, 10).locked, 10);
    syscall(SYS_munlock, p, 16 * page);
    assert_int_equal(all_of(p, 16 * page).locked, 0);
    sa_vm_release(p + 8 * page, 8 * page);
    if (syscall(SYS_mlock2, p + 7 * page, 4 * page, MLOCK_ONFAULT) == 0) {
        p[9 * page] = 1;
        assert_int_equal(all_of(p, 16 * page).locked, 2 * page);
    }
    munmap(p, 16 * page);
}

/* Many pages are looked at in parts: what is locked in part of one counts as a whole. */
static void test_residency_of_many_locked_pages(void **state)
{
    size_t n = 64 * 4 - 2; /* parts of 4 pages */
    char *p = fresh(n);

    (void)state;
    lock(p + 10 * page, 5); /* in those from 8 to 15 */
    assert_int_equal(all_of(p, n * page).locked, 8 * page);
    lock(p, n);
    assert_int_equal(all_of(p, n * page).locked, n * page);
    munmap(p, n * page);
}

/* Exact to the byte up to 64 resident pages: a byte that is not 0 takes its page, as far as it is
 * in the range. */
static void test_residency_of_zeros(void **state)
{
    char *p = fresh(64);

    (void)state;
    assert_int_equal(all_of(p, 64 * page).zero, 64 * page);
    p[3 * page] = p[10 * page + 17] = p[64 * page - 1] = 1;
    assert_int_equal(all_of(p, 64 * page).zero, 61 * page);
    assert_int_equal(all_of(p + 10 * page, 17).zero, 17);
    assert_int_equal(all_of(p + 10 * page, 18).zero, 0);
    assert_int_equal(all_of(p + 10 * page + 18, page).zero, page);
    assert_int_equal(all_of(p + 64 * page - 100, 99).zero, 99);
    assert_int_equal(all_of(p + 64 * page - 100, 100).zero, 0);
    /* Nothing is read that is not in memory, and what the program may not read is no fault. */
    sa_vm_release(p + 32 * page, 8 * page);
    mprotect(p, 8 * page, PROT_NONE);
    assert_int_equal(all_of(p, 64 * page).zero, 53 * page);
    assert_int_equal(all_of(p, 64 * page).resident, 56 * page);
    munmap(p, 64 * page);
}

/*
 * Of many pages 64 are looked at. What is alike is exact; of a random mix of k parts the estimate
 * is within five deviations (less than one run in a million), which for zeros in a third of the
 * pages are 5 sqrt(64 2/9) / 64 = 29 %.
 */
static void test_residency_of_many_zeros(void **state)
{
    struct test_random random = {0x2e05};
    size_t n = 2000, zeros = 0;
    char *p = fresh(n);
    double part;

    (void)state;
    assert_int_equal(all_of(p, n * page).zero, n * page);
    assert_int_equal(all_of(p + 1, n * page - 2).zero, n * page - 2);
    for (size_t i = 0; i < n; i++)
        p[i * page] = 1;
    assert_int_equal(all_of(p, n * page).zero, 0);
    for (size_t i = 0; i < n; i++) {
        p[i * page] = test_random_below(&random, 3) != 0;
        zeros += p[i * page] == 0;
    }
    part = (double)all_of(p, n * page).zero / (double)(n * page);
    assert_true(part > (double)zeros / (double)n - 0.29 && part < (double)zeros / (double)n + 0.29);
    munmap(p, n * page);
}

/* Where there are many ranges less is looked at; up to as many pages it is exact. */
static void test_residency_of_many_ranges(void **state)
{
    static const struct {
        size_t ranges;
        unsigned looks;
    } cases[] = {{0, 64}, {1, 64}, {255, 64}, {256, 63}, {1000, 16}, {4095, 4}, {SIZE_MAX - 1, 4}};
    char *p = fresh(64);

    (void)state;
    for (size_t i = 0; i < 64; i++)
        p[i * page] = i % 2 != 0;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct sa_residency some;
        struct sa_resident r;

        sa_residency_open(&some, cases[i].ranges);
        assert_int_equal(some.looks, cases[i].looks);
        assert_true(sa_residency_of(&some, (uintptr_t)p, cases[i].looks / 2 * 2 * page, &r));
        assert_int_equal(r.zero, cases[i].looks / 2 * page);
        sa_residency_close(&some);
    }
    munmap(p, 64 * page);
}

static void test_residency_knows_what_the_kernel_tells(void **state)
{
    struct sa_residency none = {.fd = pages.fd, .memory = -1, .knows = SA_KNOWS_PAGES};
    char *p = fresh(4);
    struct sa_resident r;

    (void)state;
    assert_int_equal(pages.knows, SA_KNOWS_PAGES | SA_KNOWS_LOCKED | SA_KNOWS_ZERO);
    lock(p, 1);
    assert_true(sa_residency_of(&none, (uintptr_t)p, 4 * page, &r));
    assert_true(r.resident == 4 * page && r.locked == 0 && r.zero == 0);
    munmap(p, 4 * page);
}

static void test_residency_that_cannot_be_known(void **state)
{
    struct sa_residency closed = {.fd = -1, .memory = -1}, bad = {.fd = 1000000, .memory = -1};
    struct sa_resident r = {1, 1, 1, 1};

    (void)state;
    assert_false(sa_residency_of(&closed, (uintptr_t)memory, page, &r));
    assert_true(r.resident == 0 && r.swapped == 0 && r.locked == 0 && r.zero == 0);
    assert_false(sa_residency_of(&bad, (uintptr_t)memory, page, &r));
    sa_residency_close(&closed);
    /* Beyond the end of the address space there is nothing to read. */
    assert_false(sa_residency_of(&pages, (uintptr_t)1 << 62, page, &r));
}

static int set_up(void **state)
{
    (void)state;
    page = sa_vm.page_bytes;
    memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sa_vm_no_hugepages(memory, PAGES * page);
    sa_residency_open(&pages, 1);
    return memory == MAP_FAILED || pages.fd < 0;
}

static int tear_down(void **state)
{
    (void)state;
    sa_residency_close(&pages);
    return pages.fd != -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_residency_of_every_third_page),
        cmocka_unit_test(test_residency_of_parts),
        cmocka_unit_test(test_residency_across_reads),
        cmocka_unit_test(test_residency_after_release),
        cmocka_unit_test(test_residency_of_locked_pages),
        cmocka_unit_test(test_residency_of_many_locked_pages),
        cmocka_unit_test(test_residency_of_zeros),
        cmocka_unit_test(test_residency_of_many_zeros),
        cmocka_unit_test(test_residency_of_many_ranges),
        cmocka_unit_test(test_residency_knows_what_the_kernel_tells),
        cmocka_unit_test(test_residency_that_cannot_be_known),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("residency", tests, set_up, tear_down);
}
