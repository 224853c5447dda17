/* SPDX-License-Identifier: Apache-2.0 */
/* Address space; see vm.h. The counters of sa_vm and the list `stuck` are atomic; nothing takes a
 * lock. */
#include "alloc/os/vm.h"

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/layout.h"
#include "alloc/base/page.h"
#include "alloc/os/filter.h"
#include "alloc/os/scratch.h"
#include "alloc/os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* The kernel orders the end of a mapping before the next mapping at its place. ThreadSanitizer does
 * not see that. */
#if SA_TSAN
#include <sanitizer/tsan_interface.h>
static char unmapped;
#define vm_unmapping() __tsan_release(&unmapped)
#define vm_mapped()    __tsan_acquire(&unmapped)
#else
#define vm_unmapping() ((void)0)
#define vm_mapped()    ((void)0)
#endif

SA_START_DATA struct sa_vm sa_vm;

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE("sa_vm", sa_vm, page_bytes),      SA_LAYOUT_STATE("sa_vm", sa_vm, map_failures),
    SA_LAYOUT_STATE("sa_vm", sa_vm, advise_failures), SA_LAYOUT_STATE("sa_vm", sa_vm, used_bytes),
    SA_LAYOUT_STATE("sa_vm", sa_vm, reserved_bytes),  SA_LAYOUT_STATE("sa_vm", sa_vm, space_bytes),
};
SA_LAYOUT_ADDRESS(sa_vm);

/* A mapping that the kernel refused to unmap. The record lies in the mapping itself. */
struct stuck {
    struct stuck *next;
    size_t bytes;
    uint64_t *count; /* the counter of sa_vm that includes the bytes */
};

/* Atomic: a stack. Threads push with release, and take all of it with acquire. */
static struct stuck *stuck;

void sa_vm_init(void)
{
    sa_vm.page_bytes = getauxval(AT_PAGESZ);
    if (!sa_vm.page_bytes)
        sa_vm.page_bytes = 4096;
    sa_vm.page_step = sa_max(sa_vm.page_bytes >> SA_PAGE_SHIFT, 1);
    sa_vm_init_seed();
}

static void stuck_push(struct stuck *s)
{
    s->next = sa_load_relaxed(&stuck);
    while (!sa_cas_release(&stuck, &s->next, s))
        continue;
}

/* Unmaps and counts. False: the kernel refused. */
static bool try_unmap(void *p, size_t bytes, uint64_t *count)
{
    vm_unmapping();
    if (sa_sys_munmap(p, bytes) != 0)
        return false;
    sa_sub_relaxed(count, bytes);
    return true;
}

/* Tries again to unmap what the kernel refused to; stops at the first mapping that it refuses
 * again. */
SA_COLD static void stuck_retry(void)
{
    struct stuck *next;
    bool ok = true;

    for (struct stuck *s = sa_xchg_acquire(&stuck, NULL); s; s = next) {
        next = s->next;
        ok = ok && try_unmap(s, s->bytes, s->count);
        if (!ok)
            stuck_push(s);
    }
}

void sa_vm_unmap_refused(void)
{
    if (SA_UNLIKELY(sa_load_relaxed(&stuck)))
        stuck_retry();
}

/* Behind a filter, the flags are those of libc's malloc: vsftpd's filter ends the process at
 * others. */
static int map_flags(void)
{
    return MAP_PRIVATE | MAP_ANONYMOUS | (sa_filtered() ? 0 : MAP_NORESERVE);
}

/* Whether an address or a size is a multiple of the page size. True before sa_vm_init. */
#define VM_ALIGNED(at) (!sa_vm.page_bytes || (uintptr_t)(at) % sa_vm.page_bytes == 0)

/* Maps memory and counts it in *count. NULL: the kernel refused. */
static void *map_counted(void *hint, size_t bytes, const char *name, uint64_t *count)
{
    void *p;

    SA_DCHECK(bytes && VM_ALIGNED(bytes) && VM_ALIGNED(hint));
    sa_vm_unmap_refused();
    p = sa_sys_mmap(hint, bytes, PROT_READ | PROT_WRITE, map_flags());
    if (!p) {
        sa_add_relaxed(&sa_vm.map_failures, 1);
        return NULL;
    }
    vm_mapped();
    sa_add_relaxed(count, bytes);
    if (SA_UNLIKELY(sa_vm.names))
        sa_sys_name_mapping(p, bytes, name);
    return p;
}

