/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C++: an object is deleted as one of its base class, without a virtual destructor and of another
 * size.
 *
 * EXPECT: sized free: 0x[0-9a-f]+ is a block of [0-9]+ bytes, freed as one of [0-9]+
 * SIGNAL: 3
 * STACKS: allocated=create freed=destroy
 * ARGS: 0,1,2
 */
#include "test/outside/guarded/planted.h"

struct base {
    char text[100];
};

struct small : base {
    char more[4];
};

struct large : base {
    char more[20000];
};

struct huge : base {
    char more[1000000];
};

PLANTED_FUNCTION base *create(long which)
{
    base *p = which == 0 ? (base *)new small : which == 1 ? (base *)new large : (base *)new huge;

    PLANTED_END;
    return p;
}

PLANTED_FUNCTION void destroy(base *p)
{
    delete p;
    PLANTED_END;
}

int main(int argc, char **argv)
{
    destroy(create(planted_arg(argc, argv, 1)));
    return PLANTED_SURVIVED;
}
