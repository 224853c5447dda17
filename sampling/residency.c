/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the kernel about pages of the process; see residency.h. No state, no allocation. */
#include "sampling/residency.h"

#include "alloc/base/bits.h"
#include "alloc/base/rng.h"
#include "alloc/os/sys.h"
#include "alloc/os/vm.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#define ENTRIES     512  /* read at a time */
#define PIECE       4096 /* of a page, read at a time */
#define BIT_PRESENT (1ull << 63)
#define BIT_SWAPPED (1ull << 62)

/* A range, and a part of the page map. */
struct walk {
    const struct sa_residency *r;
    uintptr_t start, end;
    uintptr_t first; /* page of the first entry */
    size_t filled;
    uint64_t entry[ENTRIES];
};

/* Reads the entries from a page on, unless they are there. */
static bool walk_read(struct walk *w, uintptr_t at)
{
    size_t page = sa_vm.page_bytes, want = sa_min((w->end - at + page - 1) / page, ENTRIES);
    long got;

    if (w->filled && at >= w->first && at < w->first + w->filled * page)
        return true;
    got = sa_sys_pread(w->r->fd, w->entry, want * 8, at / page * 8);
    w->first = at;
    w->filled = got < 8 ? 0 : (size_t)got / 8;
    return w->filled != 0;
}

static uint64_t walk_entry(const struct walk *w, uintptr_t at)
{
    return w->entry[(at - w->first) / sa_vm.page_bytes];
}

/* Bytes of the range in a page. */
static size_t walk_part(const struct walk *w, uintptr_t at)
{
    return sa_min(at + sa_vm.page_bytes, w->end) - sa_max(at, w->start);
}

static bool is_locked(uintptr_t at, uintptr_t end)
{
    return sa_sys_msync((void *)at, end - at, MS_INVALIDATE) == -EBUSY;
}

static bool is_zero(const struct sa_residency *r, uintptr_t at, size_t bytes)
{
    uint64_t piece[PIECE / 8];

    for (size_t n; bytes; at += n, bytes -= n) {
        n = sa_min(bytes, PIECE);
        piece[(n - 1) / 8] = 0;
        if (sa_sys_pread(r->memory, piece, n, at) != (long)n)
            return false;
        for (size_t i = 0; i < (n + 7) / 8; i++)
            if (piece[i])
                return false;
    }
    return true;
}

/* Counts what is resident, swapped and locked. */
static bool walk_count(struct walk *w, size_t *ret_pages, struct sa_resident *ret)
{
    size_t page = sa_vm.page_bytes;
    uintptr_t low = sa_align_down(w->start, page), high = sa_align_up(w->end, page), next = low;
    size_t step = ((high - low) / page + SA_RESIDENCY_LOOKS - 1) / SA_RESIDENCY_LOOKS * page;
    bool any = (w->r->knows & SA_KNOWS_LOCKED) && is_locked(low, high), locked = false;

    for (uintptr_t at = low; at < w->end; at += page) {
        size_t part = walk_part(w, at);

        if (!walk_read(w, at))
            return false;
        if (any && at == next) {
            next = sa_min(at + step, high);
            locked = is_locked(at, next);
        }
        if (walk_entry(w, at) & BIT_PRESENT) {
            ++*ret_pages;
            ret->resident += part;
            ret->locked += locked ? part : 0;
        }
        ret->swapped += walk_entry(w, at) & BIT_SWAPPED ? part : 0;
    }
    return true;
}

/* Looks at one of each `step` resident pages: at those of the number `pick`, counted in the part. */
static void walk_zeros(struct walk *w, size_t pages, struct sa_resident *ret)
{
    size_t step = (pages + SA_RESIDENCY_LOOKS - 1) / SA_RESIDENCY_LOOKS, in = 0, size = 0, pick = 0;
    uint64_t rng = sa_rng_mix(w->start ^ w->end << 20);
    size_t bytes = 0;
    bool zero = false;

    for (uintptr_t at = sa_align_down(w->start, sa_vm.page_bytes); at < w->end && pages;
         at += sa_vm.page_bytes) {
        if (!walk_read(w, at))
            return;
        if (!(walk_entry(w, at) & BIT_PRESENT))
            continue;
        if (in == 0) {
            size = sa_min(step, pages);
            pick = sa_rng_next(&rng) % size;
            bytes = 0;
        }
        bytes += walk_part(w, at);
        if (in == pick)
            zero = is_zero(w->r, sa_max(at, w->start), walk_part(w, at));
        if (++in == size) {
            ret->zero += zero ? bytes : 0;
            pages -= size;
            in = 0;
        }
    }
}

void sa_residency_open(struct sa_residency *r)
{
    uint64_t probe = 0x5a110c, read = 0;
    uintptr_t page = sa_align_down((uintptr_t)&probe, sa_vm.page_bytes);
    int locked = sa_sys_msync((void *)page, sa_vm.page_bytes, MS_INVALIDATE);
    struct sa_resident known;

    r->fd = sa_sys_open("/proc/self/pagemap", O_RDONLY, 0);
    r->memory = sa_sys_open("/proc/self/mem", O_RDONLY, 0);
    r->knows = 0;
    /* The stack is in memory. */
    if (sa_residency_of(r, (uintptr_t)&probe, sizeof(probe), &known) && known.resident)
        r->knows |= SA_KNOWS_PAGES;
    if (r->knows && (locked == 0 || locked == -EBUSY))
        r->knows |= SA_KNOWS_LOCKED;
    if (r->knows && r->memory >= 0 &&
        sa_sys_pread(r->memory, &read, sizeof(read), (uintptr_t)&probe) == sizeof(read) &&
        read == probe)
        r->knows |= SA_KNOWS_ZERO;
}

void sa_residency_close(struct sa_residency *r)
{
    if (r->fd >= 0)
        sa_sys_close(r->fd);
    if (r->memory >= 0)
        sa_sys_close(r->memory);
    r->fd = r->memory = -1;
    r->knows = 0;
}

bool sa_residency_of(const struct sa_residency *r, uintptr_t start, size_t bytes,
                     struct sa_resident *ret)
{
    struct walk w;
    size_t pages = 0;

    *ret = (struct sa_resident){0, 0, 0, 0};
    if (r->fd < 0)
        return false;
    w.r = r;
    w.start = start;
    w.end = start + bytes;
    w.filled = 0;
    if (!walk_count(&w, &pages, ret))
        return false;
    if (r->knows & SA_KNOWS_ZERO)
        walk_zeros(&w, pages, ret);
    return true;
}
