/* SPDX-License-Identifier: Apache-2.0 */
/* Figures by name, for salloc_get_numeric_property. */
#ifndef SA_STATS_PROPERTIES_H
#define SA_STATS_PROPERTIES_H

#include "stats/stats_snapshot.h"

#include <stdbool.h>

/* False: there is none of the name. */
bool sa_property_read(const struct sa_snapshot *s, const char *name, size_t *ret);

#endif