void *sa_vm_map(void *hint, size_t bytes, const char *name)
{
    return map_counted(hint, bytes, name, &sa_vm.used_bytes);
}

void *sa_vm_map_reserved(size_t bytes, const char *name)
{
    return map_counted(NULL, bytes, name, &sa_vm.reserved_bytes);
}

void *sa_vm_map_space(void *hint, size_t bytes, const char *name)
{
    return map_counted(hint, bytes, name, &sa_vm.space_bytes);
}

/* For a moment both counters have the bytes, rather than neither. */
void sa_vm_use_reserved(size_t bytes)
{
    sa_add_relaxed(&sa_vm.used_bytes, bytes);
    sa_sub_relaxed(&sa_vm.reserved_bytes, bytes);
}

void sa_vm_reserve(size_t bytes)
{
    sa_add_relaxed(&sa_vm.reserved_bytes, bytes);
    sa_sub_relaxed(&sa_vm.used_bytes, bytes);
}

SA_RARE uint64_t sa_vm_mapped_bytes(void)
{
    return sa_load_relaxed(&sa_vm.used_bytes) + sa_load_relaxed(&sa_vm.reserved_bytes) +
           sa_load_relaxed(&sa_vm.space_bytes);
}

SA_RARE void *sa_vm_lengthen(void *p, size_t old_bytes, size_t bytes)
{
    void *moved = sa_sys_mremap(p, old_bytes, bytes, MREMAP_MAYMOVE, NULL);

    if (moved)
        sa_add_relaxed(&sa_vm.used_bytes, bytes - old_bytes);
    else
        sa_add_relaxed(&sa_vm.map_failures, 1);
    return moved;
}

/* Unmaps memory, or puts it on the list `stuck` if the kernel refuses. */
SA_RARE static void unmap_counted(void *p, size_t bytes, uint64_t *count)
{
    struct stuck *s = p;

    SA_DCHECK(bytes && VM_ALIGNED(p) && VM_ALIGNED(bytes) && sa_load_relaxed(count) >= bytes);
    sa_vm_unmap_refused();
    if (SA_LIKELY(try_unmap(p, bytes, count)))
        return;
    if (sa_sys_is_readable(p)) { /* else it cannot hold the record, and stays */
        s->bytes = bytes;
        s->count = count;
        stuck_push(s);
    }
}

SA_RARE void sa_vm_unmap(void *p, size_t bytes)
{
    unmap_counted(p, bytes, &sa_vm.used_bytes);
}

SA_RARE void sa_vm_unmap_space(void *p, size_t bytes)
{
    unmap_counted(p, bytes, &sa_vm.space_bytes);
}

#define PAGEMAP         "/proc/self/pagemap"
#define PAGEMAP_PRESENT (1ull << 63)
#define PAGEMAP_ENTRIES 512 /* entries read at a time: those of a hugepage */

/* Uses calls that the loader makes at start-up. Filters of launchers allow them, unlike mincore. */
SA_RARE size_t sa_vm_resident(const void *p, size_t bytes)
{
    size_t at = (uintptr_t)p / sa_vm.page_bytes, pages = 0;
    size_t end = sa_align_up((uintptr_t)p + bytes, sa_vm.page_bytes) / sa_vm.page_bytes;
    uint64_t few[16], *block = sa_scratch_take(), *entry = block ? block : few;
    size_t most = block ? PAGEMAP_ENTRIES : sizeof(few) / sizeof(*few);
    int fd = sa_filtered() ? -1 : sa_sys_open(PAGEMAP, O_RDONLY, 0);

    while (fd >= 0 && at < end) {
        long got =
            sa_sys_pread(fd, entry, sa_min(end - at, most) * sizeof(*entry), at * sizeof(*entry)) /
            (long)sizeof(*entry);

        if (got <= 0)
            break;
        for (long i = 0; i < got; i++)
            pages += (entry[i] & PAGEMAP_PRESENT) != 0;
        at += (size_t)got;
    }
    sa_scratch_give(block);
    if (fd >= 0)
        sa_sys_close(fd);
    return at < end ? 0 : pages * sa_vm.page_bytes;
}

/* The kernel's interface (PAGEMAP_SCAN), which older headers do not have. */
struct scan_range {
    uint64_t start, end, categories;
};

struct scan {
    uint64_t size, flags, start, end, walk_end, ranges, count, max;
    uint64_t inverted, all_of, any_of, wanted; /* categories */
};

