/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event traces in the Trace Event Format: the whole text of a small trace, with an unknown CPU, a
 * time before the start, a free without a stack or without its allocation, and estimates that are
 * no whole numbers. Other profiles are refused.
 */
#include "sampling/export/write.h"

#include "alloc/base/fmt.h"
#include "test/support/cmocka.h"
#include "test/support/made_profile.h"
#include "test/support/start.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static char text[16384];
static size_t used;

static int sink(void *arg, const void *data, size_t bytes)
{
    assert_null(arg);
    assert_true(used + bytes < sizeof(text));
    memcpy(text + used, data, bytes);
    used += bytes;
    text[used] = '\0';
    return 0;
}

static int write_trace(const struct sa_profile *profile)
{
    struct sa_sink *out = sa_sink_open(sink, NULL, false);
    int failed;

    used = 0;
    text[0] = '\0';
    assert_non_null(out);
    failed = sa_write_trace(profile, out);
    assert_int_equal(sa_sink_close(out), 0);
    return failed;
}

static struct sa_ring_event events[] = {
    {.handle = 7,
     .time_ns = 2000500,
     .p = 1,
     .requested = 100,
     .allocated = 112,
     .address = 0x1000,
     .tid = 4000001,
     .cpu = 3,
     .free_cpu = -1},
    {.handle = 8,
     .time_ns = 2001000,
     .p = 0.375,
     .requested = 0,
     .allocated = 8,
     .address = 0x2000,
     .tid = 4000002,
     .cpu = -1,
     .free_cpu = -1,
     .kind = SALLOC_KIND_NEW},
    {.handle = 7,
     .time_ns = 2000500,
     .free_time_ns = 2002000,
     .p = 1,
     .requested = 100,
     .allocated = 112,
     .address = 0x1000,
     .tid = 4000001,
     .free_tid = 4000002,
     .cpu = 3,
     .free_cpu = 0},
    {.handle = 2,
     .time_ns = 1000,
     .free_time_ns = 2003000,
     .p = 1,
     .requested = 5,
     .allocated = 64,
     .address = 0x3000,
     .free_tid = 4000001,
     .cpu = -1,
     .free_cpu = -1},
};

static const char expected[] =
    "\"traceEvents\":[\n"
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":PID,\"tid\":4000001,\"args\":{\"name\":"
    "\"4000001\"}},\n"
    "{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"alloc\",\"name\":\"malloc\",\"ts\":-0.500,\"pid\":PID,"
    "\"tid\":4000001,\"args\":{\"alloc_handle\":7,\"address\":\"0x1000\",\"requested_size\":100,"
    "\"allocated_size\":112,\"weight\":1.000,\"cpu_id\":3,\"stack\":[\"made_middle\","
    "\"made_root\"]}},\n"
    "{\"ph\":\"C\",\"name\":\"allocated minus freed "
    "(estimate)\",\"ts\":-0.500,\"pid\":PID,\"args\":"
    "{\"bytes\":112}},\n"
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":PID,\"tid\":4000002,\"args\":{\"name\":"
    "\"4000002\"}},\n"
    "{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"alloc\",\"name\":\"new\",\"ts\":0.000,\"pid\":PID,"
    "\"tid\":4000002,\"args\":{\"alloc_handle\":8,\"address\":\"0x2000\",\"requested_size\":0,"
    "\"allocated_size\":8,\"weight\":2.667,\"cpu_id\":-1,\"stack\":[\"made_middle\","
    "\"made_root\"]}},\n"
    "{\"ph\":\"C\",\"name\":\"allocated minus freed (estimate)\",\"ts\":0.000,\"pid\":PID,\"args\":"
    "{\"bytes\":133}},\n"
    "{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"free\",\"name\":\"free\",\"ts\":1.000,\"pid\":PID,"
    "\"tid\":4000002,\"args\":{\"alloc_handle\":7,\"address\":\"0x1000\",\"requested_size\":100,"
    "\"allocated_size\":112,\"weight\":1.000,\"cpu_id\":0,\"lifetime_ns\":1500,\"stack\":["
    "\"[stack not kept]\"]}},\n"
    "{\"ph\":\"C\",\"name\":\"allocated minus freed (estimate)\",\"ts\":1.000,\"pid\":PID,\"args\":"
    "{\"bytes\":21}},\n"
    "{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"free\",\"name\":\"free\",\"ts\":2.000,\"pid\":PID,"
    "\"tid\":4000001,\"args\":{\"alloc_handle\":2,\"address\":\"0x3000\",\"requested_size\":5,"
    "\"allocated_size\":64,\"weight\":1.000,\"cpu_id\":-1,\"lifetime_ns\":2002000,\"stack\":["
    "\"made_middle\",\"made_root\"]}},\n"
    "{\"ph\":\"C\",\"name\":\"allocated minus freed (estimate)\",\"ts\":2.000,\"pid\":PID,\"args\":"
    "{\"bytes\":-43}}\n"
    "]}\n";

static void test_write_trace(void **state)
{
    struct sa_profile profile = {.type = SALLOC_PROFILE_EVENTS,
                                 .time_ns = 1001000,
                                 .clock_ns = -1000000,
                                 .duration_ns = 5000,
                                 .interval = 16};
    char pid[32], *at = text;
    struct sa_fmt f;

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(events); i++)
        events[i].stack = (struct sa_stack *)made_stack(MADE_MIDDLE);
    events[3].free_stack = (struct sa_stack *)made_stack(MADE_MIDDLE);
    profile.events = (struct sa_event_ring){.records = events,
                                            .cap = TEST_COUNT(events),
                                            .begun = TEST_COUNT(events),
                                            .written = TEST_COUNT(events)};
    assert_int_equal(write_trace(&profile), 0);
    sa_fmt_init(&f, pid, sizeof(pid));
    sa_fmt_add(&f, "%d", (int)getpid());
    at = strstr(text, "\"traceEvents\"");
    assert_non_null(at);
    for (const char *e = expected; *e;) {
        bool is_pid = strncmp(e, "PID", 3) == 0;
        size_t n = is_pid ? f.len : 1;

        if (strncmp(at, is_pid ? pid : e, n) != 0)
            fail_msg("expected:\n%s\ngot:\n%s", e, at);
        e += is_pid ? 3 : 1;
        at += n;
    }
    assert_string_equal(at, "");
    assert_non_null(strstr(text, "\"start_time_ns\":\"1001000\""));
    assert_non_null(strstr(text, "\"events_lost\":\"0\""));
}

static void test_write_trace_of_another_type(void **state)
{
    (void)state;
    for (int type = 0; type < SALLOC_PROFILE_EVENTS; type++) {
        assert_int_equal(write_trace(made_profile((enum salloc_profile_type)type)), -EINVAL);
        assert_int_equal(used, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_write_trace),
        cmocka_unit_test(test_write_trace_of_another_type),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("write_trace", tests, NULL, NULL);
}
