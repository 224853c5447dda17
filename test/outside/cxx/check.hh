/* SPDX-License-Identifier: Apache-2.0 */
/* What the C++ programs check with: a failure is said, counted, and the program goes on. */
#ifndef SA_TEST_CXX_CHECK_HH
#define SA_TEST_CXX_CHECK_HH

#include <cstdio>

namespace
{

int failures;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::printf("%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);             \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

} // namespace

#endif
