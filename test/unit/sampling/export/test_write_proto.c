/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile.proto, decoded field by field: numbers of everything count from 1 without gaps and refer
 * to what is there, samples have a value for each type, sums are those of the profile, addresses
 * are those of the calls.
 */
#include "sampling/export/write.h"

#include "alloc/os/sys.h"
#include "alloc/os/vm.h"
#include "sampling/export/proto_singles.h"
#include "sampling/export/sums_field.h"
#include "sampling/snapshot/residency.h"
#include "sampling/symbolize/frames.h"
#include "test/support/collect.h"
#include "test/support/made_profile.h"

#define MOST 1000

/* A field of a message: a number, or bytes. */
struct field {
    unsigned number;
    uint64_t value;
    const uint8_t *data;
    size_t bytes;
};

struct message {
    const uint8_t *at, *end;
};

static uint64_t varint(struct message *m)
{
    uint64_t v = 0;

    for (unsigned shift = 0;; shift += 7) {
        assert_true(m->at < m->end && shift < 64);
        v |= (uint64_t)(*m->at & 0x7f) << shift;
        if (!(*m->at++ & 0x80))
            return v;
    }
}

static bool next(struct message *m, struct field *f)
{
    uint64_t tag;

    if (m->at == m->end)
        return false;
    tag = varint(m);
    f->number = (unsigned)(tag >> 3);
    f->data = NULL;
    f->bytes = 0;
    f->value = varint(m);
    assert_true((tag & 7) == 0 || (tag & 7) == 2);
    if ((tag & 7) == 2) {
        assert_true(f->value <= (size_t)(m->end - m->at));
        f->data = m->at;
        f->bytes = f->value;
        m->at += f->bytes;
    }
    return true;
}

static struct message inside(const struct field *f)
{
    assert_non_null(f->data);
    return (struct message){f->data, f->data + f->bytes};
}

/* The number in a message's field, 0 if it is not there. */
static uint64_t number_in(const struct field *of, unsigned number)
{
    struct message m = inside(of);
    struct field f;

    while (next(&m, &f))
        if (f.number == number)
            return f.value;
    return 0;
}

static struct {
    struct field strings[MOST], samples[MOST], mappings[MOST], locations[MOST], functions[MOST];
    struct field types[MOST];
    size_t string_count, sample_count, mapping_count, location_count, function_count, type_count;
    uint64_t comments, period, time, duration, default_type, drop_frames;
} p;

static void keep(struct field *list, size_t *count, const struct field *f)
{
    assert_true(*count < MOST);
    list[(*count)++] = *f;
}

static void decode(const struct collected *c)
{
    struct message m = {(const uint8_t *)c->data, (const uint8_t *)c->data + c->bytes};
    struct field f;

    memset(&p, 0, sizeof(p));
    while (next(&m, &f)) {
        switch (f.number) {
        case 1:
            keep(p.types, &p.type_count, &f);
            break;
        case 2:
            keep(p.samples, &p.sample_count, &f);
            break;
        case 3:
            keep(p.mappings, &p.mapping_count, &f);
            break;
        case 4:
            keep(p.locations, &p.location_count, &f);
            break;
        case 5:
            keep(p.functions, &p.function_count, &f);
            break;
        case 6:
            keep(p.strings, &p.string_count, &f);
            break;
        case 7:
            p.drop_frames = f.value;
            break;
        case 9:
            p.time = f.value;
            break;
        case 10:
            p.duration = f.value;
            break;
        case 11:
            break;
        case 12:
            p.period = f.value;
            break;
        case 13:
            p.comments++;
            break;
        case 14:
            p.default_type = f.value;
            break;
        case SA_PROTO_SINGLES: /* test_proto_singles.c */
            break;
        default:
            fail_msg("field %u", f.number);
        }
    }
}

static bool string_is(uint64_t string, const char *text)
{
    assert_true(string < p.string_count);
    return p.strings[string].bytes == strlen(text) &&
           memcmp(p.strings[string].data, text, strlen(text)) == 0;
}

static void check_ids(const struct field *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(number_in(&list[i], 1), i + 1);
}

