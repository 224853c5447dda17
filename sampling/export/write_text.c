/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the two text formats that the Perl versions of pprof read. A copy of /proc/self/maps lets
 * them find names. Behind the first lines is the summary, in lines that begin with "#", which
 * readers ignore.
 *
 * gperftools' format: the type "heapprofile" tells readers that the numbers are final. The file has
 * salloc's rounded estimates.
 *
 * jemalloc's format: readers take the numbers for raw counts of a sample with the interval T. They
 * multiply the count and the bytes of each stack by 1/(1-exp(-(bytes/count)/T)). The writer inverts
 * that. With the T of the sample, whole numbers would be too coarse: at 1/p = 1000, a count of 3
 * stands for anything from 2500 to 3500. But readers use only the product, so the writer may choose
 * T. With T = 1 the factor differs from 1 by less than 1e-16 from 37 bytes on. For smaller blocks
 * the rounding is carried from stack to stack, so that the totals are exact.
 */
#include "sampling/export/write.h"

#include "alloc/base/fatal.h"
#include "alloc/base/math.h"
#include "alloc/os/own_proc.h"
#include "alloc/os/sys.h"
#include "sampling/export/summary.h"
#include "sampling/export/values.h"
#include "sampling/symbolize/frames.h"

#include <errno.h>
#include <fcntl.h>

static void put_stack(struct sa_sink *out, const struct sa_stack *stack)
{
    sa_sink_string(out, "@");
    for (size_t i = 0; i < sa_frames_depth(stack); i++)
        sa_sink_text(out, " 0x%zx", (size_t)sa_frames_pc(stack, i));
}

static void put_maps(struct sa_sink *out)
{
    int fd = sa_own_proc_open("maps");
    char chunk[4096];
    long n = 0;

    sa_sink_string(out, "\nMAPPED_LIBRARIES:\n");
    while (fd >= 0 && ((n = sa_sys_read(fd, chunk, sizeof(chunk))) > 0 || n == -EINTR))
        if (n > 0)
            sa_sink_put(out, chunk, (size_t)n);
    if (fd >= 0)
        sa_sys_close(fd);
}

struct numbers {
    uint64_t count, bytes, alloc_count, alloc_bytes;
};

/* Returns the numbers of a stack: in use, and ever allocated. Types other than HEAP have zeros for
 * the latter, and readers then show one pair of numbers. */
static struct numbers numbers_of(const struct sa_by_stack *s)
{
    return (struct numbers){s->count, s->bytes, s->alloc_count, s->alloc_bytes};
}

static void put_numbers(struct sa_sink *out, const struct numbers *n)
{
    sa_sink_text(out, "%6llu: %8llu [%6llu: %8llu]", (unsigned long long)n->count,
                 (unsigned long long)n->bytes, (unsigned long long)n->alloc_count,
                 (unsigned long long)n->alloc_bytes);
}

int sa_write_gperftools(const struct sa_profile *profile, struct sa_sink *out)
{
    struct sa_buffer stacks = {NULL, 0, 0};
    struct sa_by_stack all;
    const struct sa_by_stack *stack;
    struct numbers n;
    int failed = sa_values_by_stack(profile, &stacks, &all);

    if (failed)
        return failed;
    n = numbers_of(&all);
    sa_sink_string(out, "heap profile: ");
    put_numbers(out, &n);
    sa_sink_string(out, " @ heapprofile\n");
    sa_summary_put(profile, &all, "# ", out);
    stack = (const struct sa_by_stack *)stacks.data;
    for (size_t i = 0; i < stacks.used / sizeof(*stack); i++) {
        n = numbers_of(&stack[i]);
        put_numbers(out, &n);
        sa_sink_string(out, " ");
        put_stack(out, stack[i].stack);
        sa_sink_string(out, "\n");
    }
    put_maps(out);
    sa_buffer_free(&stacks);
    return 0;
}

/* The sums that a reader has computed so far, minus those that it should have. */
struct carry {
    double count, bytes;
};

/* Returns the reader's factor for a stack, at T = 1. */
static double read_factor(double count, double bytes)
{
    return 1 / -sa_expm1(-bytes / count);
}

/* Readers truncate their sums, which they compute with rounding. The margin is larger than the
 * rounding. */
#define MARGIN 1e-3

/* Returns the smallest number of bytes, for this count, for which the reader's sum is not below
 * salloc's. */
static uint64_t invert_bytes(double count, uint64_t bytes, double carry)
{
    uint64_t low = 1, high = bytes + 1; /* the factor is at least 1 */

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        double b = (double)middle;

        if (b * read_factor(count, b) + carry < (double)bytes + MARGIN)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Replaces the numbers of a stack by those from which readers compute them, and updates the carry.
 */
static void invert(uint64_t *count, uint64_t *bytes, struct carry *carry)
{
    double c = (double)*count, b = (double)*bytes, factor, min;

    if (!*count || !*bytes) { /* readers divide by the bytes of a stack with a count */
        *count = 0;
        return;
    }
    factor = read_factor(c, b);
    if (factor == 1.0)
        return;
    min = (c + MARGIN - carry->count) / factor;
    *count = min > 0 ? (uint64_t)min + 1 : 1;
    *bytes = invert_bytes((double)*count, *bytes, carry->bytes);
    factor = read_factor((double)*count, (double)*bytes);
    carry->count += (double)*count * factor - c;
    carry->bytes += (double)*bytes * factor - b;
    SA_DCHECK(carry->bytes >= 0);
}

static void put_thread(struct sa_sink *out, const struct numbers *n)
{
    sa_sink_text(out, "  t*: %llu: %llu [%llu: %llu]\n", (unsigned long long)n->count,
                 (unsigned long long)n->bytes, (unsigned long long)n->alloc_count,
                 (unsigned long long)n->alloc_bytes);
}

int sa_write_jeprof(const struct sa_profile *profile, struct sa_sink *out)
{
    struct sa_buffer stacks = {NULL, 0, 0};
    struct carry carry = {0, 0}, alloc_carry = {0, 0};
    struct sa_by_stack *stack;
    struct numbers all = {0, 0, 0, 0}, n;
    struct sa_by_stack said;
    int failed = sa_values_by_stack(profile, &stacks, &said);
    size_t count;

    if (failed)
        return failed;
    stack = (struct sa_by_stack *)stacks.data;
    count = stacks.used / sizeof(*stack);
    for (size_t i = 0; i < count; i++) {
        invert(&stack[i].count, &stack[i].bytes, &carry);
        invert(&stack[i].alloc_count, &stack[i].alloc_bytes, &alloc_carry);
        all.count += stack[i].count;
        all.bytes += stack[i].bytes;
        all.alloc_count += stack[i].alloc_count;
        all.alloc_bytes += stack[i].alloc_bytes;
    }
    sa_sink_string(out, "heap_v2/1\n");
    put_thread(out, &all);
    sa_summary_put(profile, &said, "# ", out);
    for (size_t i = 0; i < count; i++) {
        put_stack(out, stack[i].stack);
        sa_sink_string(out, "\n");
        n = numbers_of(&stack[i]);
        put_thread(out, &n);
    }
    put_maps(out);
    sa_buffer_free(&stacks);
    return 0;
}
