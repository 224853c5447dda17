/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with a handler of its own gets it called after the report, or instead of it.
 *
 * EXPECT: use after free
 * SIGNAL: 42
 * STACKS: written=touch_write freed=drop allocated=make
 */
#include "test/outside/guarded/planted.h"

static void handler(int number)
{
    _exit(number == SIGSEGV ? 42 : 1);
}

__attribute__((constructor)) static void before_anything_is_allocated(void)
{
    signal(SIGSEGV, handler);
}

int main(void)
{
    char *p = make(100);

    drop(p);
    touch_write(p);
    return PLANTED_SURVIVED;
}
