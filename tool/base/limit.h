/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of a child process that reads what it does not trust. */
#ifndef SA_TOOL_BASE_LIMIT_H
#define SA_TOOL_BASE_LIMIT_H

#include <stdint.h>

/* Lowers a limit of this process (RLIMIT_...) to at most so much. */
void sa_limit_lower(int which, uint64_t most);

/* Lets this process map so many bytes more than it has mapped now. */
void sa_limit_memory(uint64_t more);

#endif
