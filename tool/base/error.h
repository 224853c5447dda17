/* SPDX-License-Identifier: Apache-2.0 */
/* Why a command cannot do what it was asked to: an exit code and one line of text. */
#ifndef SA_TOOL_BASE_ERROR_H
#define SA_TOOL_BASE_ERROR_H

/* Exit codes, which doc/sallocctl.md lists. */
enum sa_exit {
    SA_EXIT_DONE = 0,
    SA_EXIT_FAILED = 1,    /* memory, or a file that cannot be written */
    SA_EXIT_USAGE = 2,     /* the command line */
    SA_EXIT_NONE = 3,      /* no such process, or no such file */
    SA_EXIT_REFUSED = 4,   /* the kernel does not let us read it */
    SA_EXIT_NOT_ON_IT = 5, /* it does not run on salloc */
    SA_EXIT_VERSION = 6,   /* its library is of a version that this command does not know */
    SA_EXIT_DAMAGED = 7,   /* what is in its memory makes no sense, or the core lacks it */
};

struct sa_error {
    enum sa_exit code; /* SA_EXIT_DONE: there is none */
    char text[640];
};

/* Sets an error, in the format of printf; the first one stays. */
__attribute__((format(printf, 3, 4))) void sa_error_set(struct sa_error *e, enum sa_exit code,
                                                        const char *format, ...);

/* Flushes stdout. Sets an error if anything that was printed before could not be written. */
void sa_error_stdout(struct sa_error *e);

/* Prints it to stderr, and returns its code. */
int sa_error_print(const struct sa_error *e);

#endif
