/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes behind the end of a large block where nothing of samples is to be guarded or kept, as in a
 * setuid program: the access faults, and there is no handler that would tell of it.
 *
 * EXPECT:
 * SIGNAL: SIGSEGV
 * ARGS: 300000
 */
#include "test/outside/guarded/planted.h"

int main(int argc, char **argv)
{
    size_t size = (size_t)planted_arg(argc, argv, 1);
    char *p = make(size);

    for (size_t i = size; i < size + 200000; i++)
        touch_write(p + i);
    return PLANTED_SURVIVED;
}
