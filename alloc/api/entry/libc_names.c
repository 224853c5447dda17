/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rest of glibc's malloc family: other names for the same functions, tuning calls, and reports.
 * All are defined here, so that no program gets an answer from libc's own, unused heap. No
 * variables. The reports read a stats snapshot, and are safe in any thread.
 */
#include "alloc/api/init.h"
#include "alloc/api/replaced.h"
#include "alloc/base/attrs.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/maintain/keep.h"
#include "alloc/maintain/maintenance.h"
#include "alloc/page_heap/page_heap.h"
#include "stats/report.h"
#include "stats/stats_snapshot.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* free: the program's, if it has its own. */
SA_EXPORT void cfree(void *p)
{
    free(p);
}

/* The __libc_ names call the functions of this library, even if the program has its own. The
 * program's malloc may call them, and must not be called by them. */
SA_EXPORT void *__libc_malloc(size_t size)
{
    return sa_own_malloc(size);
}

SA_EXPORT void __libc_free(void *p)
{
    sa_own_free(p);
}

SA_EXPORT void __libc_cfree(void *p)
{
    sa_own_free(p);
}

SA_EXPORT void *__libc_calloc(size_t count, size_t size)
{
    return sa_own_calloc(count, size);
}

SA_EXPORT void *__libc_realloc(void *p, size_t size)
{
    return sa_own_realloc(p, size);
}

SA_EXPORT void *__libc_reallocarray(void *p, size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return sa_own_realloc(p, bytes);
}

SA_EXPORT void *__libc_memalign(size_t align, size_t size)
{
    return sa_own_memalign(align, size);
}

SA_EXPORT void *__libc_valloc(size_t size)
{
    return sa_own_valloc(size);
}

SA_EXPORT void *__libc_pvalloc(size_t size)
{
    return sa_own_pvalloc(size);
}

SA_EXPORT int __posix_memalign(void **ret, size_t align, size_t size)
{
    return sa_own_posix_memalign(ret, align, size);
}

/* Releases free memory, all but about `pad` bytes: the page heap rounds to its hugepages. Returns
 * the bytes released. Inside the fork gate. */
static unsigned long trim(size_t pad) SA_INSIDE_GATE
{
    struct sa_page_heap_stats ordinary, sampled;
    unsigned long given;
    size_t free_bytes;

    if (!pad)
        return sa_maintenance_release_requested(PTRDIFF_MAX);
    given = sa_maintenance_release_requested(0); /* empties the caches: only then count */
    sa_page_heap_stats(&sa_page_heap_ordinary, &ordinary);
    sa_page_heap_stats(&sa_page_heap_sampled, &sampled);
    free_bytes = ordinary.backed_bytes + sampled.backed_bytes;
    return free_bytes > pad ? given + sa_maintenance_release_requested(free_bytes - pad) : given;
}

/* Releases free memory to the system, all but about `pad` bytes. Returns 1 if it has released any,
 * else 0. */
SA_EXPORT int malloc_trim(size_t pad)
{
    int saved = errno;
    unsigned long given = 0;

    sa_init();
    if (sa_fork_gate_enter()) {
        given = trim(pad);
        sa_fork_gate_leave();
    }
    errno = saved;
    return given != 0;
}

/* The greatest values that glibc takes. */
#define MXFAST_MAX         (80 * sizeof(size_t) / 4)
#define MMAP_THRESHOLD_MAX (32ul << 20)

/*
 * Sets how much free memory stays; see sa_limits_keep. glibc takes the values for unsigned, so that
 * a threshold below 0 is never reached. Every other parameter of glibc says where in glibc's heap a
 * block lies, and has no effect. Returns 1, as glibc does for unknown parameters, too; 0: the value
 * is one that glibc refuses.
 */
SA_EXPORT int mallopt(int parameter, int value)
{
    int saved = errno;

    switch (parameter) {
    case M_TRIM_THRESHOLD:
        sa_init();
        sa_own_free(sa_own_malloc(1)); /* the thread's cache is there */
        if (sa_fork_gate_enter()) {
            sa_keep_set(value < 0 ? SIZE_MAX : (size_t)value);
            sa_fork_gate_leave();
        }
        errno = saved;
        return 1;
    case M_MXFAST:
        return (size_t)value <= MXFAST_MAX;
    case M_MMAP_THRESHOLD:
        return (size_t)value <= MMAP_THRESHOLD_MAX;
    default:
        return 1;
    }
}

