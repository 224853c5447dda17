/* SPDX-License-Identifier: Apache-2.0 */
/* What --help says of a command, made of its table of options. */
#include "tool/command/command.h"

#include "tool/base/error.h"

#include <stdio.h>
#include <string.h>

const char sa_command_exit_codes[] =
    "0 done, 1 a file cannot be read or written, 2 usage, 3 there is no such file or\n"
    "process, 4 the kernel refuses to read it, 5 it does not run on salloc, 6 its library is of\n"
    "another version, 7 what was read is no profile, or damaged.\n";

/* "  -o, --output FILE"; the columns that it takes. */
static int put_option(const struct sa_command_option *o, char *ret, size_t cap)
{
    char letter[8] = "    ";

    if (o->letter)
        snprintf(letter, sizeof(letter), "-%c, ", o->letter);
    return snprintf(ret, cap, "  %s--%s%s%s", letter, o->name, o->argument ? " " : "",
                    o->argument ? o->argument : "");
}

static void print_options(const struct sa_command *command)
{
    char text[80];
    int width = 0;

    for (size_t i = 0; i < command->option_count; i++) {
        int columns = put_option(&command->options[i], text, sizeof(text));

        width = columns > width ? columns : width;
    }
    for (size_t i = 0; i < command->option_count; i++) {
        const char *line = command->options[i].what;

        put_option(&command->options[i], text, sizeof(text));
        for (const char *before = text; *line; before = "") {
            size_t length = strcspn(line, "\n");

            printf("%-*s  %.*s\n", width, before, (int)length, line);
            line += length + (line[length] == '\n');
        }
    }
}

static void print_synopsis(const struct sa_command *command, FILE *to)
{
    const char *line = command->synopsis, *before = "usage:";

    while (*line) {
        size_t length = strcspn(line, "\n");

        fprintf(to, "%-6s sallocctl %s%s%.*s\n", before, command->name, length ? " " : "",
                (int)length, line);
        line += length + (line[length] == '\n');
        before = "";
    }
}

int sa_command_help(const struct sa_command *command)
{
    print_synopsis(command, stdout);
    printf("\n%s\n", command->text);
    if (command->option_count) {
        print_options(command);
        printf("\n");
    }
    printf("Exit code: %s", command->exit_codes ? command->exit_codes : sa_command_exit_codes);
    return SA_EXIT_DONE;
}

int sa_command_misused(const struct sa_command *command, const char *why)
{
    fprintf(stderr, "sallocctl %s: %s\n", command->name, why);
    print_synopsis(command, stderr);
    return SA_EXIT_USAGE;
}

int sa_command_is_help(const char *argument)
{
    return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

int sa_command_words(const struct sa_command *command)
{
    for (size_t i = 0; !command && i < sa_command_count; i++)
        printf("%s\n", sa_commands[i]->name);
    for (size_t i = 0; command && i < command->option_count; i++) {
        const struct sa_command_option *o = &command->options[i];

        printf("--%s%s\n", o->name, o->argument ? "=" : "");
    }
    if (command)
        printf("--help\n");
    return SA_EXIT_DONE;
}
