/* SPDX-License-Identifier: Apache-2.0 */
/* The call sites; see sites.h. */
#include "test/outside/estimates/sites.h"

#include "test/outside/check.h"

#include <math.h>

/* Different text in each, or the compiler makes one function of all. */
#define SITE(n)                                                                                    \
    __attribute__((noinline, noclone)) static void *site_##n(enum how how, void *old, size_t size) \
    {                                                                                              \
        void *p;                                                                                   \
                                                                                                   \
        __asm__ volatile("/* " #n " */");                                                          \
        if (how == BY_MALLOC)                                                                      \
            p = malloc(size);                                                                      \
        else if (how == BY_CALLOC)                                                                 \
            p = calloc(1, size);                                                                   \
        else if (how == BY_ALIGNED)                                                                \
            p = aligned_alloc(64, size);                                                           \
        else                                                                                       \
            p = realloc(old, size);                                                                \
        CHECK_OPAQUE(p);                                                                           \
        return p;                                                                                  \
    }

#define TEN(do, n)                                                                                 \
    do                                                                                             \
    (n##0) do(n##1) do(n##2) do(n##3) do(n##4) do(n##5) do(n##6) do(n##7) do(n##8) do(n##9)
#define HUNDRED(do, n)                                                                             \
    TEN(do, n##0)                                                                                  \
    TEN(do, n##1)                                                                                  \
    TEN(do, n##2)                                                                                  \
    TEN(do, n##3)                                                                                  \
    TEN(do, n##4) TEN(do, n##5) TEN(do, n##6) TEN(do, n##7) TEN(do, n##8) TEN(do, n##9)

HUNDRED(SITE, 1)
HUNDRED(SITE, 2)

#define NAME(n) site_##n,

void *(*const site_function[SITES])(enum how how, void *old,
                                    size_t size) = {HUNDRED(NAME, 1) HUNDRED(NAME, 2)};

size_t site_size(unsigned site)
{
    return (size_t)lround(16 * exp2(18.0 * site / (SITES - 1)));
}

unsigned site_of(const void *pc)
{
    const size_t longest = 512;
    size_t nearest = longest;
    unsigned found = SITES;

    for (unsigned i = 0; i < SITES; i++) {
        size_t distance = (size_t)((const char *)pc - (const char *)(uintptr_t)site_function[i]);

        if (distance < nearest) {
            nearest = distance;
            found = i;
        }
    }
    return found;
}
