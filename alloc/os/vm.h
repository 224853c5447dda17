/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address space: maps, unmaps, releases and protects memory, and counts it. Sizes and addresses are
 * multiples of sa_vm.page_bytes unless said otherwise. Any thread; no lock and no policy. The
 * counters of sa_vm change atomically.
 */
#ifndef SA_OS_VM_H
#define SA_OS_VM_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sa_vm {
    size_t page_bytes; /* bytes of the kernel's page: 4, 16 or 64 KiB; const after init */
    size_t page_step;  /* pages of salloc's in a kernel page, at least 1; const after init */
    bool names;        /* give mappings names in /proc/PID/maps; const after init */
    bool keeps_locked; /* atomic: the kernel releases locked pages with their mapping only, see
                          sa_vm_release */
    bool locked; /* atomic: the process locks its memory: other advice has released locked pages */
    bool alike;  /* addresses are the same in each process that does the same; const after init */
    uint64_t seed;         /* random, different in each process unless alike; const after init */
    uint64_t map_failures; /* since the start; atomic, relaxed, as is the next */
    uint64_t advise_failures;
    /* Atomic, relaxed: salloc's address space in bytes, by use; see sa_vm_mapped_bytes. */
    uint64_t used_bytes;     /* all but the next two */
    uint64_t reserved_bytes; /* parts of tables and pools that were never touched */
    uint64_t space_bytes;    /* of page heaps, which count themselves how much of it they use */
};

extern struct sa_vm sa_vm;

/* Whether memory is known to be locked. */
SA_INLINE bool sa_vm_is_locked(void)
{
    return sa_load_relaxed(&sa_vm.locked) || sa_load_relaxed(&sa_vm.keeps_locked);
}

/* Reads the seed. sa_vm_init calls it. */
void sa_vm_init_seed(void);

/* Reads the page size and the seed. Called once, by start-up, before the other functions. */
void sa_vm_init(void);

/* Sets the seed, so that processes with the same one place blocks at the same addresses. Called by
 * start-up, before anything uses it. */
void sa_vm_set_seed(uint64_t seed);

/*
 * The time by which policies choose blocks for places of their own. Where addresses are alike, it
 * must not be that of a clock: every question is one step later.
 */
uint64_t sa_vm_policy_step(uint64_t step_ns);

SA_INLINE uint64_t sa_vm_policy_ns(uint64_t now_ns, uint64_t step_ns)
{
    return SA_UNLIKELY(sa_vm.alike) ? sa_vm_policy_step(step_ns) : now_ns;
}

/* Stores random words for secrets: the kernel's, mixed with words derived from the seed. Behind a
 * filter, or if the kernel has none, from the seed alone. */
void sa_vm_secret(uint64_t *ret, unsigned count);

/* Maps zeroed, readable and writable memory near the hint, or anywhere. NULL: the kernel refused.
 * name: in /proc/PID/maps, if names are on. */
void *sa_vm_map(void *hint, size_t bytes, const char *name);

/* As sa_vm_map, for a range that the caller then makes inaccessible: it takes no memory before it
 * is accessible again, also in a process that locks its memory. */
void *sa_vm_map_hidden(void *hint, size_t bytes, const char *name);

/* Unmaps such a range. If the kernel refuses, the range stays: later calls do not try again. */
void sa_vm_unmap_hidden(void *p, size_t bytes);

/* Unmaps memory. The kernel may refuse, because unmapping the middle of a mapping makes one more:
 * then later calls try again, of this function, of those that map, and of sa_vm_unmap_refused. */
void sa_vm_unmap(void *p, size_t bytes);

/* Tries again to unmap what the kernel refused to unmap. Costs one read of a word if there is
 * nothing. */
void sa_vm_unmap_refused(void);

/* As sa_vm_map, anywhere, for a table of which a part is used: all bytes count as reserved at
 * first. */
void *sa_vm_map_reserved(size_t bytes, const char *name);

/* Counts bytes as used that were reserved; or as reserved that were used and are unbacked now. */
void sa_vm_use_reserved(size_t bytes);
void sa_vm_reserve(size_t bytes);

/* As sa_vm_map and sa_vm_unmap, for page heaps: counted in space_bytes. */
void *sa_vm_map_space(void *hint, size_t bytes, const char *name);
void sa_vm_unmap_space(void *p, size_t bytes);

