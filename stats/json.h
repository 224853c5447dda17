/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report as JSON: one object with schema_version, integers only (sizes in bytes), counters
 * apart from gauges. Names stay as they are while schema_version does; new ones may come.
 */
#ifndef SA_STATS_JSON_H
#define SA_STATS_JSON_H

#include "alloc/base/fmt.h"

#define SA_JSON_SCHEMA_VERSION 1

/* Needs at most sa_report_size() bytes. Allocates nothing; holds no lock while formatting. */
void sa_json_format(struct sa_fmt *f);

#endif
