/* SPDX-License-Identifier: Apache-2.0 */
/* The manual page, made of the tables of all commands: man(7)'s macros. */
#include "tool/command/command.h"

#include "tool/base/error.h"

#include <stdio.h>
#include <string.h>

static const char head[] =
    ".SH NAME\n"
    "sallocctl \\- look into processes that run on salloc, and into their cores\n";

static const char description[] =
    ".SH DESCRIPTION\n"
    ".B sallocctl\n"
    "reads the memory of processes from outside.\n"
    "They need no preparation, nothing runs in them, and they are not stopped, except by\n"
    ".B leaks\n"
    "and on request.\n"
    "A CORE is a core file, as the kernel or gcore writes it.\n"
    "A FILE is a profile: .pb.gz or .pb.\n"
    "An option may be cut to a beginning that no other option has.\n";

static const char end[] = ".SH FILES\n"
                          ".TP\n"
                          ".I /tmp/perf\\-PID.map\n"
                          "Names of the generated code of a process, which its compiler writes "
                          "for perf.\n"
                          "Of a process in a container it is the file in the container.\n"
                          ".SH SEE ALSO\n"
                          ".BR ptrace (2),\n"
                          ".BR core (5)\n";

/* Text that is no request and has hyphens as they are typed. */
static void put_text(const char *text, size_t length)
{
    if (length && (*text == '.' || *text == '\''))
        printf("\\&");
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\\')
            printf("\\e");
        else if (text[i] == '-')
            printf("\\-");
        else
            putchar(text[i]);
    }
}

/* Lines; what is indented stays as it is, and an empty line begins a paragraph. */
static void put_lines(const char *line)
{
    while (*line) {
        size_t length = strcspn(line, "\n");

        if (!length) {
            printf(".PP\n");
        } else {
            if (*line == ' ')
                printf(".br\n");
            put_text(line, length);
            printf("\n");
        }
        line += length + (line[length] == '\n');
    }
}

static void put_synopsis(const struct sa_command *command)
{
    const char *line = command->synopsis;

    while (*line) {
        size_t length = strcspn(line, "\n");

        printf(".B sallocctl %s\n", command->name);
        put_text(line, length);
        printf("%s.br\n", length ? "\n" : "");
        line += length + (line[length] == '\n');
    }
}

static void put_option(const struct sa_command_option *o)
{
    printf(".TP\n");
    if (o->letter)
        printf("\\fB\\-%c\\fR, ", o->letter);
    printf("\\fB\\-\\-");
    put_text(o->name, strlen(o->name));
    printf("\\fR");
    if (o->argument)
        printf(" \\fI%s\\fR", o->argument);
    printf("\n");
    put_lines(o->what);
}

int sa_command_manual(void)
{
    printf(".\\\" SPDX-License-Identifier: Apache-2.0\n"
           ".TH SALLOCCTL 1 \"\" \"salloc %s\" \"User Commands\"\n%s.SH SYNOPSIS\n",
           SALLOC_VERSION, head);
    for (size_t i = 0; i < sa_command_count; i++)
        put_synopsis(sa_commands[i]);
    printf("%s.SH COMMANDS\n", description);
    for (size_t i = 0; i < sa_command_count; i++) {
        const struct sa_command *c = sa_commands[i];

        printf(".SS sallocctl %s\n", c->name);
        put_lines(c->text);
        for (size_t k = 0; k < c->option_count; k++)
            put_option(&c->options[k]);
        printf(".PP\nExit code: ");
        put_lines(c->exit_codes ? c->exit_codes : sa_command_exit_codes);
    }
    printf("%s", end);
    return SA_EXIT_DONE;
}
