/* SPDX-License-Identifier: Apache-2.0 */
/* The one sa_hardening of the process; see hardening.h. Written before the first allocation. */
#include "alloc/base/hardening.h"

#include "alloc/base/layout.h"

#include "alloc/base/canary.h"

SA_LAYOUT_USED SA_START_DATA struct sa_hardening sa_hardening;

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE("sa_hardening", sa_hardening, on),
    SA_LAYOUT_STATE("sa_hardening", sa_hardening, canaries),
    SA_LAYOUT_STATE("sa_hardening", sa_hardening, junk_new),
    SA_LAYOUT_STATE("sa_hardening", sa_hardening, junk_freed),
};
SA_LAYOUT_ADDRESS(sa_hardening);

void sa_hardening_init(const struct sa_hardening *wanted, const uint64_t secret[4])
{
    sa_hardening = *wanted;
    sa_hardening.inspect = wanted->canaries || wanted->sampled;
    for (int i = 0; i < 3; i++)
        sa_hardening.key[i] = secret[i];
    sa_hardening.rng = secret[3];
    sa_hardening.tail = wanted->canaries ? SA_CANARY_BYTES : 0;
    sa_hardening.on = wanted->canaries || wanted->scatter || wanted->guards || wanted->junk_new ||
                      wanted->junk_freed || wanted->quarantine_bytes;
}
