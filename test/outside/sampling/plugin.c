/* SPDX-License-Identifier: Apache-2.0 */
/* A library that is loaded and unloaded all the time: its constructor and its function allocate,
 * from frames that are gone when it is unloaded. */
#include <stdlib.h>
#include <string.h>

static char *kept;

static __attribute__((noinline)) char *plugin_deeper(size_t bytes, int depth)
{
    volatile char frame[40];
    char *p;

    frame[0] = (char)depth;
    p = depth ? plugin_deeper(bytes, depth - 1) : malloc(bytes);
    return frame[0] == (char)depth ? p : NULL;
}

__attribute__((constructor)) static void plugin_begin(void)
{
    kept = plugin_deeper(1000, 3);
}

__attribute__((destructor)) static void plugin_end(void)
{
    free(kept);
}

/* A block for the caller to free. */
__attribute__((visibility("default"))) void *plugin_make(size_t bytes);

void *plugin_make(size_t bytes)
{
    char *p = plugin_deeper(bytes, 5);

    if (p)
        memset(p, 7, bytes);
    return p;
}
