/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the limit of the control group; see group_limit.h.
 *
 * A look reads how much the group may still take (`room`). The kernel counts memory when a thread
 * touches it; the footprint counts memory when the page heap hands it out; and other processes
 * share the group. So a look is a forecast for the next part of the room only. The next look comes
 * when the footprint has grown by half of what may still be taken beyond the reserve (the mark).
 *
 * Near the limit (`is_near`) the mark is a soft limit. Then the first slow path that passes it
 * releases memory, and the page heap keeps no free memory for later demand. If the room is smaller
 * than the reserve, the soft limit lies below the footprint by the difference.
 *
 * The reserve is for memory that grows without the allocator: stacks, page tables, other processes,
 * files that the program maps. It also covers memory that was handed out and not touched yet.
 *
 * LIMIT guards everything here, except what is said to be atomic or const.
 */
#include "alloc/maintain/group_limit.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/fmt.h"
#include "alloc/base/layout.h"
#include "alloc/base/page.h"
#include "alloc/fork/vfork.h"
#include "alloc/os/cgroup.h"
#include "alloc/os/filter.h"
#include "alloc/os/own_proc.h"
#include "alloc/os/sys.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/*
 * The reserve: 1/RESERVE_FRACTION of the limit, between RESERVE_MIN and RESERVE_MAX bytes; or the
 * memory that was handed out and not touched, if that is more, up to 1/UNTOUCHED_FRACTION of the
 * limit.
 */
#define RESERVE_FRACTION   16
#define RESERVE_MIN        (2ull << 20)
#define RESERVE_MAX        (256ull << 20)
#define UNTOUCHED_FRACTION 4

/* Near the limit: at most NEAR_RESERVES reserves are left. That state ends when more than
 * NEAR_RESERVES + 1 are left. */
#define NEAR_RESERVES 3

/* Beyond the soft limit, the next look comes at the earliest after the footprint has grown by
 * 1/GROWTH_FRACTION of the limit, or after GROWTH_NS. */
#define GROWTH_FRACTION 256
#define GROWTH_NS       20000000ull

/*
 * The time until the next look in any case: near a limit; far from it; and if there is none, or the
 * program has set a soft limit of its own. SEARCH_NS: the time between two searches for the group.
 */
#define NEAR_NS   500000000ull
#define FAR_NS    2000000000ull
#define NONE_NS   8000000000ull
#define SEARCH_NS 8000000000ull

static struct {
    struct sa_cgroup group SA_GUARDED_BY(SA_RANK_LIMIT);
    char root[64];                                   /* const after start, except in tests */
    bool is_near SA_GUARDED_BY(SA_RANK_LIMIT);       /* the mark is a soft limit */
    uint64_t search_ns SA_GUARDED_BY(SA_RANK_LIMIT); /* the time of the next search for the group */
    uint64_t looked_ns SA_GUARDED_BY(SA_RANK_LIMIT); /* the time of the last look */
    size_t looked_bytes SA_GUARDED_BY(SA_RANK_LIMIT); /* the footprint at looked_ns */
    /* The part of the limit that others than the heap used at the last look. */
    size_t others_bytes SA_GUARDED_BY(SA_RANK_LIMIT);
} follow;

/* What reports show. Atomic, relaxed: written under LIMIT, read by any thread. */
static struct {
    struct sa_group_limit_stats stats;
} told;

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE("group_limit", told, stats),
};
SA_LAYOUT_STATIC_ADDRESS("group_limit", told);

void sa_group_limit_set_root(const char *root)
{
    size_t len = strlen(root);

    if (len < sizeof(follow.root))
        memcpy(follow.root, root, len + 1);
}

/* Returns the bytes of the process's resident memory that belong to no file; SIZE_MAX if not
 * known. */
