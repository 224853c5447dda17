/* SPDX-License-Identifier: Apache-2.0 */
/* Why a process cannot be read, and what helps. */
#ifndef SA_TOOL_TARGET_REFUSAL_H
#define SA_TOOL_TARGET_REFUSAL_H

#include "tool/base/error.h"

#include <sys/types.h>

/* error: what the kernel said; 0: it said nothing, but the process has no memory. */
void sa_refusal_explain(pid_t pid, int error, struct sa_error *e);

#endif
