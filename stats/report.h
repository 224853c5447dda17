/* SPDX-License-Identifier: Apache-2.0 */
/* The stats page as text, in the malloc-stats layout; doc/stats.md explains every line. */
#ifndef SA_STATS_REPORT_H
#define SA_STATS_REPORT_H

#include "alloc/base/fmt.h"

/* Writes the page to a buffer. Allocates nothing; holds no lock while formatting. */
void sa_report_format(struct sa_fmt *f);

/* The page to a file descriptor: 0, or -1 with errno. */
int sa_report_write(int fd);

/* Bytes that hold any page. */
size_t sa_report_size(void);

#endif
