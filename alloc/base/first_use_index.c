/* SPDX-License-Identifier: Apache-2.0 */
/* Places of size classes; see first_use_index.h, also for what guards the two arrays. */
#include "alloc/base/first_use_index.h"

#include "alloc/base/layout.h"

#include "alloc/base/fatal.h"

SA_LAYOUT_USED uint8_t sa_first_use_indexes[SA_CLASSES_MAX];
SA_LAYOUT_USED uint8_t sa_first_use[SA_CLASSES_MAX];

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE_ALL("sa_first_use", sa_first_use),
    SA_LAYOUT_STATE_ALL("sa_first_use_indexes", sa_first_use_indexes),
};
SA_LAYOUT_ADDRESS(sa_first_use);
SA_LAYOUT_ADDRESS(sa_first_use_indexes);

unsigned sa_first_use_index_find(unsigned cls)
{
    SA_DCHECK(cls && cls < SA_CLASSES_MAX);
    for (unsigned i = 0;; i++) {
        uint8_t there;

        /* Each class takes one place, and there are as many places as classes. */
        SA_CHECK(i < SA_CLASSES_MAX);
        there = sa_load_relaxed(&sa_first_use[i]);
        if (!there && sa_cas_relaxed(&sa_first_use[i], &there, (uint8_t)cls))
            there = (uint8_t)cls;
        if (there == cls) {
            sa_store_relaxed(&sa_first_use_indexes[cls], (uint8_t)(i + 1));
            return i;
        }
    }
}