#define SCAN_REQUEST _IOWR('f', 16, struct scan)
#define SCAN_PRESENT 8
#define SCAN_HUGE    64
#define SCAN_RANGES  64

/* Parses the number at *text, and moves *text behind it. */
static uintptr_t smaps_number(const char **text, unsigned base)
{
    uintptr_t n = 0;

    for (;; (*text)++) {
        char c = **text;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                : 99;

        if (digit >= base)
            return n;
        n = n * base + digit;
    }
}

/* Adds the numbers of a line to *sum. *inside: whether the mapping that the lines describe overlaps
 * the range; set by the first line of a mapping. */
static void smaps_line(const char *line, uintptr_t start, uintptr_t end, bool *inside,
                       struct sa_vm_coverage *sum)
{
    static const char resident[] = "Rss:", huge[] = "AnonHugePages:";
    bool is_resident = strncmp(line, resident, sizeof(resident) - 1) == 0;
    const char *at = line;
    uintptr_t first = smaps_number(&at, 16);

    if (at > line && *at == '-') {
        at++;
        *inside = first < end && smaps_number(&at, 16) > start;
    } else if (*inside && (is_resident || strncmp(line, huge, sizeof(huge) - 1) == 0)) {
        at = line + strcspn(line, "0123456789");
        *(is_resident ? &sum->resident : &sum->huge) += smaps_number(&at, 10) << 10;
    }
}

SA_RARE bool sa_vm_mappings_coverage(uintptr_t start, uintptr_t end, struct sa_vm_coverage *ret)
{
    char text[2048], line[64]; /* the beginning of a line is enough */
    struct sa_vm_coverage sum = {0, 0};
    int fd = sa_sys_open("/proc/self/smaps", O_RDONLY, 0);
    bool inside = false;
    size_t length = 0;
    long n;

    if (fd < 0)
        return false;
    while ((n = sa_sys_read(fd, text, sizeof(text))) > 0 || n == -EINTR) {
        for (long i = 0; i < n; i++) {
            if (text[i] != '\n') {
                line[length] = text[i];
                length += length + 1 < sizeof(line);
                continue;
            }
            line[length] = '\0';
            length = 0;
            smaps_line(line, start, end, &inside, &sum);
        }
    }
    sa_sys_close(fd);
    if (n == 0)
        *ret = sum;
    return n == 0;
}

SA_RARE bool sa_vm_coverage(uintptr_t start, uintptr_t end, struct sa_vm_coverage *ret)
{
    struct scan_range found[SCAN_RANGES];
    struct scan scan = {.size = sizeof(scan),
                        .start = start,
                        .end = end,
                        .ranges = (uintptr_t)found,
                        .count = SCAN_RANGES,
                        .all_of = SCAN_PRESENT,
                        .wanted = SCAN_PRESENT | SCAN_HUGE};
    struct sa_vm_coverage sum = {0, 0};
    int fd = sa_filtered() ? -1 : sa_sys_open(PAGEMAP, O_RDONLY, 0), n = 0;

    if (fd < 0)
        return false;
    while (scan.start < end && (n = sa_sys_ioctl(fd, SCAN_REQUEST, &scan)) >= 0) {
        for (int i = 0; i < n; i++) {
            size_t bytes = found[i].end - found[i].start;

            sum.resident += bytes;
            sum.huge += found[i].categories & SCAN_HUGE ? bytes : 0;
        }
        if (scan.walk_end <= scan.start)
            break;
        scan.start = scan.walk_end;
    }
    sa_sys_close(fd);
    if (scan.start < end)
        return sa_vm_mappings_coverage(start, end, ret);
    *ret = sum;
    return true;
}

/* MADV_DONTNEED failed. The kernel returns EINVAL if the memory is locked, and since Linux 5.18 has
 * other advice for that. Returns whether the pages were released. */
SA_COLD static bool release_refused(void *p, size_t bytes, int error)
{
    int r = error == -EINVAL ? sa_sys_madvise(p, bytes, MADV_DONTNEED_LOCKED) : error;

    if (r == 0) {
        if (error == -EINVAL)
            sa_store_relaxed(&sa_vm.locked, true);
        return true;
    }
    if (error == -EINVAL && (r == -EINVAL || r == -EPERM)) /* an older kernel, or a filter */
        sa_store_relaxed(&sa_vm.keeps_locked, true);
    sa_add_relaxed(&sa_vm.advise_failures, 1);
    return false;
}