static void check_locations(void)
{
    for (size_t i = 0; i < p.location_count; i++) {
        uint64_t mapping = number_in(&p.locations[i], 2), address = number_in(&p.locations[i], 3);
        struct message m = inside(&p.locations[i]);
        struct field f;

        assert_true(mapping <= p.mapping_count);
        if (mapping) {
            assert_true(address >= number_in(&p.mappings[mapping - 1], 2));
            assert_true(address < number_in(&p.mappings[mapping - 1], 3));
        }
        while (next(&m, &f))
            if (f.number == 4) {
                assert_true(number_in(&f, 1) >= 1 && number_in(&f, 1) <= p.function_count);
            }
    }
    for (size_t i = 0; i < p.function_count; i++)
        assert_true(number_in(&p.functions[i], 2) &&
                    number_in(&p.functions[i], 2) < p.string_count);
}

static void check_samples(uint64_t *sums)
{
    for (size_t i = 0; i < p.sample_count; i++) {
        struct message m = inside(&p.samples[i]), packed;
        size_t locations = 0, values = 0;
        struct field f;

        while (next(&m, &f)) {
            packed = inside(&f);
            if (f.number == 1)
                for (; packed.at < packed.end; locations++) {
                    uint64_t id = varint(&packed);

                    assert_true(id >= 1 && id <= p.location_count);
                }
            else if (f.number == 2)
                for (; packed.at < packed.end; values++) {
                    assert_true(values < p.type_count);
                    sums[values] += varint(&packed);
                }
            else
                assert_true(f.number == 3 || f.number == SA_SUMS_FIELD);
        }
        assert_true(locations >= 1 && locations <= 3);
        assert_int_equal(values, p.type_count);
    }
}

static const struct {
    size_t types;
    const char *first;
    size_t samples;
    uint64_t sums[8];
} expected[] = {
    [SALLOC_PROFILE_HEAP] = {8,
                             "inuse_space",
                             10,
                             {663592, 42469880, 5526338, 4096, 3000000, 2000000, 942353, 55883966}},
    [SALLOC_PROFILE_FRAGMENTATION] = {2, "space", 8, {942353, 14671495}},
    [SALLOC_PROFILE_PEAK_HEAP] = {4, "inuse_space", 8, {0, 0, 942353, 55883966}},
    [SALLOC_PROFILE_ALLOCATIONS] = {2, "alloc_space", 8, {942353, 55883966}},
    [SALLOC_PROFILE_LIFETIMES] = {6,
                                  "deallocated_space",
                                  15,
                                  {942096, 54831290, 942096, 54831290, 257, 1052676}},
};

static void test_proto_of_every_type(void **state)
{
    (void)state;
    for (int type = 0; type <= SALLOC_PROFILE_LIFETIMES; type++) {
        struct collected c = collect(sa_write_proto, made_profile(type));
        uint64_t sums[8] = {0};

        decode(&c);
        assert_int_equal(p.strings[0].bytes, 0);
        assert_int_equal(p.type_count, expected[type].types);
        assert_true(string_is(p.default_type, expected[type].first));
        assert_int_equal(p.period, 524288);
        assert_int_equal(p.time, 1709210096123456789);
        assert_int_equal(p.duration, type >= SALLOC_PROFILE_ALLOCATIONS ? 1500000000 : 0);
        assert_true(p.comments >= 4 && p.drop_frames);
        check_ids(p.mappings, p.mapping_count);
        check_ids(p.locations, p.location_count);
        check_ids(p.functions, p.function_count);
        check_locations();
        assert_int_equal(p.sample_count, expected[type].samples);
        check_samples(sums);
        assert_memory_equal(sums, expected[type].sums, sizeof(sums));
        free(c.data);
    }
}

/* Types of a heap profile, by what the kernel tells: the default is always the last. What is not
 * known is not there. */
static void test_proto_types_of_residency(void **state)
{
    static const char *const names[] = {"alloc_objects", "alloc_space",  "resident_space",
                                        "swapped_space", "locked_space", "zero_space",
                                        "inuse_objects", "inuse_space"};
    static const uint8_t needs[TEST_COUNT(names)] = {
        0, 0, SA_KNOWS_PAGES, SA_KNOWS_PAGES, SA_KNOWS_LOCKED, SA_KNOWS_ZERO, 0, 0};

    (void)state;
    for (uint8_t knows = 0; knows < 8; knows++) {
        struct sa_profile profile = *made_profile(SALLOC_PROFILE_HEAP);
        struct collected c;
        uint64_t sums[8] = {0};
        size_t at = 0;

        profile.knows = knows;
        c = collect(sa_write_proto, &profile);
        decode(&c);
        check_samples(sums);
        for (size_t i = 0; i < TEST_COUNT(names); i++) {
            if ((knows & needs[i]) != needs[i])
                continue;
            assert_true(at < p.type_count && string_is(number_in(&p.types[at], 1), names[i]));
            assert_int_equal(sums[at], expected[SALLOC_PROFILE_HEAP].sums[i]);
            at++;
        }
        assert_int_equal(p.type_count, at);
        assert_int_equal(number_in(&p.types[at - 1], 1), p.default_type);
        free(c.data);
    }
}

