/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free of a static variable: written, zero, constant.
 *
 * EXPECT: invalid free: 0x[0-9a-f]+ was not allocated
 * ARGS: 0-2
 */
#include "test/outside/fatal/fatal.h"

static char written[64] = {1}, zero[64];
static const char constant[64] = {1};

int main(int argc, char **argv)
{
    const char *all[] = {written, zero, constant};

    free(fatal_names((void *)all[fatal_arg(argc, argv, 1)]));
    return FATAL_SURVIVED;
}
