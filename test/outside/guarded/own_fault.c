/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Not our business: null pointers, memory of the program's own, signals that were sent.
 *
 * EXPECT:
 * SIGNAL: SIGSEGV
 * ARGS: 0,1,2,3
 */
#include "test/outside/guarded/planted.h"

#include <sys/mman.h>

int main(int argc, char **argv)
{
    char *p = NULL;

    delay(10, 100);
    switch (planted_arg(argc, argv, 1)) {
    case 0:
        break;
    case 1:
        p = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        break;
    case 2:
        p = (char *)0x8000000000000000ul;
        break;
    default:
        kill(getpid(), SIGSEGV);
        return PLANTED_SURVIVED;
    }
    touch_write(p);
    return PLANTED_SURVIVED;
}
