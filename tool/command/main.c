/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl: looks into processes that run on salloc, and cores of such, from outside. */
#include "tool/command/command.h"

#include "alloc/base/size_class.h"
#include "alloc/os/percpu.h"
#include "alloc/os/vdso.h"
#include "alloc/os/vm.h"
#include "tool/base/error.h"

#include <stdio.h>
#include <string.h>

static const struct sa_command *const commands[] = {
    &sa_command_run,     &sa_command_ps,     &sa_command_profile, &sa_command_leaks,
    &sa_command_convert, &sa_command_report, &sa_command_diff,    &sa_command_flame,
};

#define COMMANDS (sizeof(commands) / sizeof(*commands))

static void print_commands(FILE *to)
{
    fprintf(to, "usage: sallocctl COMMAND [ARGUMENT...]\n\n");
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(to, "  %-10s %s\n", commands[i]->name, commands[i]->what);
    fprintf(to, "\n'sallocctl COMMAND --help' explains a command; doc/sallocctl.md all of them.\n");
}

int sa_command_help(const struct sa_command *command)
{
    printf("%s", command->usage);
    return fflush(stdout) == 0 ? SA_EXIT_DONE : SA_EXIT_FAILED;
}

int sa_command_misused(const struct sa_command *command, const char *why)
{
    fprintf(stderr, "sallocctl %s: %s\n%.*s\n", command->name, why,
            (int)strcspn(command->usage, "\n"), command->usage);
    return SA_EXIT_USAGE;
}

int sa_command_is_help(const char *argument)
{
    return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

/* Of the library's code, what estimates and writers need. */
static void start(void)
{
    sa_vm_init();
    sa_vdso_init();
    sa_size_class_init(sa_vm.page_bytes, SA_SLAB_BEGIN / 8, sizeof(struct sa_slab) / 8);
}

int main(int argc, char **argv)
{
    if (argc >= 2 && sa_command_is_help(argv[1])) {
        print_commands(stdout);
        return fflush(stdout) == 0 ? SA_EXIT_DONE : SA_EXIT_FAILED;
    }
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
        printf("sallocctl %s\n", SALLOC_VERSION);
        return SA_EXIT_DONE;
    }
    for (size_t i = 0; argc >= 2 && i < COMMANDS; i++)
        if (strcmp(argv[1], commands[i]->name) == 0) {
            start();
            return commands[i]->run(argc - 1, argv + 1);
        }
    if (argc >= 2)
        fprintf(stderr, "sallocctl: there is no command '%s'\n", argv[1]);
    print_commands(stderr);
    return SA_EXIT_USAGE;
}
