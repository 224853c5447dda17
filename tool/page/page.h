/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a profile, in two halves: the profile goes between them. embed.py makes the source of
 * these constants. */
#ifndef SA_TOOL_PAGE_PAGE_H
#define SA_TOOL_PAGE_PAGE_H

#include <stddef.h>

extern const char sa_page_head[], sa_page_tail[];
extern const size_t sa_page_head_bytes, sa_page_tail_bytes;

#endif
