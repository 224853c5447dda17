/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting in place, compared with libc's; and the arrays that grow, without memory, too. */
#include "alloc/base/sort.h"

#include "alloc/os/buffer.h"
#include "alloc/os/vm.h"
#include "test/support/cmocka.h"
#include "test/support/faults.h"
#include "test/support/random.h"

#include <stdlib.h>
#include <string.h>

#define MOST 300

struct item {
    unsigned key, twin; /* twin: that elements are moved whole */
    char more[40];
};

static bool item_before(const void *a, const void *b)
{
    return ((const struct item *)a)->key < ((const struct item *)b)->key;
}

static int item_compare(const void *a, const void *b)
{
    return item_before(b, a) - item_before(a, b);
}

/* All lengths up to 300, with many equal keys, already sorted and reversed ones. */
static void test_sort_agrees_with_libc(void **state)
{
    struct test_random random = {7};
    static struct item ours[MOST], theirs[MOST];

    (void)state;
    for (size_t n = 0; n < MOST; n++) {
        for (size_t i = 0; i < n; i++) {
            size_t key = n % 3 == 0   ? i
                         : n % 3 == 1 ? n - i
                                      : test_random_below(&random, n / 2 + 1);

            memset(&ours[i], (int)key, sizeof(ours[i]));
            ours[i].key = (unsigned)key;
            ours[i].twin = (unsigned)key * 3;
        }
        memcpy(theirs, ours, sizeof(ours));
        sa_sort(ours, n, sizeof(*ours), item_before);
        qsort(theirs, n, sizeof(*theirs), item_compare);
        assert_memory_equal(ours, theirs, n * sizeof(*ours));
    }
}

/* Growing keeps the content; new bytes are zero, also where there was something before. */
static void test_buffer_grows(void **state)
{
    struct sa_buffer buffer = {NULL, 0, 0};

    (void)state;
    sa_vm_init();
    for (uint64_t i = 0; i < 100000; i++) {
        uint64_t *word = sa_buffer_add(&buffer, sizeof(*word));

        assert_non_null(word);
        assert_int_equal(*word, 0);
        *word = i;
    }
    for (uint64_t i = 0; i < 100000; i++)
        assert_int_equal(((uint64_t *)buffer.data)[i], i);
    buffer.used = 8;
    assert_int_equal(*(uint64_t *)sa_buffer_add(&buffer, 8), 0);
    sa_buffer_free(&buffer);
    assert_null(buffer.data);
}

/* Without memory, and for sizes that overflow, nothing changes. */
static void test_buffer_without_memory(void **state)
{
    struct sa_buffer buffer = {NULL, 0, 0};

    (void)state;
    test_faults_clear();
    test_faults.mmap_after = 0;
    assert_null(sa_buffer_add(&buffer, 8));
    test_faults_clear();
    assert_non_null(sa_buffer_add(&buffer, 8));
    assert_null(sa_buffer_add(&buffer, SIZE_MAX));
    assert_null(sa_buffer_add(&buffer, SIZE_MAX - 8));
    assert_int_equal(buffer.used, 8);
    sa_buffer_free(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sort_agrees_with_libc),
        cmocka_unit_test(test_buffer_grows),
        cmocka_unit_test(test_buffer_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
