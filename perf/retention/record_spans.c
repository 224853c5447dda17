/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records the spans that a program takes from the ordinary page heap and gives back, for replay.c.
 * The file is a part of libsalloc-record-spans.so: the library, linked again so that calls of the
 * page heap come by here (meson.build). The library that programs use is not touched.
 *
 *   SALLOC_TRACE_DIR=/tmp/spans LD_PRELOAD=build/perf/retention/libsalloc-record-spans.so PROGRAM
 *
 * Each process writes a file NAME.PID in that folder, in the format of spans_format.h. A child of
 * fork is not recorded until it executes a program. Records wait in a buffer and are written by
 * write(2), so that recording takes no memory from the heap.
 *
 * The lock guards the buffer and the order of the records. A free is recorded before the pages can
 * be handed out again, and a request afterwards. The lock is free at each fork: callers are inside
 * the fork gate.
 */
#include "alloc/base/single_threaded.h"
#include "alloc/os/clock.h"
#include "alloc/os/sys.h"
#include "alloc/page_heap/page_heap.h"
#include "perf/retention/spans_format.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES 65536
#define MS           1000000ull

static struct {
    int locked; /* atomic */
    bool open, off;
    int fd;
    int pid; /* of the process that has opened it */
    size_t used;
    uint64_t place, ms, cpu_ms;
    uint8_t bytes[BUFFER_BYTES];
} out;

struct sa_span *__real_sa_page_heap_alloc(struct sa_page_heap *h, size_t pages, size_t align,
                                          enum sa_pages_use use);
void __real_sa_page_heap_free(struct sa_page_heap *h, struct sa_span *s, bool zero);
bool __real_sa_page_heap_extend(struct sa_page_heap *h, struct sa_span *s, size_t pages);
void __real_sa_page_heap_shrink(struct sa_page_heap *h, struct sa_span *s, size_t pages);
struct sa_span *__real_sa_page_heap_split(struct sa_page_heap *h, struct sa_span *s, size_t pages);
bool __real_sa_page_heap_join(struct sa_page_heap *h, struct sa_span *s, struct sa_span *next);
bool __real_sa_page_heap_tick(struct sa_page_heap *h, uint64_t now_ns);

struct sa_span *__wrap_sa_page_heap_alloc(struct sa_page_heap *h, size_t pages, size_t align,
                                          enum sa_pages_use use);
void __wrap_sa_page_heap_free(struct sa_page_heap *h, struct sa_span *s, bool zero);
bool __wrap_sa_page_heap_extend(struct sa_page_heap *h, struct sa_span *s, size_t pages);
void __wrap_sa_page_heap_shrink(struct sa_page_heap *h, struct sa_span *s, size_t pages);
struct sa_span *__wrap_sa_page_heap_split(struct sa_page_heap *h, struct sa_span *s, size_t pages);
bool __wrap_sa_page_heap_join(struct sa_page_heap *h, struct sa_span *s, struct sa_span *next);
bool __wrap_sa_page_heap_tick(struct sa_page_heap *h, uint64_t now_ns);