bool sa_vm_release(void *p, size_t bytes)
{
    int r = sa_sys_madvise(p, bytes, MADV_DONTNEED);

    SA_DCHECK(VM_ALIGNED(p) && VM_ALIGNED(bytes));
    return SA_LIKELY(r == 0) || release_refused(p, bytes, r);
}

SA_RARE bool sa_vm_release_runs(const struct iovec *runs, unsigned count)
{
    /* Whether the kernel can do it. Atomic, relaxed; threads that find out at the same time store
     * the same value. A filter from before the program was executed may end the process at a call
     * that it does not know. */
    static unsigned char can; /* 0: not known yet */
    enum { YES = 1, NO };
    size_t bytes = 0;
    bool ok;

    if (sa_load_relaxed(&can) == 0 && sa_sys_has_filter())
        sa_store_relaxed(&can, NO);
    if (sa_load_relaxed(&can) == NO)
        return false;
    for (unsigned i = 0; i < count; i++)
        bytes += runs[i].iov_len;
    ok = sa_sys_release_runs(runs, count) == (long)bytes;
    if (ok || sa_load_relaxed(&can) == 0)
        sa_store_relaxed(&can, ok ? YES : NO);
    return ok;
}

bool sa_vm_protect(void *p, size_t bytes, bool accessible)
{
    SA_DCHECK(VM_ALIGNED(p) && VM_ALIGNED(bytes));
    return sa_sys_mprotect(p, bytes, accessible ? PROT_READ | PROT_WRITE : PROT_NONE) == 0;
}

void sa_vm_close(void *p, size_t bytes)
{
    if (sa_filtered())
        return;
    sa_sys_mprotect(p, bytes, PROT_READ);
    sa_sys_madvise(p, bytes, MADV_DONTDUMP);
}

bool sa_vm_open(void *p, size_t bytes, const char *name)
{
    if (!sa_sys_mmap(p, bytes, PROT_READ | PROT_WRITE, map_flags() | MAP_FIXED)) {
        sa_add_relaxed(&sa_vm.map_failures, 1);
        return false;
    }
    if (SA_UNLIKELY(sa_vm.names))
        sa_sys_name_mapping(p, bytes, name);
    return true;
}

bool sa_vm_no_hugepages(void *p, size_t bytes)
{
    return sa_sys_madvise(p, bytes, MADV_NOHUGEPAGE) == 0;
}

SA_RARE bool sa_vm_hugepages(void *p, size_t bytes)
{
    return sa_sys_madvise(p, bytes, MADV_HUGEPAGE) == 0;
}

SA_RARE void sa_vm_touch(void *p)
{
    *(volatile char *)p = 0;
}

SA_RARE bool sa_vm_collapse(void *p, size_t bytes)
{
    return sa_sys_madvise(p, bytes, MADV_COLLAPSE) == 0;
}

SA_RARE enum sa_vm_renewal sa_vm_renew(void *p, size_t bytes, const char *name)
{
    int failed;

    if (sa_sys_mmap(p, bytes, PROT_READ | PROT_WRITE, map_flags() | MAP_FIXED) == p) {
        if (SA_UNLIKELY(sa_vm.names))
            sa_sys_name_mapping(p, bytes, name);
        return SA_VM_ZEROED;
    }
    /* Most likely the process has the most mappings that the kernel allows. The kernel checks that
     * before it changes anything: the old mapping is still usable, but cannot merge. */
    sa_add_relaxed(&sa_vm.map_failures, 1);
    failed = sa_sys_madvise(p, bytes, MADV_DONTNEED);
    if (!failed)
        return SA_VM_ZEROED;
    sa_add_relaxed(&sa_vm.advise_failures, 1);
    /* ENOMEM: part of the range is not mapped any more. Another error may come first, so look at
     * both ends as well. */
    return failed == -ENOMEM || !sa_sys_is_readable(p) ||
                   !sa_sys_is_readable((const char *)p + bytes - 1)
               ? SA_VM_LOST
               : SA_VM_UNCHANGED;
}

SA_RARE bool sa_vm_move(void *from, void *to, size_t bytes)
{
    SA_DCHECK(VM_ALIGNED(from) && VM_ALIGNED(to) && VM_ALIGNED(bytes));
    return sa_sys_mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
                         to) == to;
}
