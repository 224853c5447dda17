/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines, by the table of options of the command. */
#include "tool/command/command.h"

#include "tool/base/error.h"
#include "tool/base/note.h"
#include "tool/base/units.h"
#include "tool/reading/output.h"
#include "tool/target/target.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define OPTIONS_MAX 24
#define LONG        256 /* of getopt_long: an option by its name; plus its number */
#define HELP        1   /* no letter */

/* getopt_long's two lists. */
struct lists {
    struct option names[OPTIONS_MAX + 2];
    char letters[2 * OPTIONS_MAX + 4];
};

static void make_lists(const struct sa_command *command, struct lists *ret)
{
    char *letter = ret->letters;

    memset(ret, 0, sizeof(*ret));
    if (command->starts_program)
        *letter++ = '+';
    *letter++ = ':';
    *letter++ = 'h';
    for (size_t i = 0; i < command->option_count; i++) {
        const struct sa_command_option *o = &command->options[i];

        ret->names[i] = (struct option){o->name, o->argument ? required_argument : no_argument,
                                        NULL, LONG + (int)i};
        if (!o->letter)
            continue;
        *letter++ = o->letter;
        if (o->argument)
            *letter++ = ':';
    }
    ret->names[command->option_count] = (struct option){"help", no_argument, NULL, HELP};
}

/* NULL: there is none, and getopt_long said why by `c`. */
static const struct sa_command_option *option_of(const struct sa_command *command, int c)
{
    if (c >= LONG)
        return &command->options[c - LONG];
    for (size_t i = 0; i < command->option_count; i++)
        if (command->options[i].letter == c)
            return &command->options[i];
    return NULL;
}

/* How many names of options begin as an argument does that getopt_long did not take. */
static size_t names_like(const struct lists *lists, const char *argument)
{
    size_t length = strcspn(argument, "="), count = 0;

    if (strncmp(argument, "--", 2) != 0 || length == 2)
        return 0;
    for (const struct option *o = lists->names; o->name; o++)
        count += strncmp(o->name, argument + 2, length - 2) == 0;
    return count;
}

static int refuse(const struct sa_command *command, const struct lists *lists, int c,
                  const char *argument)
{
    size_t like = names_like(lists, argument);
    char why[160];

    if (c == ':')
        snprintf(why, sizeof(why), "%.60s needs an argument", argument);
    else if (like > 1)
        snprintf(why, sizeof(why), "%.60s is the beginning of %zu options", argument, like);
    else if (like == 1)
        snprintf(why, sizeof(why), "%.60s takes no argument", argument);
    else if (optopt > 0 && optopt < LONG)
        snprintf(why, sizeof(why), "there is no option -%c", optopt);
    else
        snprintf(why, sizeof(why), "there is no option %.60s", argument);
    return sa_command_misused(command, why);
}

int sa_command_call(const struct sa_command *command, int argc, char **argv)
{
    _Alignas(16) char options[SA_COMMAND_OPTIONS_MAX] = {0};
    struct sa_operands operands = {0};
    const struct sa_command_option *o;
    struct lists lists;
    const char *wrong;
    struct sa_error e = {SA_EXIT_DONE, ""};
    int c, code, count;

    if (command->options_bytes > sizeof(options) || command->option_count > OPTIONS_MAX)
        abort();
    if (command->set)
        command->set(options);
    make_lists(command, &lists);
    opterr = 0;
    while ((c = getopt_long(argc, argv, lists.letters, lists.names, NULL)) != -1) {
        if (c == 'h' || c == HELP)
            return sa_command_help(command);
        o = c == '?' || c == ':' ? NULL : option_of(command, c);
        if (!o)
            return refuse(command, &lists, c, argv[optind - 1]);
        wrong = o->take(optarg, options + o->field);
        if (wrong) {
            char why[256];

            snprintf(why, sizeof(why), "--%s: %s", o->name, wrong);
            return sa_command_misused(command, why);
        }
    }
    count = argc - optind;
    if (count < command->first || (command->last >= 0 && count > command->last))
        return sa_command_misused(command, command->operands);
    for (int i = 0; i < count && i < command->sources; i++)
        sa_source_parse(argv[optind + i], &operands.sources[i], &e);
    operands.count = count;
    operands.of = argv + optind;
    code = e.code ? SA_EXIT_DONE : command->run(options, &operands, &e);
    sa_notes_print();
    sa_error_print(&e);
    return e.code ? (int)e.code : code;
}

const char *sa_take_sysroot(const char *argument, void *field)
{
    static char folder[4096];
    struct stat s;
    int n = snprintf(folder, sizeof(folder), "%s", argument);

    (void)field;
    while (n > 0 && n < (int)sizeof(folder) && folder[n - 1] == '/')
        folder[--n] = '\0';
    if (n >= (int)sizeof(folder) || stat(argument, &s) != 0 || !S_ISDIR(s.st_mode))
        return "it needs a folder";
    sa_target_set_sysroot(folder);
    return NULL;
}

const char *sa_take_flag(const char *argument, void *field)
{
    (void)argument;
    *(int *)field = 1;
    return NULL;
}

const char *sa_take_text(const char *argument, void *field)
{
    *(const char **)field = argument;
    return NULL;
}

const char *sa_take_seconds(const char *argument, void *field)
{
    double seconds;

    if (!sa_units_time(argument, &seconds) || !(seconds > 0))
        return "it needs " SA_UNITS_TIME ", above 0";
    *(double *)field = seconds;
    return NULL;
}

const char *sa_take_output(const char *argument, void *field)
{
    if (!sa_output_format(argument))
        return "the file's ending is none of .pb.gz, .pb, .txt, .collapsed, .folded";
    *(const char **)field = argument;
    return NULL;
}
