/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output in blocks: nothing is lost at the edges of blocks, gzip files are what RFC 1952 says
 * (decoded here by hand, with a checksum computed bit by bit), errors are kept, and no memory is an
 * answer.
 */
#include "sampling/export/sink.h"

#include "alloc/os/vm.h"
#include "test/support/collect.h"
#include "test/support/faults.h"

#include <errno.h>

#define MOST 200000

static uint8_t input[MOST];

static uint32_t checksum(const uint8_t *data, size_t bytes)
{
    uint32_t crc = ~0u;

    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int k = 0; k < 8; k++)
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    }
    return ~crc;
}

static uint32_t word(const char *at, unsigned bytes)
{
    uint32_t v = 0;

    for (unsigned i = bytes; i-- > 0;)
        v = v << 8 | (uint8_t)at[i];
    return v;
}

/* Checks the frame, and that the stored blocks are the input. */
static void check_gzip(const struct collected *c, size_t bytes)
{
    static const uint8_t head[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    size_t at = sizeof(head), done = 0;
    bool last = false;

    assert_true(c->bytes >= sizeof(head) + 5 + 8);
    assert_memory_equal(c->data, head, sizeof(head));
    while (!last) {
        uint32_t n = word(c->data + at + 1, 2);

        assert_true((uint8_t)c->data[at] <= 1);
        last = c->data[at];
        assert_int_equal(word(c->data + at + 3, 2), n ^ 0xffff);
        assert_true(at + 5 + n + 8 <= c->bytes && done + n <= bytes);
        assert_memory_equal(c->data + at + 5, input + done, n);
        at += 5 + n;
        done += n;
    }
    assert_int_equal(done, bytes);
    assert_int_equal(at + 8, c->bytes);
    assert_int_equal(word(c->data + at, 4), checksum(input, bytes));
    assert_int_equal(word(c->data + at + 4, 4), bytes);
}

static void check(size_t bytes, size_t piece, bool gzip)
{
    struct collected c = {NULL, 0};
    struct sa_sink *out = sa_sink_open(collect_sink, &c, gzip);

    assert_non_null(out);
    for (size_t i = 0; i < bytes; i += piece)
        sa_sink_put(out, input + i, bytes - i < piece ? bytes - i : piece);
    assert_int_equal(sa_sink_close(out), 0);
    if (gzip) {
        check_gzip(&c, bytes);
    } else {
        assert_int_equal(c.bytes, bytes);
        if (bytes)
            assert_memory_equal(c.data, input, bytes);
    }
    free(c.data);
}

static void test_out_is_the_input(void **state)
{
    static const size_t sizes[] = {0, 1, 65534, 65535, 65536, 131070, 131071, MOST};

    (void)state;
    sa_vm_init();
    for (size_t i = 0; i < MOST; i++)
        input[i] = (uint8_t)(i * 7 + i / 251);
    for (size_t i = 0; i < TEST_COUNT(sizes); i++)
        for (int gzip = 0; gzip < 2; gzip++) {
            check(sizes[i], 1000, gzip);
            check(sizes[i], MOST, gzip);
        }
}

static int calls;

static int full(void *arg, const void *data, size_t bytes)
{
    (void)arg;
    (void)data;
    (void)bytes;
    return ++calls == 2 ? -ENOSPC : calls > 2 ? -EIO : 0;
}

/* The first error is the one reported, and nobody is asked after it. */
static void test_out_keeps_the_first_error(void **state)
{
    struct sa_sink *out = sa_sink_open(full, NULL, false);

    (void)state;
    assert_non_null(out);
    sa_sink_put(out, input, MOST);
    sa_sink_text(out, "%d", 1);
    assert_int_equal(out->error, -ENOSPC);
    assert_int_equal(sa_sink_close(out), -ENOSPC);
    assert_int_equal(calls, 2);
}

static void test_out_without_memory(void **state)
{
    (void)state;
    test_faults_clear();
    test_faults.mmap_after = 0;
    assert_null(sa_sink_open(full, NULL, false));
    test_faults_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out_is_the_input),
        cmocka_unit_test(test_out_keeps_the_first_error),
        cmocka_unit_test(test_out_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
