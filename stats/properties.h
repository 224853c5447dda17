/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics by name, for salloc_get_numeric_property. */
#ifndef SA_STATS_PROPERTIES_H
#define SA_STATS_PROPERTIES_H

#include "stats/stats_snapshot.h"

#include <stdbool.h>

/*
 * Reads the numeric property `name`, from s where s has it. False: no property has that name; *ret
 * is then unchanged. Metrics of the hugepage-aware heap, and the two values that the kernel
 * computes, are read anew. Takes locks; no lock may be held by the caller. Allocates nothing.
 */
bool sa_property_read(const struct sa_snapshot *s, const char *name, size_t *ret);

#endif
