/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command: what its help says, the table of its options, and what it does. One parser reads every
 * command line by such a table (parse.c), and the help is made of the same table (help.c), so that
 * an option exists in both or in neither.
 */
#ifndef SA_TOOL_COMMAND_COMMAND_H
#define SA_TOOL_COMMAND_COMMAND_H

#include "tool/target/target.h"

#include <stddef.h>

#define SA_SOURCES_MAX 2

struct sa_operands {
    int count;
    char **of;
    struct sa_source sources[SA_SOURCES_MAX]; /* the first of them, if the command has sources */
};

struct sa_command_option {
    char letter;          /* 0: it has only a name */
    const char *name;     /* without "--" */
    const char *argument; /* what the help calls it; NULL: the option takes none */
    const char *what;     /* lines of at most 68 columns */
    size_t field;         /* where its value lies in the options of the command */

    /* Puts the value into its field. Returns what is wrong with the argument, or NULL. */
    const char *(*take)(const char *argument, void *field);
};

struct sa_command {
    const char *name;
    const char *what;       /* a line for the list of commands */
    const char *synopsis;   /* lines that follow "usage: sallocctl NAME" */
    const char *text;       /* what --help says before the options; lines */
    const char *exit_codes; /* what it says after them; NULL: those of a command that reads */
    const struct sa_command_option *options;
    size_t option_count;
    size_t options_bytes;       /* of its struct of options; at most SA_COMMAND_OPTIONS_MAX */
    int starts_program;         /* options end at the first operand */
    int first, last;            /* how many operands there are; `last` negative: no limit */
    int sources;                /* how many of the first ones are processes, cores or profiles */
    const char *operands;       /* what is said where there are fewer or more */
    void (*set)(void *options); /* the options before any is given; NULL: zero */

    /* Does it, with the operands, and returns the exit code; that of *e, if it sets that, wins. */
    int (*run)(const void *options, const struct sa_operands *operands, struct sa_error *e);
};

#define SA_COMMAND_OPTIONS_MAX 256

/* The table of a command, in its initializer. */
#define SA_COMMAND_OPTIONS(table, type)                                                            \
    .options = (table), .option_count = sizeof(table) / sizeof(*(table)),                          \
    .options_bytes = sizeof(type)

extern const struct sa_command *const sa_commands[];
extern const size_t sa_command_count;

/* The command of that name, or NULL. */
const struct sa_command *sa_command_find(const char *name);

/* Reads a command line, the command's name first, and does what it says. Returns the exit code. */
int sa_command_call(const struct sa_command *command, int argc, char **argv);

/* Says on stderr what is wrong with the command line. Returns the exit code for it. */
int sa_command_misused(const struct sa_command *command, const char *why);

/* Whether an argument asks for help. */
int sa_command_is_help(const char *argument);

/* Prints the help of a command. Returns the exit code. */
int sa_command_help(const struct sa_command *command);

/* Prints the commands, or a command's options, a word on each line: for completion. NULL: there is
 * no such command. */
int sa_command_words(const struct sa_command *command);

/* Prints the manual page, sallocctl(1): of all commands. Returns the exit code. */
int sa_command_manual(void);

/* For `take`. Fields: int; const char *; double, above 0 and of at most ten years; const char *,
 * the name of a profile to write. */
const char *sa_take_flag(const char *argument, void *field);
const char *sa_take_text(const char *argument, void *field);
const char *sa_take_seconds(const char *argument, void *field);
const char *sa_take_output(const char *argument, void *field);

/* The folder below which the files of cores are looked for; it has no field. */
const char *sa_take_sysroot(const char *argument, void *field);

/* Its row in a table of options. */
#define SA_OPTION_SYSROOT                                                                          \
    {                                                                                              \
        0, "sysroot", "DIR", "look for the programs and libraries of a core below DIR first\n", 0, \
            sa_take_sysroot                                                                        \
    }

/* What most commands end with that read profiles, processes and cores. */
extern const char sa_command_exit_codes[];

#endif
