/* SPDX-License-Identifier: Apache-2.0 */
/* Runs with a library that replaces dlsym (wrapper.c), before or behind the library: lookups reach
 * the wrapper, and what the library looks up itself ends. usage: wrapped [exact]
 * exact: no route passes the library by, so that functions found by name are its own */
#include "test/outside/check.h"

#include <link.h>

int main(int argc, char **argv)
{
    void *libm = dlopen("libm.so.6", RTLD_NOW), *libc = dlopen("libc.so.6", RTLD_NOW);
    unsigned (*calls)(void);
    unsigned before;

    (void)argv;
    alarm(20);
    REQUIRE(libm && libc && dlmopen(LM_ID_BASE, "libm.so.6", RTLD_NOW));
    calls = (unsigned (*)(void))dlsym(RTLD_DEFAULT, "wrapper_calls");
    REQUIRE(calls);
    before = calls();
    CHECK(dlsym(libm, "glXSwapBuffers") == (void *)calls);
    CHECK(dlsym(libm, "cos"));
    CHECK(calls() == before + 2);
    CHECK(!dlopen("/nowhere/libnothing.so", RTLD_NOW));
    if (argc > 1) {
        void (*release)(void *) = (void (*)(void *))dlsym(libc, "free");

        REQUIRE(release);
        release(strdup("text"));
        release(malloc(1000000));
    }
    return check_end();
}
