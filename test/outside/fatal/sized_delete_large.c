/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sized operator delete of a large block with another size.
 *
 * EXPECT: sized free: 0x[0-9a-f]+ is a block of [0-9]+ bytes, freed as one of [0-9]+
 * SURVIVES: yes
 * ARGS: 300000 299999,300001,1000000
 */
#include "test/outside/fatal/fatal.h"

void *_Znwm(size_t size);
void _ZdlPvm(void *p, size_t size);

int main(int argc, char **argv)
{
    void *p = fatal_names(_Znwm(fatal_arg(argc, argv, 1)));

    _ZdlPvm(p, fatal_arg(argc, argv, 2));
    return FATAL_SURVIVED;
}