SA_EXPORT struct mallinfo2 mallinfo2(void)
{
    struct mallinfo2 m = {0};
    struct sa_snapshot *s;
    int saved = errno;

    sa_init();
    s = sa_snapshot_new();
    errno = saved;
    if (!s) /* no memory: the function cannot say so */
        return m;
    m.arena = s->heap.mapped_bytes - s->large_bytes;
    m.hblks = s->large_blocks;
    m.hblkhd = s->large_bytes;
    m.ordblks = s->heap.spans_in_use;
    m.fsmblks = s->cpu_bytes + s->thread_bytes + s->transfer_bytes + s->quarantine_bytes;
    m.uordblks = s->in_use_bytes;
    m.fordblks = s->heap.mapped_bytes - s->in_use_bytes;
    m.keepcost = s->heap.backed_bytes;
    sa_snapshot_drop(s);
    return m;
}

static int clamp_int(size_t v)
{
    return v > INT_MAX ? INT_MAX : (int)v;
}

SA_EXPORT int __libc_mallopt(int parameter, int value)
{
    return mallopt(parameter, value);
}

/* mallinfo2 in fields of type int. A value beyond INT_MAX is reported as INT_MAX. */
static struct mallinfo mallinfo_clamped(void)
{
    struct mallinfo2 m = mallinfo2();

    return (struct mallinfo){
        .arena = clamp_int(m.arena),
        .ordblks = clamp_int(m.ordblks),
        .hblks = clamp_int(m.hblks),
        .hblkhd = clamp_int(m.hblkhd),
        .fsmblks = clamp_int(m.fsmblks),
        .uordblks = clamp_int(m.uordblks),
        .fordblks = clamp_int(m.fordblks),
        .keepcost = clamp_int(m.keepcost),
    };
}

SA_EXPORT struct mallinfo mallinfo(void)
{
    return mallinfo_clamped();
}

SA_EXPORT struct mallinfo __libc_mallinfo(void)
{
    return mallinfo_clamped();
}

/* Writes XML in the shape of glibc's, for malloc_info. */
static int put_info(const struct sa_snapshot *s, FILE *out)
{
    size_t cached = 0, central = 0;

    fprintf(out, "<malloc version=\"salloc-1\">\n<heap nr=\"0\">\n<sizes>\n");
    for (unsigned cls = 1; cls < s->classes; cls++) {
        const struct sa_snapshot_class *c = &s->cls[cls];

        cached += c->cpu_objects + c->transfer_objects + c->quarantine_objects;
        central += c->central_objects;
        if (c->free_objects)
            fprintf(out, "  <size from=\"%zu\" to=\"%zu\" total=\"%zu\" count=\"%zu\"/>\n",
                    cls > 1 ? s->cls[cls - 1].size + 1 : 0, c->size, c->free_objects * c->size,
                    c->free_objects);
    }
    fprintf(out, "</sizes>\n</heap>\n");
    fprintf(out, "<total type=\"fast\" count=\"%zu\" size=\"%zu\"/>\n", cached,
            s->cpu_bytes + s->thread_bytes + s->transfer_bytes + s->quarantine_bytes);
    fprintf(out, "<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n", central,
            s->central_bytes + sa_snapshot_page_heap_free(s));
    fprintf(out, "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n", s->large_blocks,
            s->large_bytes);
    fprintf(out, "<system type=\"current\" size=\"%zu\"/>\n",
            s->heap.mapped_bytes - s->heap.released_bytes);
    fprintf(out, "<aspace type=\"total\" size=\"%zu\"/>\n", s->heap.mapped_bytes);
    return fprintf(out, "</malloc>\n") < 0 ? -1 : 0;
}

/*
 * Writes XML in the shape of glibc's. "fast" is what the caches and the quarantine hold; "rest" is
 * free objects on spans plus free spans. Returns 0, EINVAL if options is not 0, or -1 if writing
 * fails.
 */
SA_EXPORT int malloc_info(int options, FILE *out)
{
    struct sa_snapshot *s;
    int saved = errno, result;

    if (options != 0)
        return EINVAL;
    sa_init();
    s = sa_snapshot_new();
    errno = s ? saved : ENOMEM;
    result = s ? put_info(s, out) : -1;
    sa_snapshot_drop(s);
    return result;
}

/* Writes the stats page to stderr. */
SA_EXPORT void malloc_stats(void)
{
    int saved = errno;

    sa_init();
    sa_report_write(STDERR_FILENO);
    errno = saved;
}
