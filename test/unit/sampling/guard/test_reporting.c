/* SPDX-License-Identifier: Apache-2.0 */
/* The stack of reports of misuse. test_misuse.c tests the reports. */
#include "sampling/guard/reporting.h"

#include "alloc/os/vm.h"
#include "test/support/cmocka.h"

#define STACK_BYTES (256 * 1024)

static void note(void *arg)
{
    *(uintptr_t *)arg = (uintptr_t)&arg;
}

/* The stack is unbacked, and counts as reserved, until the first report. */
static void test_reporting_stack_counts_once_used(void **state)
{
    uintptr_t here = (uintptr_t)&state, there = here;
    uint64_t used, reserved;

    sa_vm_init();
    used = sa_vm.used_bytes;
    for (int i = 0; i < 2; i++)
        sa_reporting_prepare();
    assert_int_equal(sa_vm.used_bytes, used);
    reserved = sa_vm.reserved_bytes;
    assert_int_equal(reserved, STACK_BYTES);
    for (int i = 0; i < 2; i++) {
        assert_true(sa_reporting_begin(SA_REPORTING_SURVIVES));
        assert_true(sa_reporting_call(note, &there));
        sa_reporting_finish();
        assert_true(there < here - STACK_BYTES || there > here + STACK_BYTES);
        assert_int_equal(sa_vm.used_bytes, used + STACK_BYTES);
        assert_int_equal(sa_vm.reserved_bytes, reserved - STACK_BYTES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reporting_stack_counts_once_used)};

    return cmocka_run_group_tests_name("reporting", tests, NULL, NULL);
}
