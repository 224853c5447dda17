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
#include "alloc/os/sys.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
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

#define RELOCK_BYTES (2ul << 20) /* a hugepage, as the page heap maps memory */

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

SA_LAYOUT_USED SA_START_DATA struct sa_vm sa_vm;

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
static void *map_with(int access, void *hint, size_t bytes, const char *name, uint64_t *count)
{
    void *p;

    SA_DCHECK(bytes && VM_ALIGNED(bytes) && VM_ALIGNED(hint));
    sa_vm_unmap_refused();
    p = sa_sys_mmap(hint, bytes, access, map_flags());
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

static void *map_counted(void *hint, size_t bytes, const char *name, uint64_t *count)
{
    return map_with(PROT_READ | PROT_WRITE, hint, bytes, name, count);
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

/* Without the record of a mapping that the kernel refuses to unmap: it could not be written. */
SA_RARE void sa_vm_unmap_hidden(void *p, size_t bytes)
{
    try_unmap(p, bytes, &sa_vm.used_bytes);
}

SA_RARE void sa_vm_unmap_space(void *p, size_t bytes)
{
    unmap_counted(p, bytes, &sa_vm.space_bytes);
}

/*
 * Releases locked pages before Linux 5.18: unlocked, they are released as others; locked again,
 * they are backed when they are touched. The first calls show whether the process may still lock so
 * much. They change the whole hugepage if all of it is mapped. Otherwise each range would remain a
 * mapping of its own. Returns whether the pages were released.
 */
SA_COLD static bool release_relocked(void *p, size_t bytes)
{
    uintptr_t start = (uintptr_t)p & ~(RELOCK_BYTES - 1);
    uintptr_t end = sa_align_up((uintptr_t)p + bytes, RELOCK_BYTES);

    if (sa_sys_lock_on_fault((void *)start, end - start) != 0 &&
        sa_sys_lock_on_fault(p, bytes) != 0)
        return false;
    if (sa_sys_unlock(p, bytes) != 0 || sa_sys_madvise(p, bytes, MADV_DONTNEED) != 0)
        return false;
    if (sa_sys_lock_on_fault(p, bytes) != 0) /* the limit was lowered, or reached, meanwhile */
        sa_store_relaxed(&sa_vm.keeps_locked, true);
    return true;
}

/* MADV_DONTNEED failed. The kernel returns EINVAL if the memory is locked, and since Linux 5.18 has
 * other advice for that. Returns whether the pages were released. */
SA_COLD static bool release_refused(void *p, size_t bytes, int error)
{
    int r = error == -EINVAL ? sa_sys_madvise(p, bytes, MADV_DONTNEED_LOCKED) : error;

    if (error == -EINVAL && r == -EINVAL && !sa_load_relaxed(&sa_vm.keeps_locked) &&
        release_relocked(p, bytes))
        r = 0;
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

void sa_vm_close(void *p, size_t bytes, bool read_only)
{
    if (sa_filtered())
        return;
    if (!read_only)
        sa_sys_mprotect(p, bytes, PROT_READ);
    sa_sys_madvise(p, bytes, MADV_DONTDUMP);
}

/* Where memory is locked, the kernel backs a mapping that is accessible when it is made. */
static void *map_untouched(void *hint, size_t bytes, const char *name, uint64_t *count)
{
    return map_with(sa_filtered() ? PROT_READ | PROT_WRITE : PROT_NONE, hint, bytes, name, count);
}

void *sa_vm_map_hidden(void *hint, size_t bytes, const char *name)
{
    return map_untouched(hint, bytes, name, &sa_vm.used_bytes);
}

void *sa_vm_map_closed(size_t bytes, const char *name)
{
    void *p = map_untouched(NULL, bytes, name, &sa_vm.reserved_bytes);

    if (p)
        sa_vm_close(p, bytes, false);
    return p;
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

/* A compare-and-swap of a byte by itself writes to the page and changes nothing. */
SA_RARE void sa_vm_populate(void *p, size_t bytes)
{
    for (unsigned char *at = p; at < (unsigned char *)p + bytes; at += sa_vm.page_bytes) {
        unsigned char value = sa_load_relaxed(at);

        while (!sa_cas_relaxed(at, &value, value))
            continue;
    }
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
