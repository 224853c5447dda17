/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a program, records what salloc's counters would show in it: allocations and live
 * blocks per size class, at three moments: when most bytes were live (peak), when the bytes ever
 * allocated last reached a power of two (middle, a moment that has nothing to do with what is
 * live), at exit. Memory comes from libc, with a header in front of each block. Every process
 * (children, too) appends to a file of its own in the folder SALLOC_TRACE_DIR: lines of moment,
 * kind, size of the blocks, allocations, live blocks. Counters are relaxed atomics; a peak is
 * copied while others may allocate.
 */
#include "alloc/base/size_class.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC 0x5a110c7a6e0ull
/* Beyond the classes: eight steps to each doubling. */
#define LARGE 160
#define PAGE  ((size_t)1 << SA_PAGE_SHIFT)

extern void *__libc_malloc(size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *p);

/* In front of each block. */
struct header {
    uint64_t magic;
    uint32_t slot;
    uint32_t before; /* bytes from the start of libc's block */
    uint64_t size;   /* asked for */
    uint64_t pad;
};

struct counters {
    uint64_t allocations, live, bytes; /* bytes: of all allocations */
};

static struct counters now[SA_CLASSES_MAX + LARGE], peak[SA_CLASSES_MAX + LARGE],
    middle[SA_CLASSES_MAX + LARGE];
static int64_t live_bytes, peak_bytes;
static uint64_t all_bytes, next_middle = 1 << 20;
static int ready, copying;

static void start(void)
{
    if (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) {
        sa_size_class_init((size_t)sysconf(_SC_PAGESIZE), 0, 2 * SA_CLASSES_MAX);
        __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
    }
}

/* Where a block is counted, and how many bytes it would occupy. */
static unsigned slot_of(size_t size, size_t *ret_occupied)
{
    start();
    if (size <= SA_MID_MAX) {
        unsigned class = sa_size_class_find(size ? size : 1);

        *ret_occupied = sa_size_classes.of[class].size;
        return class;
    }

    size_t occupied = (size + PAGE - 1) & ~(size_t)(PAGE - 1);
    unsigned log = 63 - (unsigned)__builtin_clzll(occupied);
    unsigned step = log * 8 + (unsigned)(occupied >> (log - 3) & 7), first = 18 * 8;

    *ret_occupied = occupied;
    return SA_CLASSES_MAX + (step - first < LARGE ? step - first : LARGE - 1);
}

static void count(unsigned slot, size_t occupied)
{
    struct counters *c = &now[slot];
    uint64_t all;
    int64_t live;

    __atomic_fetch_add(&c->allocations, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&c->live, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&c->bytes, occupied, __ATOMIC_RELAXED);
    live = __atomic_add_fetch(&live_bytes, (int64_t)occupied, __ATOMIC_RELAXED);
    all = __atomic_add_fetch(&all_bytes, occupied, __ATOMIC_RELAXED);
    if ((live > peak_bytes + peak_bytes / 100 + 4096 || all >= next_middle) &&
        !__atomic_exchange_n(&copying, 1, __ATOMIC_ACQUIRE)) {
        if (live > peak_bytes) {
            memcpy(peak, now, sizeof(now));
            peak_bytes = live;
        }
        for (; all >= next_middle; next_middle *= 2)
            memcpy(middle, now, sizeof(now));
        __atomic_store_n(&copying, 0, __ATOMIC_RELEASE);
    }
}

static void *allocate(size_t align, size_t size)
{
    size_t before = align > sizeof(struct header) ? align : sizeof(struct header), occupied;
    char *base;

    if (size > PTRDIFF_MAX - before) {
        errno = ENOMEM;
        return NULL;
    }
    base = align > 16 ? __libc_memalign(align, size + before) : __libc_malloc(size + before);
    if (!base)
        return NULL;

    struct header *h = (struct header *)(base + before) - 1;

    h->magic = MAGIC;
    h->slot = slot_of(size, &occupied);
    h->before = (uint32_t)before;
    h->size = size;
    count(h->slot, occupied);
    return base + before;
}

static struct header *header_of(void *p)
{
    struct header *h = (struct header *)p - 1;

    return h->magic == MAGIC ? h : NULL;
}

void *malloc(size_t size)
{
    return allocate(16, size);
}

void free(void *p)
{
    struct header *h = p ? header_of(p) : NULL;
    size_t occupied;

    if (!h)
        return; /* the loader's, from before us */
    h->magic = 0;
    __atomic_fetch_sub(&now[h->slot].live, 1, __ATOMIC_RELAXED);
    slot_of(h->size, &occupied);
    __atomic_fetch_sub(&live_bytes, (int64_t)occupied, __ATOMIC_RELAXED);
    __libc_free((char *)p - h->before);
}

void *calloc(size_t n, size_t size)
{
    size_t bytes;
    void *p;

    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    p = allocate(16, bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

void *realloc(void *p, size_t size)
{
    struct header *h = p ? header_of(p) : NULL;
    void *to;

    if (p && !size) {
        free(p);
        return NULL;
    }
    to = allocate(16, size);
    if (to && h) {
        memcpy(to, p, h->size < size ? h->size : size);
        free(p);
    }
    return to;
}

void *memalign(size_t align, size_t size)
{
    return allocate(align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    return allocate(align, size);
}

int posix_memalign(void **ret, size_t align, size_t size)
{
    void *p = allocate(align, size);

    if (!p)
        return ENOMEM;
    *ret = p;
    return 0;
}

void *valloc(size_t size)
{
    return allocate(PAGE, size);
}

size_t malloc_usable_size(void *p)
{
    struct header *h = p ? header_of(p) : NULL;

    return h ? h->size : 0;
}

static void print(int fd, const char *moment, const struct counters *c)
{
    char line[200];

    for (unsigned i = 0; i < SA_CLASSES_MAX + LARGE; i++) {
        if (!c[i].allocations)
            continue;

        int n = snprintf(line, sizeof(line), "%s %s %.1f %llu %llu\n", moment,
                         i < SA_CLASSES_MAX ? "class" : "large",
                         (double)c[i].bytes / (double)c[i].allocations,
                         (unsigned long long)c[i].allocations, (unsigned long long)c[i].live);

        if (write(fd, line, (size_t)n) != n)
            return;
    }
}

static __attribute__((destructor)) void report(void)
{
    const char *folder = getenv("SALLOC_TRACE_DIR");
    char path[4096];
    int fd;

    if (!folder)
        return;
    snprintf(path, sizeof(path), "%s/%s.%d", folder, program_invocation_short_name, (int)getpid());
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    print(fd, "peak", peak);
    print(fd, "middle", middle);
    print(fd, "exit", now);
    close(fd);
}
