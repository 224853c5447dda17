/* SPDX-License-Identifier: Apache-2.0 */
/* The stats page that the option `stats` asks for. See stats_output.c; output.h says when it is
 * written. */
#ifndef SA_API_CONTROL_STATS_OUTPUT_H
#define SA_API_CONTROL_STATS_OUTPUT_H

#include <stdbool.h>

/* Checks the destination of the page. nested: as in alloc/output/destination.h. False: no page is
 * wanted. Called once, by the constructor. */
bool sa_stats_output_register(bool nested);

/* Writes the page. Calls are serialised by the caller. */
void sa_stats_output_write(void);

/* Called in a child of fork: the child has no copy of the parent's descriptor. */
void sa_stats_output_after_fork(void);

#endif
