/* SPDX-License-Identifier: Apache-2.0 */
/* The files that the process of a core had mapped, as the list of its loader tells them. */
#ifndef SA_TOOL_TARGET_CORE_LOADED_H
#define SA_TOOL_TARGET_CORE_LOADED_H

#include "tool/target/target.h"

/* Adds the mappings of the program and its libraries to a core that has no note about them: the
 * kernel leaves that out where it would be longer than 4 MiB, as with many mappings. core: the path
 * of the core. A program that was started by a relative path is looked for beside it. */
void sa_core_add_loaded(struct sa_target *t, const char *core);

#endif
