/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices objects that were unloaded, and tells the stack table (sampling/stack/unloaded.h), by
 * comparing what the loader has with what it had at the last look. dlclose looks before and after
 * (alloc/api/interposers/dlclose.c). What libc unloads by itself, such as modules of iconv, is
 * noticed at the next look if it was there at an earlier one.
 */
#ifndef SA_SAMPLING_SYMBOLIZE_UNLOADS_H
#define SA_SAMPLING_SYMBOLIZE_UNLOADS_H

#include <stdbool.h>

/* Looks if objects were unloaded since the last look; if `loaded`, also if others were loaded.
 * Costs a call of dl_iterate_phdr that looks at one object if nothing has changed. Takes the
 * loader's lock and STACKS. */
void sa_unloads_look(bool loaded);

#endif
