/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lengths of spans that were requested: allocations and frees of each, live pages, and the
 * slack that rounding up to hugepages leaves. No lock of its own; the page heap's lock guards it.
 */
#ifndef SA_PAGE_HEAP_ACCOUNT_SIZE_INFO_H
#define SA_PAGE_HEAP_ACCOUNT_SIZE_INFO_H

#include <stddef.h>
#include <stdint.h>

#define SA_SIZE_EXACT   128 /* lengths below have a bucket each; bucket n is for n pages */
#define SA_SIZE_BUCKETS (SA_SIZE_EXACT + 26)

struct sa_size_count {
    uint64_t allocs, frees; /* spans */
};

struct sa_size_pages {
    uint64_t allocated, freed;
};

struct sa_size_info {
    size_t small_live_pages; /* in spans shorter than SA_SIZE_EXACT */
    size_t slack_pages;      /* between the ends of longer spans and of their last hugepages */
    size_t largest_pages;
    struct sa_size_count count[SA_SIZE_BUCKETS];                 /* mostly of short ones */
    struct sa_size_pages pages[SA_SIZE_BUCKETS - SA_SIZE_EXACT]; /* of buckets of several lengths */
};

/* The bucket of a length, and the least and greatest lengths of a bucket. */
unsigned sa_size_info_bucket(size_t pages);
size_t sa_size_info_min(unsigned bucket);
size_t sa_size_info_max(unsigned bucket);

/* How many pages the bucket's spans had. */
struct sa_size_pages sa_size_info_pages(const struct sa_size_info *info, unsigned bucket);

void sa_size_info_alloc(struct sa_size_info *info, size_t pages, size_t slack);
void sa_size_info_free(struct sa_size_info *info, size_t pages, size_t slack);

/* Ends the program unless the spans that are counted as live are that many: account_validate.c. */
void sa_size_info_validate(const struct sa_size_info *info, size_t spans, size_t pages);

#endif
