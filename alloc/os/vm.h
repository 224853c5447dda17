/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address space: page size, mapping, release. All sizes and addresses are multiples of
 * sa_vm.page_bytes unless said otherwise; nothing here takes a lock or keeps policy.
 */
#ifndef SA_OS_VM_H
#define SA_OS_VM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sa_vm {
    size_t page_bytes; /* the kernel's page: 4, 16 or 64 KiB; const after init */
    size_t page_step;  /* kernel pages in pages of salloc's, at least 1; const after init */
    bool names;        /* give mappings names in /proc/PID/maps; const after init */
    bool keeps_locked; /* atomic: locked pages go back with their mapping only, see sa_vm_release */
    bool locked; /* atomic: locked pages went back by other advice: the process locks its memory */
    uint64_t seed;         /* random per process, from the kernel; const after init */
    uint64_t map_failures; /* atomic, relaxed counters */
    uint64_t advise_failures;
    /* Atomic, relaxed: address space that is salloc's, by what for; see sa_vm_mapped_bytes. */
    uint64_t used_bytes;     /* all but the next two */
    uint64_t reserved_bytes; /* parts of tables and pools that were never touched */
    uint64_t space_bytes;    /* page heaps', which say themselves how much of it they use */
};

extern struct sa_vm sa_vm;

void sa_vm_init(void);

/* Random words that nothing else is made of. */
void sa_vm_secret(uint64_t *ret, unsigned count);

/* Zeroed, readable and writable memory near the hint (or anywhere); NULL if there is none. */
void *sa_vm_map(void *hint, size_t bytes, const char *name);

/* If the kernel refuses (which takes a mapping more to split one), the next calls try again. */
void sa_vm_unmap(void *p, size_t bytes);

/* The same anywhere, for a table that is used in part: all of it counts as reserved until it is
 * used. */
void *sa_vm_map_reserved(size_t bytes, const char *name);

/* So much of what is reserved is used now; or of what is used holds no memory now. */
void sa_vm_use_reserved(size_t bytes);
void sa_vm_reserve(size_t bytes);

/* The same as sa_vm_map and sa_vm_unmap for page heaps: it never counts as used here. */
void *sa_vm_map_space(void *hint, size_t bytes, const char *name);
void sa_vm_unmap_space(void *p, size_t bytes);

/* All of it, used or not. */
uint64_t sa_vm_mapped_bytes(void);

/* A mapping with more bytes, perhaps elsewhere; NULL: it is unchanged. */
void *sa_vm_lengthen(void *p, size_t old_bytes, size_t bytes);

/* Bytes of the kernel's pages in the range (of any memory) that are in memory; 0 if it does not
 * tell, or behind a filter. */
size_t sa_vm_resident(const void *p, size_t bytes);

struct sa_vm_coverage {
    size_t resident, huge; /* bytes in memory; of those, on transparent hugepages */
};

/* What is mapped there, as the kernel's page tables have it: takes it 0.2 ms for each GiB on
 * hugepages, 3 ms on small pages. Before Linux 6.7 as the next. False if the kernel does not tell
 * (where /proc is not to be seen). */
bool sa_vm_coverage(uintptr_t start, uintptr_t end, struct sa_vm_coverage *ret);

/* What the kernel says of mappings that lie there, or in part, which takes it more. */
bool sa_vm_mappings_coverage(uintptr_t start, uintptr_t end, struct sa_vm_coverage *ret);

/* Gives the pages back, also locked ones; afterwards they read as zero. False if the kernel
 * refused: the content is then unchanged. Before Linux 5.18, and behind a filter, it refuses if
 * memory is locked; sa_vm.keeps_locked says so from then on. */
bool sa_vm_release(void *p, size_t bytes);

/* Makes the range inaccessible, or accessible again, with its content. False if the kernel refused
 * (it has a bound on the number of mappings): part of it may be changed. */
bool sa_vm_protect(void *p, size_t bytes, bool accessible);

/*
 * Makes a part of a table that nothing was written to read-only and keeps it out of dumps of the
 * process: it then holds no memory, also in a process that locks its memory. Not behind a filter.
 * Opening makes such a part, which reads as zero, writable, and puts it into dumps again. One
 * mapping takes the place of another for that, as a filter lets MADV_DODUMP not pass. False if the
 * kernel refused: it is as before.
 */
void sa_vm_close(void *p, size_t bytes);
bool sa_vm_open(void *p, size_t bytes, const char *name);

/* Advice that stands: keeps the range out of transparent hugepages, or asks for them. False if the
 * kernel refused (it does not know them, or has a bound on the number of mappings): part of it may
 * be changed. */
bool sa_vm_no_hugepages(void *p, size_t bytes);
bool sa_vm_hugepages(void *p, size_t bytes);

/* Writes a 0 to p, which nobody else uses: the first touch of its page, or hugepage, if that has no
 * memory yet. */
void sa_vm_touch(void *p);

/* Makes an aligned range of 2 MiB one hugepage, now. False if the kernel cannot or will not. */
bool sa_vm_collapse(void *p, size_t bytes);

enum sa_vm_renewal {
    SA_VM_LOST,  /* part of the range is not mapped any more: nothing of it may be used */
    SA_VM_KEPT,  /* the kernel refused, and gives no pages back either: as before */
    SA_VM_ZEROED /* reads as zero */
};

/* Replaces an accessible mapping by a fresh, zeroed one that the kernel can merge with its
 * neighbours. */
enum sa_vm_renewal sa_vm_renew(void *p, size_t bytes, const char *name);

/*
 * Moves the pages of [from, from + bytes), which must be one mapping, to the same length at to,
 * whose content is lost. from stays mapped and reads as zero. False where the kernel cannot: from
 * is then unchanged, but nothing may be mapped at `to` any more.
 */
bool sa_vm_move(void *from, void *to, size_t bytes);

#endif
