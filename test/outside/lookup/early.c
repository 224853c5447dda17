/* SPDX-License-Identifier: Apache-2.0 */
/* A lookup before the library is relocated (resolver.c), and one after it. */
#include "test/outside/check.h"

extern int resolved_call(void);

int main(void)
{
    check_begin();
    CHECK(resolved_call());
    ((void (*)(void *))dlsym(dlopen("libc.so.6", RTLD_NOW), "free"))(strdup("text"));
    return check_end();
}
