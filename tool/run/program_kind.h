/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a program can run on a library of LD_PRELOAD, told by its file before it runs. */
#ifndef SA_TOOL_RUN_PROGRAM_KIND_H
#define SA_TOOL_RUN_PROGRAM_KIND_H

/*
 * Why the program does not run on salloc: NULL if it does, or if nothing is known against it. The
 * program is looked for as execvp does. Of a script, it is the interpreter that counts.
 */
const char *sa_program_kind_unfit(const char *program);

#endif