static void out_lock(void)
{
    while (__atomic_exchange_n(&out.locked, 1, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void out_unlock(void)
{
    __atomic_store_n(&out.locked, 0, __ATOMIC_RELEASE);
}

/* A child of fork has a copy of its parent's buffer, which is not the child's to write. */
static void out_flush(void)
{
    if (!out.open || sa_sys_pid() != out.pid)
        out.off = true;
    for (size_t at = 0; at < out.used && !out.off;) {
        long n = sa_sys_write(out.fd, out.bytes + at, out.used - at);

        out.off = n < 0 && n != -EINTR;
        at += n > 0 ? (size_t)n : 0;
    }
    out.used = 0;
}

static void put_number(uint64_t n)
{
    for (; n >= 128; n >>= 7)
        out.bytes[out.used++] = (uint8_t)(n | 128);
    out.bytes[out.used++] = (uint8_t)n;
}

/* The next place is compared with the end of this span. */
static void put_place(const struct sa_span *s)
{
    uint64_t place = s->start >> SA_PAGE_SHIFT, by = place - out.place;

    if (!out.place)
        by = 0; /* the heap begins at a random place */
    put_number(by << 1 ^ (uint64_t)((int64_t)by >> 63));
    out.place = place;
}

static void put_time(void)
{
    uint64_t ms = sa_clock_ns() / MS;

    if (ms == out.ms)
        return;
    if (out.ms) {
        out.bytes[out.used++] = SPANS_TIME;
        put_number(ms - out.ms);
    }
    out.ms = ms;
}

/* Begins a record. False: nothing is recorded. The lock is held then, too. */
static bool begin(struct sa_page_heap *h, enum spans_op op)
{
    out_lock();
    if (out.off || !h->huge)
        return false;
    if (BUFFER_BYTES - out.used < 4 * SPANS_RECORD_MAX)
        out_flush();
    put_time();
    out.bytes[out.used++] = (uint8_t)op;
    return true;
}

struct sa_span *__wrap_sa_page_heap_alloc(struct sa_page_heap *h, size_t pages, size_t align,
                                          enum sa_pages_use use)
{
    struct sa_span *s = __real_sa_page_heap_alloc(h, pages, align, use);
    enum spans_op op = SPANS_TAKE;

    if (!s)
        return NULL;
    if (align > 1)
        op = SPANS_ALIGNED;
    else if (use == SA_PAGES_DENSE)
        op = SPANS_DENSE;
    if (begin(h, op)) {
        put_place(s);
        put_number(s->pages);
        if (op == SPANS_ALIGNED)
            put_number((uint64_t)__builtin_ctzl(align));
        out.place += s->pages;
    }
    out_unlock();
    return s;
}

void __wrap_sa_page_heap_free(struct sa_page_heap *h, struct sa_span *s, bool zero)
{
    if (begin(h, zero ? SPANS_GIVE_ZERO : SPANS_GIVE)) {
        put_place(s);
        out.place += s->pages;
    }
    out_unlock();
    __real_sa_page_heap_free(h, s, zero);
}

static void record_resize(struct sa_page_heap *h, const struct sa_span *s, size_t pages)
{
    if (begin(h, SPANS_RESIZE)) {
        put_place(s);
        put_number(pages);
    }
    out_unlock();
}

bool __wrap_sa_page_heap_extend(struct sa_page_heap *h, struct sa_span *s, size_t pages)
{
    bool ok = __real_sa_page_heap_extend(h, s, pages);

    if (ok)
        record_resize(h, s, s->pages);
    return ok;
}

/* Recorded before another thread can take the rest. */
void __wrap_sa_page_heap_shrink(struct sa_page_heap *h, struct sa_span *s, size_t pages)
{
    record_resize(h, s, pages);
    __real_sa_page_heap_shrink(h, s, pages);
    if (s->pages != pages)
        record_resize(h, s, s->pages); /* it could not */
}

struct sa_span *__wrap_sa_page_heap_split(struct sa_page_heap *h, struct sa_span *s, size_t pages)
{
    struct sa_span *rest = __real_sa_page_heap_split(h, s, pages);

    if (!rest)
        return NULL;
    if (begin(h, SPANS_SPLIT)) {
        put_place(s);
        put_number(pages);
    }
    out_unlock();
    return rest;
}

bool __wrap_sa_page_heap_join(struct sa_page_heap *h, struct sa_span *s, struct sa_span *next)
{
    uintptr_t start = next->start;
    bool ok = __real_sa_page_heap_join(h, s, next);

    if (!ok)
        return false;
    if (begin(h, SPANS_JOIN)) {
        put_place(s);
        put_place(&(struct sa_span){.start = start});
    }
    out_unlock();
    return true;
}

bool __wrap_sa_page_heap_tick(struct sa_page_heap *h, uint64_t now_ns)
{
    uint64_t cpu_ms = sa_vdso_clock_ns(CLOCK_PROCESS_CPUTIME_ID) / MS;
    bool wasteful = now_ns < sa_load_relaxed(&sa_page_heap_lean_ns);

    if (begin(h, SPANS_CPU)) {
        put_number(cpu_ms - out.cpu_ms);
        out.cpu_ms = cpu_ms;
        out.bytes[out.used++] = SPANS_TICK;
        put_number((sa_single_threaded() ? 0 : SPANS_THREADS) | (wasteful ? SPANS_WASTEFUL : 0));
    }
    out_unlock();
    return __real_sa_page_heap_tick(h, now_ns);
}

/* Records from before wait in the buffer. */
static __attribute__((constructor)) void out_begin(void)
{
    const char *folder = getenv("SALLOC_TRACE_DIR");
    char path[4096];

    out_lock();
    snprintf(path, sizeof(path), "%s/%s.%d", folder ? folder : "", program_invocation_short_name,
             sa_sys_pid());
    out.fd = folder ? sa_sys_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    out.pid = sa_sys_pid();
    out.open = out.fd >= 0;
    out.off |= !out.open;
    if (out.open && sa_sys_write(out.fd, SPANS_MAGIC, SPANS_MAGIC_BYTES) != SPANS_MAGIC_BYTES)
        out.off = true;
    out_unlock();
}

static __attribute__((destructor)) void out_end(void)
{
    out_lock();
    put_time();
    out_flush();
    out.off = true;
    out_unlock();
}