/* The call is before the return address, in this program, which is the first mapping's file. */
static void test_proto_locations_are_calls(void **state)
{
    struct collected c = collect(sa_write_proto, made_profile(SALLOC_PROFILE_HEAP));
    struct field line = {0, 0, NULL, 0};
    struct message m;
    size_t at = 0;
    uint64_t first, mapping;

    (void)state;
    decode(&c);
    while (at < p.location_count &&
           number_in(&p.locations[at], 3) != made_stack(MADE_LEAF)->pc[0] - 1)
        at++;
    assert_true(at < p.location_count);
    m = inside(&p.locations[at]);
    while (next(&m, &line) && line.number != 4)
        continue;
    assert_true(string_is(number_in(&p.functions[number_in(&line, 1) - 1], 2), "made_leaf"));
    mapping = number_in(&p.locations[at], 2);
    first = number_in(&p.mappings[0], 5);
    assert_int_equal(number_in(&p.mappings[mapping - 1], 5), first);
    assert_int_equal(number_in(&p.mappings[mapping - 1], 7), 1); /* has functions */
    assert_true(
        p.strings[first].bytes > 16 &&
        memcmp(p.strings[first].data + p.strings[first].bytes - 16, "test_write_proto", 16) == 0);
    free(c.data);
}

/* The message of a sample's label; its number is 0 if there is none. */
static struct field label_of(size_t sample, const char *key)
{
    struct message m = inside(&p.samples[sample]);
    struct field f;

    while (next(&m, &f))
        if (f.number == 3 && string_is(number_in(&f, 1), key))
            return f;
    return (struct field){0, 0, NULL, 0};
}

static bool has_word(size_t sample, const char *key, const char *word)
{
    struct field label = label_of(sample, key);

    return label.number && string_is(number_in(&label, 2), word);
}

static bool has_number(size_t sample, const char *key, uint64_t number, const char *unit)
{
    struct field label = label_of(sample, key);

    return label.number && number_in(&label, 3) == number && string_is(number_in(&label, 4), unit);
}

static void test_proto_labels_of_blocks(void **state)
{
    static const char *const guarded[] = {"Guarded",        "RateLimited",       "Filtered",
                                          "MProtectFailed", "LargerThanOnePage", "NoAvailableSlots",
                                          "Disabled",       "NotAttempted"};

    (void)state;
    for (int type = 0; type < SALLOC_PROFILE_LIFETIMES; type++) {
        struct collected c = collect(sa_write_proto, made_profile(type));

        decode(&c);
        for (size_t i = 0; i < TEST_COUNT(guarded); i++)
            assert_true(has_word(i, "guarded_status", guarded[i]));
        assert_true(has_number(0, "bytes", 64, "bytes") && has_number(0, "request", 50, "bytes"));
        assert_true(has_word(0, "allocation type", "malloc"));
        assert_true(has_number(3, "alignment", 4096, "bytes"));
        assert_true(has_word(3, "allocation type", "aligned malloc"));
        assert_true(has_word(4, "allocation type", "new") && !label_of(4, "alignment").number);
        if (type == SALLOC_PROFILE_HEAP) /* what was ever allocated */
            assert_true(!label_of(8, "bytes").number && !label_of(8, "guarded_status").number);
        free(c.data);
    }
}

/* Of both ends of a pair, of one that was not freed, and of one of which not everything is
 * known. */
