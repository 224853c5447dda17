/* SPDX-License-Identifier: Apache-2.0 */
/* Size classes in the order of their first use; see first_use_index.h. */
#include "alloc/base/first_use_index.h"

#include "alloc/base/fatal.h"

uint8_t sa_class_places[SA_CLASSES_MAX];
uint8_t sa_first_use[SA_CLASSES_MAX];

unsigned sa_class_place_find(unsigned cls)
{
    SA_DCHECK(cls && cls < SA_CLASSES_MAX);
    for (unsigned i = 0;; i++) {
        uint8_t there;

        SA_CHECK(i < SA_CLASSES_MAX); /* there is a place for each class, and a class takes one */
        there = sa_load_relaxed(&sa_first_use[i]);
        if (!there && sa_cas_relaxed(&sa_first_use[i], &there, (uint8_t)cls))
            there = (uint8_t)cls;
        if (there == cls) {
            sa_store_relaxed(&sa_class_places[cls], (uint8_t)(i + 1));
            return i;
        }
    }
}
