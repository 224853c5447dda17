/* SPDX-License-Identifier: Apache-2.0 */
/* Long ranges word by word, and short ones in lines: all that can be read comes once, in order. */
#include "tool/heap/pages.h"
#include "tool/leaks/scan.h"

#include "test/support/cmocka.h"
#include "test/support/made_target.h"

#include <stdlib.h>
#include <unistd.h>

#define RW   (SA_ACCESS_READ | SA_ACCESS_WRITE)
#define BASE 0x10000000
#define PAGE 4096

static uint64_t first[3 * SA_SCAN_BYTES / 8], second[5 * PAGE / 8];
static struct sa_target target = {.kind = &made_kind};

struct seen {
    uint64_t next, words, stop_at;
};

/* [first][a page that cannot be read][second] */
static void make_target(void)
{
    made_count = 0;
    made_add(BASE, sizeof(first), RW, first);
    made_add(BASE + sizeof(first), PAGE, 0, NULL);
    made_add(BASE + sizeof(first) + PAGE, sizeof(second), RW, second);
    for (size_t i = 0; i < sizeof(first) / 8; i++)
        first[i] = BASE + 8 * i;
    for (size_t i = 0; i < sizeof(second) / 8; i++)
        second[i] = BASE + sizeof(first) + PAGE + 8 * i;
}

static bool look(void *arg, uint64_t address, const uint64_t *words, size_t count)
{
    struct seen *s = arg;

    assert_true(address >= s->next && count > 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(words[i], address + 8 * i);
    s->next = address + 8 * count;
    s->words += count;
    return s->next < s->stop_at;
}

static void test_scan_leaves_out_what_cannot_be_read(void **state)
{
    struct seen s = {.stop_at = UINT64_MAX};
    struct sa_scan scan;

    (void)state;
    make_target();
    assert_true(sa_scan_open(&scan, &target));
    assert_true(sa_scan_range(&scan, BASE, BASE + sizeof(first) + PAGE + sizeof(second), look, &s));
    assert_int_equal(s.words, (sizeof(first) + sizeof(second)) / 8);
    /* Parts of words at the ends are none. */
    s = (struct seen){.stop_at = UINT64_MAX};
    assert_true(sa_scan_range(&scan, BASE + 1, BASE + 8 * 11 + 7, look, &s));
    assert_int_equal(s.words, 10);
    assert_true(sa_scan_range(&scan, BASE + 1, BASE + 7, look, &s));
    assert_true(sa_scan_range(&scan, BASE + 800, BASE, look, &s));
    assert_int_equal(s.words, 10);
    /* It ends when it is told to. */
    s = (struct seen){.stop_at = BASE + SA_SCAN_BYTES};
    assert_false(sa_scan_range(&scan, BASE, BASE + sizeof(first), look, &s));
    assert_true(s.words <= SA_SCAN_BYTES / 8);
    sa_scan_close(&scan);
    assert_true(scan.pages < 0);
}

static void test_pages_read_as_the_target_does(void **state)
{
    const uint64_t end = BASE + sizeof(first) + PAGE + sizeof(second);
    struct sa_pages pages;
    unsigned seed = 3;

    (void)state;
    make_target();
    assert_true(sa_pages_open(&pages, &target, 64 << 20, UINT64_MAX));
    for (int i = 0; i < 20000; i++) {
        uint64_t at = BASE - PAGE + (uint64_t)rand_r(&seed) % (end - BASE + 2 * PAGE);
        size_t bytes = (size_t)rand_r(&seed) % (i % 10 ? 100 : 40000);
        static char ours[40000], theirs[40000];
        bool fine = sa_target_read(&target, at, theirs, bytes);

        assert_int_equal(sa_pages_read(&pages, at, ours, bytes), fine);
        if (fine)
            assert_memory_equal(ours, theirs, bytes);
    }
    assert_false(sa_pages_read(&pages, UINT64_MAX - 3, &seed, sizeof(seed)));
    assert_false(sa_pages_read(&pages, 0, &seed, sizeof(seed)));
    sa_pages_close(&pages);
}

static size_t reads;

static bool counted_read(struct sa_target *t, uint64_t address, void *buffer, size_t bytes)
{
    (void)t;
    (void)address;
    reads++;
    memset(buffer, 1, bytes);
    return true;
}

/* Each line of a heap in one piece, read at random as the search for leaks does, is asked for
 * once. */
static void test_pages_are_read_once(void **state)
{
    static const struct sa_target_kind kind = {.read = counted_read};
    struct sa_target counted = {.kind = &kind};
    const size_t lines = (48u << 20) / 16384; /* below what it may remember */
    struct sa_pages pages;
    unsigned seed = 5;
    char byte;

    (void)state;
    assert_true(sa_pages_open(&pages, &counted, 65 << 20, lines << 14));
    for (uint64_t i = 0; i < 100000; i++)
        assert_true(sa_pages_read(
            &pages, BASE + ((uint64_t)rand_r(&seed) % lines) * 16384 + (i & 1023), &byte, 1));
    assert_true(reads <= lines + 1);
    sa_pages_close(&pages);
}

/* Lines of a heap of which not all can be remembered: records side by side take few readings, and
 * one that lies alone is read alone. */
static void test_pages_are_few(void **state)
{
    static const struct sa_target_kind kind = {.read = counted_read};
    struct sa_target counted = {.kind = &kind};
    struct sa_pages pages;
    char byte;

    (void)state;
    assert_true(sa_pages_open(&pages, &counted, 65 << 20, 1ull << 40));
    reads = 0;
    for (uint64_t i = 0; i < 1 << 20; i += 64)
        assert_true(sa_pages_read(&pages, BASE + i, &byte, 1));
    assert_int_equal(reads, 2 * (1 << 20) / 16384);
    assert_null(sa_pages_look(&pages, BASE + (1 << 30), 1));
    assert_non_null(sa_pages_look(&pages, BASE + (1 << 30), 1));
    assert_null(sa_pages_look(&pages, BASE + (1 << 30) - 1, 2));
    sa_pages_close(&pages);
}

/* It takes at most what it is given, but for the least: all of a heap, or a little. */
static void test_pages_take_what_they_may(void **state)
{
    static const uint64_t given[] = {0, 1, 1 << 20, (3 << 20) + 5, 100 << 20, 1ull << 31};
    struct sa_pages pages;

    (void)state;
    for (size_t i = 0; i < sizeof(given) / sizeof(*given); i++)
        for (uint64_t heap = 1 << 20; heap < 1ull << 34; heap *= 2) {
            assert_true(sa_pages_open(&pages, &target, given[i], heap));
            assert_true(pages.places >= 64 && !(pages.places & (pages.places - 1)));
            assert_true(pages.places == 64 || pages.places * (16384 + 16) <= given[i]);
            assert_true(pages.all ? pages.places * 16384 >= heap : pages.places <= 1024);
            sa_pages_close(&pages);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan_leaves_out_what_cannot_be_read),
        cmocka_unit_test(test_pages_read_as_the_target_does),
        cmocka_unit_test(test_pages_are_read_once),
        cmocka_unit_test(test_pages_are_few),
        cmocka_unit_test(test_pages_take_what_they_may),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
