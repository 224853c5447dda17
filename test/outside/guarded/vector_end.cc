/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C++: writes the element behind the end of a vector, or of an array.
 *
 * EXPECT: heap buffer overflow: 0x[0-9a-f]+ (write|was written,) [0-9]+ bytes behind the end of a
 *         block of [0-9]+ bytes
 * SIGNAL: SIGSEGV|3
 * STACKS:
 * ARGS: 1,3,100,1000,9000,60000 0,1
 */
#include "test/outside/guarded/planted.h"

#include <vector>

int main(int argc, char **argv)
{
    size_t count = (size_t)planted_arg(argc, argv, 1);

    for (int i = 0; i < PLANTED_TIMES; i++) {
        if (planted_arg(argc, argv, 2) == 0) {
            std::vector<int> v(count);

            touch_write((char *)(v.data() + count));
        } else {
            int *v = new int[count];

            touch_write((char *)(v + count));
            delete[] v;
        }
    }
    return PLANTED_SURVIVED;
}
