/* SPDX-License-Identifier: Apache-2.0 */
/* Counting spans by length; see size_info.h. */
#include "alloc/page_heap/account/size_info.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"

unsigned sa_size_info_bucket(size_t pages)
{
    if (pages < SA_SIZE_EXACT)
        return (unsigned)pages;
    return (unsigned)sa_min(SA_SIZE_EXACT + sa_log2(pages) - sa_log2(SA_SIZE_EXACT),
                            SA_SIZE_BUCKETS - 1);
}

SA_RARE size_t sa_size_info_min(unsigned bucket)
{
    return bucket < SA_SIZE_EXACT ? bucket : (size_t)SA_SIZE_EXACT << (bucket - SA_SIZE_EXACT);
}

SA_RARE size_t sa_size_info_max(unsigned bucket)
{
    return bucket < SA_SIZE_EXACT ? bucket : sa_size_info_min(bucket + 1) - 1;
}

SA_RARE struct sa_size_pages sa_size_info_pages(const struct sa_size_info *info, unsigned bucket)
{
    const struct sa_size_count *c = &info->count[bucket];

    if (bucket < SA_SIZE_EXACT)
        return (struct sa_size_pages){c->allocs * bucket, c->frees * bucket};
    return info->pages[bucket - SA_SIZE_EXACT];
}

void sa_size_info_alloc(struct sa_size_info *info, size_t pages, size_t slack)
{
    unsigned bucket = sa_size_info_bucket(pages);

    info->count[bucket].allocs++;
    info->largest_pages = sa_max(info->largest_pages, pages);
    info->slack_pages += slack;
    if (bucket < SA_SIZE_EXACT)
        info->small_live_pages += pages;
    else
        info->pages[bucket - SA_SIZE_EXACT].allocated += pages;
}

void sa_size_info_free(struct sa_size_info *info, size_t pages, size_t slack)
{
    unsigned bucket = sa_size_info_bucket(pages);

    SA_DCHECK(info->count[bucket].frees < info->count[bucket].allocs);
    SA_DCHECK(info->slack_pages >= slack);
    info->count[bucket].frees++;
    info->slack_pages -= slack;
    if (bucket < SA_SIZE_EXACT)
        info->small_live_pages -= pages;
    else
        info->pages[bucket - SA_SIZE_EXACT].freed += pages;
}
