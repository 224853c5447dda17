/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka with the headers that it wants included first. */
#ifndef SA_TEST_CMOCKA_H
#define SA_TEST_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* cmocka 2 deprecates this name, and older ones have no other. */
#ifdef assert_uint_in_range
#undef assert_in_range
#define assert_in_range assert_uint_in_range
#endif

/* Tests look at what locks guard while no other thread runs. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wthread-safety"
#endif

/*
 * Leaves a test that cannot be run here, saying why. (cmocka's skip() writes "not ok" in the TAP
 * format, which test runners count as a failure.)
 */
#define TEST_SKIP(why)                                                                             \
    do {                                                                                           \
        print_message("# skipped: %s\n", why);                                                     \
        return;                                                                                    \
    } while (0)

#define TEST_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
