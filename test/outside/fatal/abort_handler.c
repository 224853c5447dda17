/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handler of SIGABRT, which the report causes, finds the report in libc's __abort_msg and in
 * salloc_abort_message, as whoever looks at a core dump does. It misuses the heap itself, which
 * ends as any other misuse.
 *
 * EXPECT: double free: 0x[0-9a-f]+
 * REPORTS: 2
 * ARGS: 64,300000
 */
#include "test/outside/fatal/fatal.h"

#include <dlfcn.h>
#include <signal.h>
#include <string.h>

struct message {
    unsigned bytes;
    char text[];
};

static void *block;

static int is_report(const char *text)
{
    return strncmp(text, "salloc: double free: 0x", 23) == 0 && strstr(text, " thread ") &&
           strstr(text, "#0 ") && strstr(text, " main\n") && strchr(text, '\n')[1] == 's';
}

static void handler(int number)
{
    struct message **libcs = dlsym(RTLD_DEFAULT, "__abort_msg");
    const char **ours = dlsym(RTLD_DEFAULT, "salloc_abort_message");

    (void)number;
    if (!libcs || !*libcs || !is_report((*libcs)->text) || (*libcs)->bytes < strlen((*libcs)->text))
        _exit(1);
    if (!ours || !*ours || !is_report(*ours))
        _exit(2);
    signal(SIGABRT, SIG_DFL);
    free(block);
    _exit(FATAL_SURVIVED);
}

int main(int argc, char **argv)
{
    fatal_pin();
    signal(SIGABRT, handler);
    block = fatal_names(malloc(fatal_arg(argc, argv, 1)));
    free(block);
    free(block);
    return FATAL_SURVIVED;
}
