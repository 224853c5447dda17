/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that a command may take: at most a quarter of what its memory cgroups, its resource
 * limits and the machine leave when it begins. The kernel enforces that (RLIMIT_DATA), so what goes
 * beyond fails as malloc does, and neither the command nor the process that it looks at, which may
 * be in the same group, is killed. Resident pages of files do not count: the kernel takes them
 * back.
 *
 * One budget for each process, used by one thread.
 */
#ifndef SA_TOOL_BASE_BUDGET_H
#define SA_TOOL_BASE_BUDGET_H

#include <stddef.h>
#include <stdint.h>

/* Bounds what this process takes from now on by that quarter, and by `most` bytes. */
void sa_budget_begin(uint64_t most);

/* Takes the bound away, for a program that is run in place of this one or by it. */
void sa_budget_end(void);

/* Adds a file that this process maps privately: only what is written to it takes memory. */
void sa_budget_add_file(uint64_t bytes);

/* The quarter of what is left now. UINT64_MAX: not known. */
uint64_t sa_budget_quarter(void);

/* Bytes that this process may still take of its budget. UINT64_MAX: it has none. */
uint64_t sa_budget_rest(void);

/* Describes the budget, as "at most 25.0 MiB, a quarter of what ... leaves"; empty: there is
 * none. */
void sa_budget_describe(char *ret, size_t cap);

#endif