static size_t anonymous_bytes(void)
{
    char path[sizeof(follow.root) + 32], text[128];
    size_t pages[3] = {0}, word = 0;
    struct sa_fmt f;

    sa_fmt_init(&f, path, sizeof(path));
    sa_fmt_add(&f, "%s%s/statm", follow.root, sa_own_proc());
    if (sa_sys_read_file(path, text, sizeof(text)) <= 0)
        return SIZE_MAX;
    for (const char *s = text; *s && word < 3; s++) { /* in pages: size, resident, shared */
        if (*s >= '0' && *s <= '9')
            pages[word] = pages[word] * 10 + (size_t)(*s - '0');
        else
            word++;
    }
    return word < 3 || pages[1] < pages[2] ? SIZE_MAX : (pages[1] - pages[2]) * sa_vm.page_bytes;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The reserve of a limit, without untouched memory. */
SA_INLINE int64_t reserve_of(uint64_t limit)
{
    return (int64_t)sa_min(sa_max(limit / RESERVE_FRACTION, RESERVE_MIN), RESERVE_MAX);
}

/* No limit applies: removes the mark and the soft limit. next_ns: the time of the next look; 0:
 * never. */
SA_INLINE void forget(uint64_t next_ns) SA_REQUIRES(SA_RANK_LIMIT)
{
    sa_store_relaxed(&sa_limits.look_ns, next_ns);
    sa_store_relaxed(&told.stats.limit_bytes, 0);
    sa_store_relaxed(&told.stats.room_bytes, 0);
    sa_store_relaxed(&told.stats.soft_bytes, 0);
    sa_limits_set_group(SA_NO_LIMIT);
    sa_store_relaxed(&sa_limits.watch, 0);
    follow.is_near = false;
}

/* Sets the mark at `bytes` of footprint: as a soft limit if `near` is set. */
SA_INLINE void set_mark(bool near, size_t bytes) SA_REQUIRES(SA_RANK_LIMIT)
{
    follow.is_near = near;
    sa_limits_set_group(near ? bytes : SA_NO_LIMIT);
    sa_store_relaxed(&sa_limits.watch, near ? 0 : (bytes >> SA_PAGE_SHIFT) + 1);
    sa_store_relaxed(&told.stats.soft_bytes, near ? bytes : 0);
}

/* Sets the mark from a reading: the limit and the room of the group. used: the footprint. */
static void aim(const struct sa_cgroup_room *r, size_t used) SA_REQUIRES(SA_RANK_LIMIT)
{
    int64_t min = reserve_of(r->limit), reserve = min, step;
    size_t touched = sa_min(used, anonymous_bytes()), untouched = used - touched;
    size_t taken = (size_t)((int64_t)r->limit - r->room);
    bool near = r->room <= min * (NEAR_RESERVES + follow.is_near);

    reserve = larger(reserve, (int64_t)sa_min(untouched, r->limit / UNTOUCHED_FRACTION));
    follow.others_bytes = taken - sa_min(taken, touched);
    SA_DCHECK(taken <= r->limit || r->room < 0);
    step = r->room - reserve;
    if (step > 0)
        step /= 2;
    if (near)
        set_mark(true, (size_t)larger((int64_t)used + step, (int64_t)used / 2));
    else /* the untouched memory may exceed the reserve and the room: then the room alone counts */
        set_mark(false, used + (size_t)larger(larger(step, r->room / 4), min));
}

/* Behind a filter of system calls no file is read. Sets a soft limit from the last reading, for
 * good. */
static void aim_blindly(void) SA_REQUIRES(SA_RANK_LIMIT)
{
    size_t limit = sa_load_relaxed(&told.stats.limit_bytes);
    size_t reserve = (size_t)reserve_of(limit) + follow.others_bytes;

    sa_store_relaxed(&sa_limits.look_ns, 0);
    sa_store_relaxed(&sa_limits.watch, 0);
    if (limit)
        set_mark(true, sa_max(limit - sa_min(limit, reserve), limit / 4));
}

/* Whether the process has no free file descriptor. Then a missing file does not mean that the group
 * has none. */
static bool no_descriptors(void)
{
    int fd = sa_sys_open("/proc/self/statm", O_RDONLY | O_CLOEXEC, 0);

    if (fd >= 0)
        sa_sys_close(fd);
    return fd == -EMFILE || fd == -ENFILE;
}

/* Reads the group's limit and room, and sets the mark and the time of the next look. */
static void look(uint64_t now) SA_REQUIRES(SA_RANK_LIMIT)
{
    size_t used = sa_footprint_bytes();
    struct sa_cgroup_room r;

    /* A child of vfork may see other files than its parent, which would take over the reading. */
    if (sa_vfork_is_child()) {
        sa_store_relaxed(&sa_limits.look_ns, now + NEAR_NS);
        return;
    }
    follow.looked_ns = now;
    follow.looked_bytes = used;
    if (sa_limits_own(SA_LIMIT_SOFT) != SA_NO_LIMIT || sa_limits_keep_all()) {
        forget(now + NONE_NS);
        return;
    }
    if (sa_filtered()) {
        aim_blindly();
        return;
    }
    if (now >= follow.search_ns) {
        sa_cgroup_find(&follow.group, follow.root);
        follow.search_ns = now + SEARCH_NS;
    }
    sa_cgroup_read_room(&follow.group, &r);
    sa_add_relaxed(&told.stats.looks, 1);
    if (r.limit == SA_CGROUP_NONE) {
        forget(follow.group.seen || no_descriptors() ? now + NONE_NS : 0);
        return;
    }
    sa_store_relaxed(&told.stats.limit_bytes, (size_t)r.limit);
    sa_store_relaxed(&told.stats.room_bytes, (size_t)larger(r.room, 0));
    aim(&r, used);
    sa_store_relaxed(&sa_limits.look_ns, now + (follow.is_near ? NEAR_NS : FAR_NS));
}

/* Whether the footprint makes a look due: it has passed the mark, or the soft limit and the bounds
 * of GROWTH_FRACTION and GROWTH_NS. */
static bool is_passed(uint64_t now) SA_REQUIRES(SA_RANK_LIMIT)
{
    size_t soft = sa_load_relaxed(&told.stats.soft_bytes), used = sa_footprint_bytes();
    size_t limit = sa_load_relaxed(&told.stats.limit_bytes);

    if (!follow.is_near)
        return sa_load_relaxed(&sa_limits.watch) == SA_WATCH_PASSED;
    return used > soft && (now - follow.looked_ns >= GROWTH_NS ||
                           used - sa_min(used, follow.looked_bytes) >= limit / GROWTH_FRACTION);
}

void sa_group_limit_look(uint64_t now_ns)
{
    if (sa_group_limit_is_due(now_ns) || is_passed(now_ns))
        look(now_ns);
}

void sa_group_limit_stats(struct sa_group_limit_stats *ret)
{
    ret->limit_bytes = sa_load_relaxed(&told.stats.limit_bytes);
    ret->room_bytes = sa_load_relaxed(&told.stats.room_bytes);
    ret->soft_bytes = sa_load_relaxed(&told.stats.soft_bytes);
    ret->looks = sa_load_relaxed(&told.stats.looks);
}
