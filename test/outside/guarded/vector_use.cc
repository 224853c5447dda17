/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C++: a reference to an element of a vector that has grown since, or an object that was deleted.
 *
 * EXPECT: use after free: 0x[0-9a-f]+ write at offset [0-9]+ of a freed block of [0-9]+ bytes
 * SIGNAL: SIGSEGV
 * STACKS: written=touch_write
 * ARGS: 1,100,3000,70000 0,1,2
 */
#include "test/outside/guarded/planted.h"

#include <memory>
#include <new>
#include <string>
#include <vector>

struct alignas(64) aligned {
    char text[64];
};

int main(int argc, char **argv)
{
    size_t count = (size_t)planted_arg(argc, argv, 1);
    char *stale = NULL;

    switch (planted_arg(argc, argv, 2)) {
    case 0: {
        std::vector<int> v(count);

        stale = (char *)&v[count / 2];
        v.resize(v.capacity() * 3 + 1);
        touch_write(stale);
        break;
    }
    case 1: {
        std::unique_ptr<std::string> s(new std::string(count + 100, 'x'));

        stale = &(*s)[0];
        s.reset();
        touch_write(stale);
        break;
    }
    default: {
        aligned *p = new aligned[count];

        stale = p[count - 1].text;
        delete[] p;
        touch_write(stale);
    }
    }
    return PLANTED_SURVIVED;
}
