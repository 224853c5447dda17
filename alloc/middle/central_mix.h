/* SPDX-License-Identifier: Apache-2.0 */
/* When classes take blocks from mixed spans (mixed_spans.h), and which spans become mixed. */
#ifndef SA_MIDDLE_CENTRAL_MIX_H
#define SA_MIDDLE_CENTRAL_MIX_H

#include "alloc/os/lock.h"

#include <stddef.h>

/*
 * Takes up to n objects of a class, whose spans have none left, from mixed spans. They are written
 * before `end`. Makes mixed spans while that saves much memory. Returns how many; 0: the class
 * takes a new span. The caller holds no lock below CENTRAL.
 */
size_t sa_central_mix(unsigned cls, void **end, size_t n) SA_EXCLUDES(SA_RANK_CENTRAL);

#endif
