/* SPDX-License-Identifier: Apache-2.0 */
/* The commands. Each gets its own arguments, its name first, and returns the exit code. */
#ifndef SA_TOOL_COMMAND_COMMAND_H
#define SA_TOOL_COMMAND_COMMAND_H

struct sa_command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *what;  /* one line for the list of commands */
    const char *usage; /* the text of --help */
};

extern const struct sa_command sa_command_convert;
extern const struct sa_command sa_command_diff;
extern const struct sa_command sa_command_flame;
extern const struct sa_command sa_command_leaks;
extern const struct sa_command sa_command_profile;
extern const struct sa_command sa_command_ps;
extern const struct sa_command sa_command_report;
extern const struct sa_command sa_command_run;

/* Prints the usage to stdout for --help, else to stderr; the exit code for it. */
int sa_command_help(const struct sa_command *command);
int sa_command_misused(const struct sa_command *command, const char *why);

/* Whether an argument asks for help. */
int sa_command_is_help(const char *argument);

#endif
