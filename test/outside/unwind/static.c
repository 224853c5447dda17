/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks in static programs: whole where there is an index of the frames, else the caller alone,
 * and nothing of libgcc's, which such a program shares with its exceptions. usage: static
 * whole|leaf
 */
#include "sampling/stack/stack.h"
#include "test/outside/check.h"

#define DEPTH 10

static uintptr_t returns[DEPTH + 1], pc[SA_STACK_MAX];
static unsigned count;

__attribute__((noinline)) static void capture(const void *frame)
{
    count = sa_stack_capture(frame, pc, SA_STACK_MAX);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void below(unsigned depth)
{
    returns[depth] = (uintptr_t)__builtin_return_address(0);
    if (depth)
        below(depth - 1);
    else
        capture(__builtin_dwarf_cfa());
    __asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    below(DEPTH);
    if (strcmp(argv[1], "whole") == 0) {
        CHECK_SAYS(count > DEPTH, "%u frames", count);
        CHECK(memcmp(pc, returns, sizeof(returns)) == 0);
    } else {
        CHECK_SAYS(count == 1, "%u frames", count);
        CHECK(pc[0] == returns[0]);
    }
    return check_end();
}
