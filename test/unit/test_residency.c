/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resident bytes against pages that the test has touched. Nothing is swapped out here (memory that was
 * written a moment ago), so the other count is 0.
 */
#include "sampling/residency.h"

#include "alloc/os/sys.h"
#include "alloc/os/vm.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"
#include "test/support/start.h"

#include <sys/mman.h>

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

static void test_residency_that_cannot_be_known(void **state)
{
    struct sa_residency closed = {.fd = -1}, bad = {.fd = 1000000};
    struct sa_resident r = {1, 1};

    (void)state;
    assert_false(sa_residency_of(&closed, (uintptr_t)memory, page, &r));
    assert_true(r.resident == 0 && r.swapped == 0);
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
    sa_residency_open(&pages);
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
        cmocka_unit_test(test_residency_that_cannot_be_known),
    };

    test_start_floors();
    return cmocka_run_group_tests_name("residency", tests, set_up, tear_down);
}
