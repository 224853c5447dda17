/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What mixed spans save, counted as blocks come and go. MIXED guards everything here.
 *
 * A block counts on the page that it begins on. Each page with a block has a host: a class that has
 * a block there, at first the one whose span it was, or for which it was taken. Without mixed spans
 * the host would have a page for that block, too, and could use the rest of it. Blocks of other
 * classes are guests. A class that has more bytes as a guest than its guests have would need as
 * many in spans of its own. These are saved, whatever the spans would waste.
 *
 * When the last block of a host is freed, another class with a block on the page becomes the host.
 * So the sum tells of the present alone, however long the program runs.
 */
#include "alloc/base/fatal.h"
#include "alloc/base/size_class.h"
#include "alloc/middle/mixed_internal.h"

/* Adds bytes to what a class has as a guest, less what its guests have. */
static void add_guests(unsigned cls, int64_t bytes) SA_REQUIRES(SA_RANK_MIXED)
{
    int64_t before = sa_mixed_state.guests[cls], after = before + bytes;

    sa_mixed_state.guests[cls] = after;
    sa_mixed_state.stats.saved_bytes +=
        (size_t)((after > 0 ? after : 0) - (before > 0 ? before : 0));
}

void sa_mixed_saved_come(unsigned cls, uintptr_t block)
{
    struct sa_mixed_host *host = sa_mixed_host(block);

    if (!host->blocks)
        host->cls = (uint16_t)cls;
    if (host->cls == cls) {
        host->blocks++;
    } else {
        add_guests(cls, (int64_t)sa_size_classes.of[cls].size);
        add_guests(host->cls, -(int64_t)sa_size_classes.of[cls].size);
    }
}

/*
 * Makes the class of the first block on a page its host, if there is a block. The host so far has
 * none. It loses all blocks as its guests. Those of the next host are guests no more, and the
 * others become its guests. For all other classes nothing changes.
 */
static void change_host(struct sa_mixed_host *host, uintptr_t page) SA_REQUIRES(SA_RANK_MIXED)
{
    struct sa_mixed_page *pages = sa_mixed_table(page & ~(SA_HUGE_BYTES - 1), false);
    size_t begin = (page & (SA_HUGE_BYTES - 1)) / SA_MIXED_UNIT, end = begin + SA_MIXED_PAGE_UNITS;
    size_t of_next = 0, all = 0;

    for (size_t at = sa_mixed_next_first(pages, end, begin); at < end;
         at = sa_mixed_next_first(pages, end, at + 1)) {
        size_t units = sa_mixed_length(pages, SA_HUGE_PAGES * SA_MIXED_PAGE_UNITS, at);

        of_next = all ? of_next : units;
        all += units;
        host->blocks = (uint16_t)(host->blocks + (units == of_next));
    }
    if (!all)
        return;
    add_guests(host->cls, (int64_t)(all * SA_MIXED_UNIT));
    host->cls = (uint16_t)sa_size_class_find(of_next * SA_MIXED_UNIT);
    add_guests(host->cls, -(int64_t)(all * SA_MIXED_UNIT));
}

void sa_mixed_saved_go(unsigned cls, uintptr_t block)
{
    struct sa_mixed_host *host = sa_mixed_host(block);

    SA_DCHECK(host->blocks);
    if (host->cls != cls) {
        add_guests(cls, -(int64_t)sa_size_classes.of[cls].size);
        add_guests(host->cls, (int64_t)sa_size_classes.of[cls].size);
    } else if (!--host->blocks) {
        change_host(host, block & ~(SA_PAGE_BYTES - 1));
    }
}
