/* SPDX-License-Identifier: Apache-2.0 */
/* Deferred calls: each kind is made once, by a caller that may make it, and not by a free that may
 * not. */
#include "alloc/fork/deferred_calls.h"

#include "test/support/cmocka.h"

static int told, started;

static void tell(void)
{
    told++;
}

static void start(void)
{
    started++;
}

static void test_free_starts_no_thread(void **state)
{
    (void)state;
    sa_deferred_call_set_handler(SA_DEFERRED_SOFT_LIMIT, tell);
    sa_deferred_call_set_handler(SA_DEFERRED_THREAD, start);
    sa_deferred_call_run(SA_DEFERRED_ALL);
    assert_int_equal(told + started, 0); /* nothing is requested */

    sa_deferred_call_request(SA_DEFERRED_THREAD);
    sa_deferred_call_request(SA_DEFERRED_SOFT_LIMIT);
    sa_deferred_call_request(SA_DEFERRED_SOFT_LIMIT);
    sa_deferred_call_run(SA_DEFERRED_BY_FREE);
    assert_int_equal(told, 1);
    assert_int_equal(started, 0);

    sa_thread.gate_depth++; /* nested in another slow path */
    sa_deferred_call_run(SA_DEFERRED_ALL);
    sa_thread.gate_depth--;
    assert_int_equal(started, 0);

    sa_deferred_call_run(SA_DEFERRED_ALL);
    sa_deferred_call_run(SA_DEFERRED_ALL);
    assert_int_equal(told, 1);
    assert_int_equal(started, 1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_free_starts_no_thread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
