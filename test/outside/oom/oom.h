/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs that run out of memory: limits that hold from the first instruction, silence on
 * stderr, and how much can be allocated.
 */
#ifndef SA_TEST_OOM_H
#define SA_TEST_OOM_H

#include "test/outside/check.h"
#include "test/outside/own_stderr.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* Starts the program again under the limit, unless it is: so also the loader and the library's
 * first steps live with it. More arguments are passed on. */
__attribute__((unused)) static void oom_limit(int resource, size_t mib, char **argv)
{
    struct rlimit limit = {mib << 20, mib << 20};

    if (getenv("OOM_LIMITED"))
        return;
    setenv("OOM_LIMITED", "1", 1);
    REQUIRE(setrlimit(resource, &limit) == 0);
    execv("/proc/self/exe", argv);
    REQUIRE(!"execv");
}

static int oom_stderr = -1;

/* From here on whatever is written to stderr is kept... */
__attribute__((unused)) static void oom_listen(char **argv)
{
    oom_stderr = own_stderr_begin(argv);
}

/* ... and it must have been nothing. */
__attribute__((unused)) static void oom_silent(void)
{
    char text[200];

    CHECK_SAYS(own_stderr_read(oom_stderr, text, sizeof(text)) == 0, "stderr: %s", text);
}

/* Allocates blocks of a size until there is no more; the list of them, and how many in *ret_n. */
__attribute__((unused)) static void *oom_fill(size_t size, size_t *ret_n)
{
    void **p, *head = NULL;
    size_t n = 0;

    for (;;) {
        errno = 0;
        p = malloc(size);
        if (!p)
            break;
        p[0] = head;
        p[size / sizeof(void *) - 1] = head;
        head = p;
        n++;
    }
    CHECK_SAYS(errno == ENOMEM, "errno is %d", errno);
    *ret_n = n;
    return head;
}

/* Frees a list of blocks, checking both ends of each. */
__attribute__((unused)) static void oom_empty(void *head, size_t size)
{
    while (head) {
        void **p = head;

        CHECK(p[0] == p[size / sizeof(void *) - 1]);
        head = p[0];
        free(p);
    }
}

#endif
