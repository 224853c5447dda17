/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free of a mapping of the program's own, also of a large one and after the heap has grown.
 *
 * EXPECT: invalid free: 0x[0-9a-f]+ was not allocated
 * ARGS: 4096,1048576,1073741824 0,1
 */
#include "test/outside/fatal/fatal.h"

#include <sys/mman.h>

int main(int argc, char **argv)
{
    size_t bytes = fatal_arg(argc, argv, 1);
    char *p;

    if (fatal_arg(argc, argv, 2) && !malloc(100 << 20))
        return 1;
    p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
             0);
    if (p == MAP_FAILED)
        return FATAL_SENSELESS;
    free(fatal_names(p + bytes / 2));
    return FATAL_SURVIVED;
}
