/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl: looks into processes that run on salloc, and cores of such, from outside. */
#include "tool/command/command.h"

#include "alloc/base/size_class.h"
#include "alloc/os/percpu.h"
#include "alloc/os/vdso.h"
#include "alloc/os/vm.h"
#include "tool/base/budget.h"
#include "tool/base/error.h"
#include "tool/base/note.h"
#include "tool/symbol/debuginfod.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void print_commands(FILE *to)
{
    fprintf(to, "usage: sallocctl COMMAND [ARGUMENT...]\n\n");
    for (size_t i = 0; i < sa_command_count; i++)
        fprintf(to, "  %-10s %s\n", sa_commands[i]->name, sa_commands[i]->what);
    fprintf(to, "\n'sallocctl COMMAND --help' explains a command; doc/sallocctl.md all of them.\n");
}

static int unknown(const char *name)
{
    fprintf(stderr, "sallocctl: there is no command '%s'\n", name);
    print_commands(stderr);
    return SA_EXIT_USAGE;
}

/* help [--words] [COMMAND], help --manual: --words is for completion, --manual for the build. */
static int help(int argc, char **argv)
{
    int words = argc >= 2 && strcmp(argv[1], "--words") == 0;
    const char *name = argc > 1 + words ? argv[1 + words] : NULL;
    const struct sa_command *command = name ? sa_command_find(name) : NULL;

    if (argc == 2 && strcmp(argv[1], "--manual") == 0)
        return sa_command_manual();
    if (name && !command)
        return unknown(name);
    if (words)
        return sa_command_words(command);
    if (command)
        return sa_command_help(command);
    print_commands(stdout);
    return SA_EXIT_DONE;
}

/* Of the library's code, what estimates and writers need. */
static void start(void)
{
    sa_vm_init();
    sa_vdso_init();
    sa_size_class_init(sa_vm.page_bytes, SA_SLAB_BEGIN / 8, sizeof(struct sa_slab) / 8);
}

/*
 * Takes the place of standard descriptors that are closed: files that are opened later would get
 * their numbers, and what is meant for people would go there. Reading and writing still fail. A
 * program of `run` finds them closed.
 */
static bool reserve_standard_descriptors(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/", O_PATH | O_CLOEXEC) != fd)
            return false;
    return true;
}

static void ignore(int number)
{
    (void)number;
}

/* Has a file that grows beyond the limit (ulimit -f) give an error. A handler, unlike SIG_IGN, does
 * not reach the program of `run`. */
static void survive_file_limit(void)
{
    struct sigaction action = {.sa_handler = ignore, .sa_flags = SA_RESTART}, before;

    if (sigaction(SIGXFSZ, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
        sigaction(SIGXFSZ, &action, NULL);
}

static int call(int argc, char **argv)
{
    const struct sa_command *command = argc >= 2 ? sa_command_find(argv[1]) : NULL;

    if (argc >= 2 && (sa_command_is_help(argv[1]) || strcmp(argv[1], "help") == 0))
        return help(argc - 1, argv + 1);
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
        printf("sallocctl %s\n", SALLOC_VERSION);
        return SA_EXIT_DONE;
    }
    if (command) {
        start();
        sa_budget_begin(UINT64_MAX);
        sa_debuginfod_begin();
        sa_notes_begin();
        return sa_command_call(command, argc - 1, argv + 1);
    }
    if (argc >= 2)
        return unknown(argv[1]);
    print_commands(stderr);
    return SA_EXIT_USAGE;
}

int main(int argc, char **argv)
{
    struct sa_error e = {SA_EXIT_DONE, ""};
    int code;

    if (!reserve_standard_descriptors())
        return SA_EXIT_FAILED;
    survive_file_limit();
    code = call(argc, argv);
    sa_error_stdout(&e);
    sa_error_print(&e);
    return code ? code : (int)e.code;
}
