/* SPDX-License-Identifier: Apache-2.0 */
/* The struct that the fast paths read; see hot.h, also for who writes it. Zero until
 * alloc/front/slow_path.c fills it. */
#include "alloc/hot/hot.h"

struct sa_hot sa_hot;
