/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the kernel about pages of the process (residency.h). */
#include "sampling/snapshot/residency.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/rng.h"
#include "alloc/os/own_proc.h"
#include "alloc/os/sys.h"
#include "alloc/os/vm.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#define ENTRIES     512          /* entries of pagemap that are read at a time */
#define PIECE       4096         /* bytes of a page that are read at a time */
#define BIT_PRESENT (1ull << 63) /* of an entry: Documentation/admin-guide/mm/pagemap.rst */
#define BIT_SWAPPED (1ull << 62)

/* A range, and the entries of some of its pages. */
struct walk {
    const struct sa_residency *r;
    uintptr_t start, end;
    uintptr_t used_end; /* end of the program's bytes */
    int fill;           /* of sa_residency_of_filled; negative: nothing was filled */
    uintptr_t first;    /* page of entry[0] */
    size_t filled;      /* entries read */
    uint64_t entry[ENTRIES];
};

/* Stores the entry of the page at an address. Requires addresses in ascending order. False: not
 * known. */
static bool walk_entry(struct walk *w, uintptr_t at, uint64_t *ret)
{
    size_t page = sa_vm.page_bytes, want = sa_min((w->end - at + page - 1) / page, ENTRIES);

    SA_DCHECK(at < w->end && (!w->filled || at >= w->first));
    if (!w->filled || at >= w->first + w->filled * page) {
        long got = sa_sys_pread(w->r->fd, w->entry, want * 8, at / page * 8);

        w->first = at;
        w->filled = got < 8 ? 0 : (size_t)got / 8;
        if (!w->filled)
            return false;
    }
    *ret = w->entry[(at - w->first) / page];
    return true;
}

/* Returns the bytes of the range that are on the page at an address. */
static size_t walk_part(const struct walk *w, uintptr_t at)
{
    return sa_min(at + sa_vm.page_bytes, w->end) - sa_max(at, w->start);
}

static bool is_locked(uintptr_t at, uintptr_t end)
{
    return sa_sys_msync((void *)at, end - at, MS_INVALIDATE) == -EBUSY;
}

/* Returns whether all bytes at an address have this value. False: also if they cannot be read. */
static bool is_full_of(const struct sa_residency *r, uint8_t byte, uintptr_t at, size_t bytes)
{
    const uint64_t word = byte * 0x0101010101010101ull;
    uint64_t piece[PIECE / 8];

    for (size_t n; bytes; at += n, bytes -= n) {
        n = sa_min(bytes, PIECE);
        piece[(n - 1) / 8] = word;
        if (sa_sys_pread(r->memory, piece, n, at) != (long)n)
            return false;
        for (size_t i = 0; i < (n + 7) / 8; i++)
            if (piece[i] != word)
                return false;
    }
    return true;
}

/* Returns whether all of the program's bytes on a page have this value. */
static bool is_part_full_of(const struct walk *w, uint8_t byte, uintptr_t at)
{
    uintptr_t from = sa_max(at, w->start), to = sa_min(at + sa_vm.page_bytes, w->used_end);

    SA_DCHECK(from <= to);
    return is_full_of(w->r, byte, from, to - from);
}

/* Returns whether a resident page contains only what the library has written to it. */
static bool is_untouched(const struct walk *w, uintptr_t at)
{
    bool edge = at < w->start || at + sa_vm.page_bytes > w->used_end;

    return w->fill >= 0 && edge && (w->r->knows & SA_KNOWS_ZERO) &&
           is_part_full_of(w, (uint8_t)w->fill, at);
}

/* Returns the bytes of a part if the range is cut into `parts` parts of whole pages. */
static size_t walk_step(const struct walk *w, unsigned parts)
{
    size_t page = sa_vm.page_bytes;
    size_t pages = (w->end - sa_align_down(w->start, page) + page - 1) / page;

    return (pages + parts - 1) / parts * page;
}

/* A part of the range that is checked for zeros. */
struct part {
    uintptr_t end;
    size_t pages, bytes; /* resident */
    uintptr_t pick;      /* one of the resident pages, all equally likely (reservoir sampling) */
};

/* Checks the chosen page of a part, and counts the part. */
static void part_end(const struct walk *w, const struct part *part, struct sa_resident *ret)
{
    if (part->pages && is_part_full_of(w, 0, part->pick))
        ret->zero += part->bytes;
}

/* Walks over the pages of the range. False: the kernel does not tell. */
static bool walk(struct walk *w, struct sa_resident *ret)
{
    size_t page = sa_vm.page_bytes, step = walk_step(w, SA_RESIDENCY_LOOKS);
    bool zeros = w->r->knows & SA_KNOWS_ZERO, locked = false, any;
    uintptr_t low = sa_align_down(w->start, page), next = low;
    struct part part = {.end = low};
    uint64_t rng = sa_rng_mix(w->start), entry;

    any = (w->r->knows & SA_KNOWS_LOCKED) && is_locked(low, w->end);
    for (uintptr_t at = low; at < w->end; at += page) {
        if (!walk_entry(w, at, &entry))
            return false;
        if (any && at == next) {
            next = at + step;
            locked = is_locked(at, sa_min(next, w->end));
        }
        if (zeros && at == part.end) {
            part_end(w, &part, ret);
            part = (struct part){.end = at + walk_step(w, w->r->looks)};
        }
        if (entry & BIT_PRESENT && !is_untouched(w, at)) {
            ret->resident += walk_part(w, at);
            ret->locked += locked ? walk_part(w, at) : 0;
            part.bytes += walk_part(w, at);
            if (part.pages++ == 0 || sa_rng_next(&rng) % part.pages == 0)
                part.pick = at;
        }
        ret->swapped += entry & BIT_SWAPPED ? walk_part(w, at) : 0;
    }
    if (zeros)
        part_end(w, &part, ret);
    return true;
}

void sa_residency_open(struct sa_residency *r, size_t ranges)
{
    uint64_t probe = 0x5a110c, read = 0;
    uintptr_t page = sa_align_down((uintptr_t)&probe, sa_vm.page_bytes);
    int locked = sa_sys_msync((void *)page, sa_vm.page_bytes, MS_INVALIDATE);
    struct sa_resident known;

    r->fd = sa_own_proc_open("pagemap");
    r->memory = sa_own_proc_open("mem");
    r->knows = 0;
    r->looks = (uint8_t)sa_max(sa_min(SA_RESIDENCY_LOOKS_SUM / (ranges + 1), SA_RESIDENCY_LOOKS),
                               SA_RESIDENCY_LOOKS_MIN);
    /* The page of a local variable that was just written is resident. */
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

static bool residency_of(const struct sa_residency *r, uintptr_t start, size_t bytes,
                         uintptr_t used_end, int fill, struct sa_resident *ret)
{
    struct walk w;

    *ret = (struct sa_resident){0, 0, 0, 0};
    if (r->fd < 0)
        return false;
    w.r = r;
    w.start = start;
    w.end = start + bytes;
    w.used_end = used_end;
    w.fill = fill;
    w.filled = 0;
    return walk(&w, ret);
}

bool sa_residency_of(const struct sa_residency *r, uintptr_t start, size_t bytes,
                     struct sa_resident *ret)
{
    return residency_of(r, start, bytes, start + bytes, -1, ret);
}

bool sa_residency_of_filled(const struct sa_residency *r, uintptr_t start, size_t bytes,
                            size_t used, uint8_t fill, struct sa_resident *ret)
{
    size_t room = sa_align_up(start + used, sa_vm.page_bytes) - start;

    return residency_of(r, start, sa_min(bytes, room), start + used, fill, ret);
}
