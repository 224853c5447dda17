/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a process was started by another one that runs on this library. No state. */
#ifndef SA_OUTPUT_PARENT_PROCESS_H
#define SA_OUTPUT_PARENT_PROCESS_H

#include <stdbool.h>

/*
 * Returns whether the parent process runs on the shared library, with the same SALLOC_CONF as this
 * process. conf: the value of that variable. False if the kernel does not tell, or the parent has
 * the library in it (a static program).
 */
bool sa_parent_has_conf(const char *conf);

#endif