static void test_proto_labels_of_lifetimes(void **state)
{
    struct collected c = collect(sa_write_proto, made_profile(SALLOC_PROFILE_LIFETIMES));

    (void)state;
    decode(&c);
    for (size_t i = 0; i < 4; i++) { /* rows 0 and 1, two samples each */
        bool odd = i >= 2;

        assert_true(has_number(i, "callstack-pair-id", odd ? 2 : 1, "count"));
        assert_true(has_number(i, "avg_lifetime", 1000000, "nanoseconds"));
        assert_true(has_number(i, "min_lifetime", odd ? 1000000 : 800000, "nanoseconds"));
        assert_true(has_number(i, "max_lifetime", odd ? 1000000 : 1200000, "nanoseconds"));
        assert_true(has_word(i, "active CPU", odd ? "same" : "different"));
        assert_false(label_of(i, "active vCPU").number);
        assert_true(has_word(i, "active L3", "same"));
        assert_true(has_word(i, "active NUMA", "same"));
        assert_true(has_word(i, "active thread", "same"));
    }
    assert_true(has_number(0, "stddev_lifetime", 200000, "nanoseconds"));
    assert_false(label_of(2, "stddev_lifetime").number);
    assert_true(has_word(4, "active L3", "different")); /* row 2 */
    assert_true(has_number(6, "callstack-pair-id", 4, "count"));
    assert_true(has_word(6, "active CPU", "none") && has_word(6, "active vCPU", "none"));
    assert_true(has_word(6, "active L3", "none") && has_word(6, "active NUMA", "none"));
    assert_true(has_word(6, "active thread", "none"));
    assert_true(has_word(7, "active NUMA", "different")); /* row 4 */
    free(c.data);
}

/* Of rows by thread: number and name of the one that allocated, or freed; of one that has ended its
 * number. */
static void test_proto_labels_of_threads(void **state)
{
    const uint32_t self = sa_sys_tid(), ended = 0x7ffffff0;

    (void)state;
    sa_sys_name_thread("some \xff\n thread");
    for (int type = 0; type <= SALLOC_PROFILE_LIFETIMES; type++) {
        struct sa_profile profile = *made_profile(type);
        struct collected c;
        bool lives = type == SALLOC_PROFILE_LIFETIMES;

        for (size_t i = 0; i < profile.bucket_count; i++)
            profile.buckets[i].key.tid = i % 2 ? ended : self;
        profile.buckets[0].key.free_tid = ended;
        c = collect(sa_write_proto, &profile);
        decode(&c);
        assert_true(has_number(0, "thread_id", self, "count"));
        assert_true(has_word(0, "thread", "some ?_ thread"));
        assert_true(has_number(1, "thread_id", ended, "count")); /* lifetimes: who freed */
        assert_true(has_word(1, "thread", "2147483632"));
        assert_true(has_word(lives ? 2 : 3, "thread", "2147483632"));
        if (lives) /* who freed is not known */
            assert_false(label_of(3, "thread").number || label_of(3, "thread_id").number);
        free(c.data);
        made_profile(type);
    }
}

/* The stack of a free that is not known has a frame and a name of its own, also where no allocating
 * stack is unknown. */
static void test_proto_names_an_unknown_free(void **state)
{
    struct sa_bucket bucket = {.key = {.stack = (struct sa_stack *)made_stack(MADE_LEAF),
                                       .p = 0.5,
                                       .interval = 100,
                                       .allocated = 64},
                               .samples = 1};
    struct sa_profile profile = {
        .type = SALLOC_PROFILE_LIFETIMES, .bucket_count = 1, .buckets = &bucket};
    struct sa_frames frames;

    (void)state;
    assert_int_equal(sa_frames_collect(&profile, &frames), 0);
    assert_string_equal(sa_frames_name(&frames, SA_FRAMES_NOWHERE), SA_FRAMES_NO_STACK);
    sa_frames_free(&frames);
}

/* A profile without samples is a file that readers accept. */
static void test_proto_without_samples(void **state)
{
    struct collected c = collect(sa_write_proto, made_profile_empty(SALLOC_PROFILE_ALLOCATIONS));

    (void)state;
    decode(&c);
    assert_int_equal(p.sample_count, 0);
    assert_int_equal(p.type_count, 2);
    assert_true(p.mapping_count > 3);
    free(c.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proto_of_every_type),
        cmocka_unit_test(test_proto_types_of_residency),
        cmocka_unit_test(test_proto_locations_are_calls),
        cmocka_unit_test(test_proto_labels_of_blocks),
        cmocka_unit_test(test_proto_labels_of_lifetimes),
        cmocka_unit_test(test_proto_labels_of_threads),
        cmocka_unit_test(test_proto_names_an_unknown_free),
        cmocka_unit_test(test_proto_without_samples),
    };

    sa_vm_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