/* Returns the sum of the three counts. */
uint64_t sa_vm_mapped_bytes(void);

/* Makes a mapping longer, perhaps at another place. NULL: the kernel refused, and nothing has
 * changed. */
void *sa_vm_lengthen(void *p, size_t old_bytes, size_t bytes);

/* Returns the resident bytes of a range of any memory, in kernel pages. 0 if the kernel does not
 * tell, or behind a filter. */
size_t sa_vm_resident(const void *p, size_t bytes);

struct sa_vm_coverage {
    size_t resident, huge; /* resident bytes; of those, on transparent hugepages */
};

/*
 * Reads how much of a range is resident, from the kernel's page tables. That takes 0.2 ms for each
 * GiB on hugepages and 3 ms on small pages. Before Linux 6.7, does what the next function does.
 * False: the kernel does not tell (/proc is not visible).
 */
bool sa_vm_coverage(uintptr_t start, uintptr_t end, struct sa_vm_coverage *ret);

/* Reads how much is resident of the mappings that overlap a range, from /proc/self/smaps. Takes
 * longer. */
bool sa_vm_mappings_coverage(uintptr_t start, uintptr_t end, struct sa_vm_coverage *ret);

/*
 * Releases pages, also locked ones: they are unbacked and read as zero. False: the kernel refused,
 * and the content is unchanged. Before Linux 5.18, and behind a filter, the kernel refuses for
 * locked memory; sa_vm.keeps_locked is set then.
 */
bool sa_vm_release(void *p, size_t bytes);

/* Releases several ranges by one system call (Linux 6.15). False: the kernel cannot, or something
 * is in the way; the ranges are as they were, or released in part. */
struct iovec;
bool sa_vm_release_runs(const struct iovec *runs, unsigned count);

/* Makes a range inaccessible, or accessible again; the content stays. False: the kernel refused,
 * because it bounds the number of mappings, and part of the range may be changed. */
bool sa_vm_protect(void *p, size_t bytes, bool accessible);

/*
 * Close makes a part of a table that was never written read-only, and keeps it out of core dumps.
 * It then takes no memory, even in a process that locks its memory. Does nothing behind a filter.
 * read_only: it is that already.
 *
 * Open makes such a part writable and part of core dumps again; it reads as zero. It maps new
 * memory in place of the old, because filters do not allow MADV_DODUMP. False: the kernel refused,
 * and nothing has changed.
 */
void sa_vm_close(void *p, size_t bytes, bool read_only);
void *sa_vm_map_closed(size_t bytes, const char *name); /* as sa_vm_map_reserved, closed */
bool sa_vm_open(void *p, size_t bytes, const char *name);

/*
 * Advice that lasts: keeps a range out of transparent hugepages, or requests them. False: the
 * kernel refused, because it does not know them or bounds the number of mappings, and part of the
 * range may be changed.
 */
bool sa_vm_no_hugepages(void *p, size_t bytes);
bool sa_vm_hugepages(void *p, size_t bytes);

/* Has the kernel back all pages of a writable range. Their content stays, also if other threads
 * write to them. */
void sa_vm_populate(void *p, size_t bytes);

/* Writes a 0 to p, so that the kernel backs its page, or hugepage, now. No other thread uses p. */
void sa_vm_touch(void *p);

/* Makes the kernel back a range of 2 MiB, aligned to 2 MiB, by one hugepage now. False: it cannot
 * or will not. */
bool sa_vm_collapse(void *p, size_t bytes);

enum sa_vm_renewal {
    SA_VM_LOST,      /* part of the range is not mapped any more: none of it may be used */
    SA_VM_UNCHANGED, /* the kernel refused, and released no pages: nothing has changed */
    SA_VM_ZEROED     /* the range reads as zero */
};

/* Replaces an accessible mapping by a new, zeroed one, which the kernel can merge with its
 * neighbours. */
enum sa_vm_renewal sa_vm_renew(void *p, size_t bytes, const char *name);

/*
 * Moves the pages of [from, from + bytes), which must be one mapping, to `to`, whose content is
 * lost. from stays mapped and reads as zero. False: the kernel cannot. Then from is unchanged, but
 * `to` may not be mapped any more.
 */
bool sa_vm_move(void *from, void *to, size_t bytes);

#endif
