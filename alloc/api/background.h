/* SPDX-License-Identifier: Apache-2.0 */
/* The maintenance thread: options maintenance_thread and pressure, release_rate, and its functions
 * in include/salloc/salloc.h. */
#ifndef SA_API_BACKGROUND_H
#define SA_API_BACKGROUND_H

#include <stdbool.h>

/* From the constructor, after options were read. */
void sa_background_read_options(void);

/* Whether there is a maintenance thread, or will be one. */
bool sa_background_is_wanted(void);

/* In the child, which has no such thread any more. */
void sa_background_after_fork(void);

#endif
