/* SPDX-License-Identifier: Apache-2.0 */
/* The list of commands, in the order in which the help names them. */
#include "tool/command/command.h"

#include <string.h>

extern const struct sa_command sa_command_convert;
extern const struct sa_command sa_command_diff;
extern const struct sa_command sa_command_flame;
extern const struct sa_command sa_command_leaks;
extern const struct sa_command sa_command_profile;
extern const struct sa_command sa_command_ps;
extern const struct sa_command sa_command_report;
extern const struct sa_command sa_command_run;
extern const struct sa_command sa_command_serve;
extern const struct sa_command sa_command_stats;
extern const struct sa_command sa_command_get;
extern const struct sa_command sa_command_set;
extern const struct sa_command sa_command_top;
extern const struct sa_command sa_command_trace;

const struct sa_command *const sa_commands[] = {
    &sa_command_run,   &sa_command_ps,    &sa_command_top,     &sa_command_profile,
    &sa_command_stats, &sa_command_leaks, &sa_command_convert, &sa_command_report,
    &sa_command_diff,  &sa_command_flame, &sa_command_serve,   &sa_command_trace,
    &sa_command_set,   &sa_command_get,
};

const size_t sa_command_count = sizeof(sa_commands) / sizeof(*sa_commands);

const struct sa_command *sa_command_find(const char *name)
{
    for (size_t i = 0; i < sa_command_count; i++)
        if (strcmp(sa_commands[i]->name, name) == 0)
            return sa_commands[i];
    return NULL;
}
