/* SPDX-License-Identifier: Apache-2.0 */
/* What the program of private.cc and its plugins have in common. */
#ifndef SA_TEST_MISMATCH_SIDES_HH
#define SA_TEST_MISMATCH_SIDES_HH

#include <cstddef>

enum kind { MALLOC, NEW, ARRAY, ALIGNED, KINDS };

/* How blocks end: of each kind, and then by operators that are told the size. */
enum { SIZED = KINDS, SIZED_ARRAY, SIZED_ALIGNED, ENDERS };

struct side {
    void *(*make[KINDS])(std::size_t size);
    void (*end[ENDERS])(void *p, std::size_t size);
};

#endif
