/* SPDX-License-Identifier: Apache-2.0 */
/* The list of single samples in profile.proto, read back as tool/file/profile_file.h describes it.
 */
#include "sampling/export/proto_singles.h"

#include "test/support/collect.h"

#define COUNT 5000 /* does not fit into one field */

static uint64_t varint(const char **at)
{
    uint64_t v = 0, byte;
    unsigned shift = 0;

    do {
        byte = (uint8_t) * (*at)++;
        v |= (byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80);
    return v;
}

static uint64_t difference(const char **at)
{
    uint64_t v = varint(at);

    return v >> 1 ^ -(v & 1);
}

static int write_singles(const struct sa_profile *profile, struct sa_sink *out)
{
    sa_proto_put_singles(profile, out);
    return 0;
}

/* Each single sample is there, but those that are certain, in no row, or summed up. Neither numbers
 * nor times go one way. */
static void test_singles_of_a_heap(void **state)
{
    static struct sa_sample_copy singles[COUNT];
    struct sa_profile profile = {
        .type = SALLOC_PROFILE_HEAP, .singles = singles, .single_count = COUNT};
    uint64_t number = 0, ms = 0, fields = 0, i = 0;
    struct collected c;
    const char *at, *end;

    (void)state;
    for (uint64_t k = 0; k < COUNT; k++)
        singles[k] = (struct sa_sample_copy){.key.p = k % 7 ? 0.5 : 1,
                                             .bucket = k % 5 ? k % 8 : SIZE_MAX,
                                             .number = k % 11 ? ((k ^ 3) + 1) << 40 : 0,
                                             .time_ns = (k ^ 9) * 1234567};
    c = collect(write_singles, &profile);
    for (at = c.data; at < c.data + c.bytes; fields++) {
        assert_int_equal(varint(&at), SA_PROTO_SINGLES << 3 | 2);
        {
            uint64_t bytes = varint(&at);
            end = at + bytes;
        }
        for (; at < end; i++) {
            while (i % 7 == 0 || i % 5 == 0 || i % 11 == 0)
                i++;
            assert_int_equal(varint(&at), singles[i].bucket);
            assert_int_equal(number += difference(&at), singles[i].number);
            assert_int_equal(ms += difference(&at), singles[i].time_ns / 1000000);
        }
        assert_ptr_equal(at, end);
    }
    while (i < COUNT && (i % 7 == 0 || i % 5 == 0 || i % 11 == 0))
        i++;
    assert_int_equal(i, COUNT);
    assert_true(fields > 1);
    free(c.data);
}

static void test_no_singles_of_other_profiles(void **state)
{
    struct sa_sample_copy single = {.key.p = 0.5, .number = 1};
    struct sa_profile profile = {
        .type = SALLOC_PROFILE_FRAGMENTATION, .singles = &single, .single_count = 1};
    struct collected c = collect(write_singles, &profile);

    (void)state;
    assert_int_equal(c.bytes, 0);
    free(c.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_singles_of_a_heap),
        cmocka_unit_test(test_no_singles_of_other_profiles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
