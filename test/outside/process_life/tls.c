/* SPDX-License-Identifier: Apache-2.0 */
/* A library for loading.c: thread-local storage that the loader allocates when it is first
 * touched. */
#include <stdlib.h>
#include <string.h>

static __thread char data[3000] __attribute__((tls_model("global-dynamic")));

__attribute__((visibility("default"))) void tls_use(void);

void tls_use(void)
{
    void *volatile p = malloc(sizeof(data));

    memset(data, 1, sizeof(data));
    if (p)
        memcpy(p, data, sizeof(data));
    free(p);
}
