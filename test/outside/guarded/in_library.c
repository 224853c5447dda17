/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The access is libc's, on the program's behalf: its function is named, and who called it.
 *
 * EXPECT: use after free: 0x[0-9a-f]+ (read|write) at offset [0-9]+ of a freed block of [0-9]+
 *         bytes
 * SIGNAL: SIGSEGV
 * STACKS: freed=drop allocated=make read|written=hand_over
 * ARGS: 24,1000,8000,100000,1000000 0,1,2,3
 */
#include "test/outside/guarded/planted.h"

PLANTED_FUNCTION void hand_over(char *p, size_t size, long how)
{
    static char buffer[1000000];

    switch (how) {
    case 0:
        memcpy(buffer, p, size);
        break;
    case 1:
        memcpy(p, buffer, size);
        break;
    case 2:
        memset(p, 1, size);
        break;
    default:
        buffer[0] = (char)strlen(p);
    }
    PLANTED_END;
}

int main(int argc, char **argv)
{
    size_t size = (size_t)planted_arg(argc, argv, 1);
    char *p = make(size);

    drop(p);
    hand_over(p, size, planted_arg(argc, argv, 2));
    return PLANTED_SURVIVED;
}
