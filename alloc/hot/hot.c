/* SPDX-License-Identifier: Apache-2.0 */
/* The struct that the fast paths read; see hot.h, also for who writes it. Zero until
 * alloc/start/fast_path_open.c fills it. */
#include "alloc/hot/hot.h"

#include "alloc/base/layout.h"

SA_LAYOUT_USED struct sa_hot sa_hot;

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE("sa_hot", sa_hot, aborts),
};
SA_LAYOUT_ADDRESS(sa_hot);
