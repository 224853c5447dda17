/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims shards of the transfer cache for CPUs, and assigns domains; see transfer_shards.h. There
 * is no lock. One thread changes a CPU's entry in of_cpu from 0 to CLAIMING, and then to a number.
 * Only a split sets an entry back to 0, or the claiming thread if a split came between. Other
 * threads of the CPU use the first shard meanwhile. Any existing shard is correct for any CPU:
 * domains and numbers decide how soon freed objects are found, not whether.
 */
#include "alloc/middle/transfer_shards.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/layout.h"
#include "alloc/middle/transfer_cache.h"
#include "pagemap/arena.h"

#include <stdbool.h>

#define CLAIMING 255

SA_STATIC_ASSERT(SA_SHARDS_MAX >= SA_DOMAINS_MAX + SA_SHARDS_DOMAIN, "one for each domain");
SA_STATIC_ASSERT(SA_SHARDS_MAX < CLAIMING, "numbers and CLAIMING are told apart");

SA_LAYOUT_USED SA_START_DATA struct sa_transfer_shards sa_transfer_shards;
SA_LAYOUT_USED struct sa_transfer_others sa_transfer_others;
SA_LAYOUT_USED struct sa_transfer sa_transfer_first[SA_CLASSES_MAX];

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE("sa_transfer_shards", sa_transfer_shards, more),
    SA_LAYOUT_STATE("sa_transfer_shards", sa_transfer_shards, domains),
};
SA_LAYOUT_ADDRESS(sa_transfer_shards);
SA_LAYOUT_ADDRESS(sa_transfer_first);
SA_LAYOUT_ADDRESS(sa_transfer_others);

/* Whether there is a shard of that number in the domain. */
static bool shard_is_of(unsigned number, unsigned domain)
{
    return sa_load_relaxed(&sa_transfer_others.domain[number]) == domain &&
           sa_transfer_shard(number);
}

/* Makes a shard; its number. SA_SHARDS_MAX: all numbers are taken, or there is no memory. */
static unsigned shard_new(unsigned domain)
{
    struct sa_transfer_others *s = &sa_transfer_others;
    struct sa_transfer *shard;
    uint32_t more = sa_load_relaxed(&sa_transfer_shards.more);

    do {
        if (more + 1 == SA_SHARDS_MAX)
            return SA_SHARDS_MAX;
    } while (!sa_cas_relaxed(&sa_transfer_shards.more, &more, more + 1));
    shard = sa_arena_alloc(sizeof(*shard) * SA_CLASSES_MAX, SA_CACHELINE);
    sa_store_relaxed(&s->domain[more + 1], (uint8_t)domain);
    sa_store_release(&s->at[more + 1], shard);
    return shard ? more + 1 : SA_SHARDS_MAX;
}

/* The number of the domain's shard at place `which`, or of its last one; 0 if it has none. */
static unsigned shard_shared(unsigned domain, unsigned which)
{
    unsigned count = sa_transfer_shard_count(), number = 0;

    for (unsigned n = 0, seen = 0; n < count; n++)
        if (shard_is_of(n, domain) && seen++ <= which)
            number = n;
    return number;
}

/* How many shards a domain may have. SA_SHARDS_DOMAIN numbers are left for shards that were claimed
 * before the domains were known. */
static unsigned shards_of_domain(void)
{
    unsigned share = (SA_SHARDS_MAX - SA_SHARDS_DOMAIN) / sa_transfer_domains();

    return sa_min(share, SA_SHARDS_DOMAIN);
}

unsigned sa_transfer_claim(int cpu)
{
    struct sa_transfer_others *s = &sa_transfer_others;
    unsigned domain = sa_load_relaxed(&s->domain_of_cpu[cpu]);
    unsigned count = sa_transfer_shard_count(), here = 0, number = SA_SHARDS_MAX;
    uint8_t entry = 0;

    SA_DCHECK(cpu >= 0 && cpu < SA_SLABS);
    if (!sa_cas_relaxed(&s->of_cpu[cpu], &entry, CLAIMING))
        return 0;
    for (unsigned n = 0; n < count; n++)
        here += shard_is_of(n, domain);
    if (here < shards_of_domain())
        number = shard_new(domain);
    if (number == SA_SHARDS_MAX)
        number = shard_shared(domain, here ? (unsigned)cpu % here : 0);
    SA_DCHECK(number < SA_SHARDS_MAX && sa_transfer_shard(number));
    sa_store_seq_cst(&s->of_cpu[cpu], (uint8_t)(number + 1));
    /* A split checks the domain of each CPU's shard after it has written all domains. If it wrote
     * this CPU's before the number was stored, this thread sees it here. */
    entry = (uint8_t)(number + 1);
    if (SA_UNLIKELY(sa_load_seq_cst(&s->domain_of_cpu[cpu]) != domain))
        sa_cas_relaxed(&s->of_cpu[cpu], &entry, 0);
    return number;
}

int sa_transfer_split(const uint8_t *domain_of, unsigned cpus, unsigned domains)
{
    struct sa_transfer_others *s = &sa_transfer_others;
    bool named[SA_SHARDS_MAX] = {false};

    if (domains < 2 || domains > SA_DOMAINS_MAX || sa_transfer_domains() != 1)
        return 0;
    for (unsigned cpu = 0; cpu < cpus && cpu < SA_SLABS; cpu++) {
        bool first = (int)cpu + 1 == sa_load_relaxed(&sa_transfer_shards.first);
        unsigned number = first ? 0 : sa_load_relaxed(&s->of_cpu[cpu]) - 1;

        sa_store_seq_cst(&s->domain_of_cpu[cpu], domain_of[cpu]);
        if (number >= SA_SHARDS_MAX)
            continue;
        if (first || (number && !named[number]))
            sa_store_relaxed(&s->domain[number], domain_of[cpu]);
        named[number] = true;
    }
    for (unsigned cpu = 0; cpu < cpus && cpu < SA_SLABS; cpu++) {
        unsigned number = sa_load_seq_cst(&s->of_cpu[cpu]) - 1;

        if (number < SA_SHARDS_MAX && sa_load_relaxed(&s->domain[number]) != domain_of[cpu])
            sa_store_relaxed(&s->of_cpu[cpu], 0); /* the shard is of another domain now */
    }
    sa_store_release(&sa_transfer_shards.domains, domains);
    return 1;
}

unsigned sa_transfer_domains(void)
{
    unsigned domains = sa_load_acquire(&sa_transfer_shards.domains);

    return domains ? domains : 1;
}
