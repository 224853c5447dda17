/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a program, records each allocation and free for the model (model.c). Every process
 * writes a file NAME.PID in the folder SALLOC_TRACE_DIR, in the format of trace_format.h. A child
 * of fork is not recorded until it executes a program.
 *
 *   SALLOC_TRACE_DIR=/tmp/traces LD_PRELOAD=build/perf/fragmentation/libsalloc-record-trace.so
 *   PROGRAM
 *
 * Memory comes from libc. Requests are rounded up to salloc's size classes first, and
 * malloc_usable_size returns the rounded size. A program that counts usable bytes, as redis-server
 * does, therefore evicts as it would under salloc. The trace has the sizes that were asked for.
 *
 * The lock guards the buffer and the order of the records. A free is recorded before libc can hand
 * the address out again, and an allocation after libc has returned it. A realloc holds the lock.
 */
#include "alloc/base/size_class.h"

#include "perf/fragmentation/trace_format.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_BYTES 65536
#define CLOCK_EVERY  64 /* records between two looks at the clock */
#define TIME_MS      16 /* a shorter time is not recorded */

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *p);

static struct {
    int locked; /* atomic */
    int fd;     /* 0: not opened yet; -1: nothing is recorded */
    size_t used;
    uint64_t address, ms, records;
    int cpu;
    uint8_t bytes[BUFFER_BYTES];
} out = {.cpu = -1};

static void out_lock(void)
{
    while (__atomic_exchange_n(&out.locked, 1, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void out_unlock(void)
{
    __atomic_store_n(&out.locked, 0, __ATOMIC_RELEASE);
}

static void out_flush(void)
{
    for (size_t at = 0; at < out.used && out.fd > 0;) {
        ssize_t n = write(out.fd, out.bytes + at, out.used - at);

        if (n < 0 && errno != EINTR)
            out.fd = -1;
        at += n > 0 ? (size_t)n : 0;
    }
    out.used = 0;
}

static void out_open(void)
{
    const char *folder = getenv("SALLOC_TRACE_DIR");
    char path[4096];

    sa_size_class_init((size_t)sysconf(_SC_PAGESIZE), 0, 2 * SA_CLASSES_MAX);
    out.fd = -1;
    if (!folder)
        return;
    snprintf(path, sizeof(path), "%s/%s.%d", folder, program_invocation_short_name, (int)getpid());
    out.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    memcpy(out.bytes, TRACE_MAGIC, TRACE_MAGIC_BYTES);
    out.used = TRACE_MAGIC_BYTES;
}

static void put_number(uint64_t n)
{
    for (; n >= 128; n >>= 7)
        out.bytes[out.used++] = (uint8_t)(n | 128);
    out.bytes[out.used++] = (uint8_t)n;
}

static void put_address(const void *p)
{
    uint64_t address = (uintptr_t)p / TRACE_UNIT, by = address - out.address;

    put_number(by << 1 ^ (uint64_t)((int64_t)by >> 63));
    out.address = address;
}

static void put_time(void)
{
    struct timespec now;
    uint64_t ms;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    if (ms - out.ms < TIME_MS)
        return;
    out.bytes[out.used++] = TRACE_TIME;
    put_number(out.ms ? ms - out.ms : 0);
    out.ms = ms;
}

/* Begins a record. False: nothing is recorded. The lock is held. */
static bool put_op(enum trace_op op)
{
    int cpu;

    if (out.fd <= 0)
        return false;
    if (BUFFER_BYTES - out.used < 3 * TRACE_RECORD_MAX)
        out_flush();
    cpu = sched_getcpu();
    if (cpu != out.cpu) {
        out.cpu = cpu;
        out.bytes[out.used++] = TRACE_CPU;
        put_number((uint64_t)(cpu < 0 ? 0 : cpu));
    }
    if (out.records++ % CLOCK_EVERY == 0)
        put_time();
    out.bytes[out.used++] = (uint8_t)op;
    return true;
}

/* Returns the bytes that salloc would use for a request. */
static size_t rounded(size_t size)
{
    if (!__atomic_load_n(&out.fd, __ATOMIC_ACQUIRE)) {
        out_lock();
        if (!out.fd)
            out_open();
        out_unlock();
    }
    if (size <= SA_MID_MAX)
        return sa_size_classes.of[sa_size_class_find(size ? size : 1)].size;
    return size > PTRDIFF_MAX ? size : (size + SA_PAGE_BYTES - 1) & ~(SA_PAGE_BYTES - 1);
}

static void *allocated(void *p, unsigned log_align, size_t size)
{
    int error = errno;

    if (!p)
        return NULL;
    out_lock();
    if (put_op(log_align ? TRACE_ALIGNED : TRACE_ALLOC)) {
        if (log_align)
            put_number(log_align);
        put_number(size);
        put_address(p);
    }
    out_unlock();
    errno = error;
    return p;
}

void *malloc(size_t size)
{
    return allocated(__libc_malloc(rounded(size)), 0, size);
}

void *calloc(size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return allocated(__libc_calloc(1, rounded(bytes)), 0, bytes);
}

void free(void *p)
{
    int error = errno;

    if (!p)
        return;
    out_lock();
    if (put_op(TRACE_FREE))
        put_address(p);
    out_unlock();
    __libc_free(p);
    errno = error;
}

void *realloc(void *p, size_t size)
{
    int error = errno;
    void *to;

    if (!p)
        return malloc(size);
    if (!size) {
        free(p);
        return NULL;
    }
    size_t bytes = rounded(size);

    out_lock();
    to = __libc_realloc(p, bytes);
    if (to && put_op(TRACE_REALLOC)) {
        put_address(p);
        put_number(size);
        put_address(to);
    }
    out_unlock();
    errno = to ? error : ENOMEM;
    return to;
}

void *memalign(size_t align, size_t size)
{
    unsigned log = align > 1 ? 63 - (unsigned)__builtin_clzll(align) : 0;

    return allocated(__libc_memalign(align, rounded(size)), log, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    return memalign(align, size);
}

int posix_memalign(void **ret, size_t align, size_t size)
{
    void *p;

    if (align % sizeof(void *) || (align & (align - 1)) || !align)
        return EINVAL;
    p = memalign(align, size);
    if (!p)
        return ENOMEM;
    *ret = p;
    return 0;
}

void *valloc(size_t size)
{
    return memalign((size_t)sysconf(_SC_PAGESIZE), size);
}

/* libc's own function: a program may be linked with another allocator that has one, too. What libc
 * adds to a multiple of 16 bytes is no part of the class. */
size_t malloc_usable_size(void *p)
{
    static size_t (*of_libc)(void *); /* atomic */
    size_t (*usable)(void *) = __atomic_load_n(&of_libc, __ATOMIC_RELAXED);

    if (!p)
        return 0;
    if (!usable) {
        void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

        *(void **)&usable = libc ? dlsym(libc, "malloc_usable_size") : NULL;
        if (!usable)
            abort();
        __atomic_store_n(&of_libc, usable, __ATOMIC_RELAXED);
    }
    return usable(p) & ~(size_t)15;
}

static void out_in_child(void)
{
    out.fd = -1;
    out.used = 0;
    out_unlock();
}

static __attribute__((constructor)) void begin(void)
{
    rounded(1);
    pthread_atfork(out_lock, out_unlock, out_in_child);
}

static __attribute__((destructor)) void end(void)
{
    out_lock();
    out_flush();
    out_unlock();
}
