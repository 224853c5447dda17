/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequences of calls of the allocation functions, under other names (meson.build renames them),
 * against a list of blocks: alignment, no overlap, contents that stay, zeros of calloc, usable
 * sizes, errno, results of impossible requests, realloc's failure, sized frees. With mappings that
 * fail, sampling of every block, guarded ones and frees by other threads, when the input says so.
 */
#include "alloc/api/replaced.h"
#include "alloc/base/bits.h"
#include "alloc/front/slow_path.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/maintain/maintenance.h"
#include "alloc/maintain/sample_rates.h"
#include "alloc/os/vm.h"
#include "alloc/middle/mixed_spans.h"
#include "sampling/guard/guard_policy.h"
#include "sampling/guard/guarded.h"
#include "sampling/guard/sample_quarantine.h"
#include "sampling/record/live_samples.h"
#include "sampling/sampler/sampler.h"
#include "test/fuzz/fuzz.h"
#include "test/support/faults.h"
#include "test/support/start.h"

#include <errno.h>

#define BLOCKS     128
#define LIVE_MAX   (64ul << 20)
#define GUARD_KEPT (4ul << 20)
#define SENTINEL   12345 /* errno before each call */

void *fuzz_malloc(size_t size);
void fuzz_free(void *p);
void fuzz_free_sized(void *p, size_t size);
void fuzz_free_aligned_sized(void *p, size_t align, size_t size);
void *fuzz_calloc(size_t count, size_t size);
void *fuzz_realloc(void *p, size_t size);
void *fuzz_reallocarray(void *p, size_t count, size_t size);
size_t fuzz_malloc_usable_size(void *p);
void *fuzz_memalign(size_t align, size_t size);
void *fuzz_aligned_alloc(size_t align, size_t size);
int fuzz_posix_memalign(void **ret, size_t align, size_t size);
void *fuzz_valloc(size_t size);
void *fuzz_pvalloc(size_t size);

enum how { MALLOC, ALIGNED, OTHER }; /* which sized free is right */

static struct block {
    uint8_t *p;
    size_t size, usable, align;
    uint8_t seed;
    enum how how;
} blocks[BLOCKS];
static unsigned count;
static size_t live_bytes;
static uint8_t next_seed;

unsigned char sa_init_done;
void sa_init_slow(void);

void sa_init_slow(void)
{
    FUZZ_FAIL("not initialised");
}

/* Nothing is replaced. */
unsigned char sa_replaced_maybe;

bool sa_replaced_malloc(void)
{
    return false;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    test_start_layers();
    sa_sampler_init(0, 1);
    sa_guard_policy_init(1, 2);
    sa_guarded_init(32, 3);
    sa_sample_quarantine_init(GUARD_KEPT, 4);
    test_start(TEST_CACHE_LIMIT);
    sa_init_done = 1;
    return 0;
}

static uint8_t content(uint8_t seed, size_t i)
{
    return (uint8_t)(seed + i * 7 + (i >> 12));
}

/* All of a small block; of a large one its ends, and some hundred bytes between. */
static size_t next_byte(size_t i, size_t n)
{
    size_t step = sa_align_up(n / 512 + 1, 4096);

    if (i < 512 || i + 512 >= n || n < 16384)
        return i + 1;
    return sa_min(sa_align_down(i, 4096) + step, n - 512);
}

static void fill(struct block *b)
{
    b->seed = ++next_seed;
    for (size_t i = 0; i < b->usable; i = next_byte(i, b->usable))
        b->p[i] = content(b->seed, i);
}

static void check_content(const struct block *b, const uint8_t *p, size_t n)
{
    /* The same bytes as were written: n may be less than there are. */
    for (size_t i = 0; i < n && i < b->usable; i = next_byte(i, b->usable))
        if (p[i] != content(b->seed, i))
            FUZZ_FAIL("byte %zu of a block of %zu has changed", i, b->size);
}

static void check_place(const struct block *b)
{
    FUZZ_EQUAL((uintptr_t)b->p % b->align, 0);
    for (unsigned i = 0; i < count; i++)
        if (b->p < blocks[i].p + sa_max(blocks[i].usable, 1) &&
            blocks[i].p < b->p + sa_max(b->usable, 1))
            FUZZ_FAIL("blocks of %zu and %zu bytes overlap", b->size, blocks[i].size);
}

static void add(void *p, size_t size, size_t align, enum how how)
{
    struct block b = {p, size, fuzz_malloc_usable_size(p), align, 0, how};

    FUZZ_EQUAL(errno, SENTINEL);
    FUZZ_CHECK(b.usable >= size);
    check_place(&b);
    fill(&b);
    live_bytes += b.usable;
    blocks[count++] = b;
}

/* Whether a request must fail: no address space has room for it. */
static bool impossible(size_t size, size_t align)
{
    return size > PTRDIFF_MAX || align > PTRDIFF_MAX;
}

/* NULL is right, if the request is impossible or large for what may be had. */
static void check_failure(size_t size, size_t align, int error)
{
    FUZZ_EQUAL(error, ENOMEM);
    FUZZ_CHECK(test_faults.mmap_after == 0 || impossible(size, align) || size + align > 1ul << 40);
}

static size_t pick_size(struct fuzz_input *in)
{
    static const uint16_t edges[] = {0, 16, 128, 1024, 4096, 8192, 16384, 32768};
    uint8_t how = fuzz_byte(in);

    switch (how % 16) {
    case 0:
        return edges[how / 16 % 8] + fuzz_below(in, 3);
    case 1:
        return (size_t)262144 - 8 + fuzz_below(in, 16);
    case 2:
        return fuzz_size(in, 23);
    case 3:
        return fuzz_size(in, 19);
    case 4:
        return how & 16   ? SIZE_MAX - fuzz_number(in, 2)
               : how & 32 ? PTRDIFF_MAX - fuzz_number(in, 2)
                          : (size_t)1 << fuzz_below(in, 64);
    default:
        return fuzz_size(in, 13);
    }
}

/* Not so many bytes that an input takes long. */
static bool too_much(size_t size)
{
    return count == BLOCKS ||
           (!impossible(size, 1) && size < 1ul << 40 && live_bytes + size > LIVE_MAX);
}

static void take(struct fuzz_input *in)
{
    size_t size = pick_size(in), parts = 1;
    void *p;

    if (too_much(size))
        return;
    errno = SENTINEL;
    if (fuzz_byte(in) % 2) {
        p = fuzz_malloc(size);
    } else {
        size_t bytes;

        parts = 1 + fuzz_byte(in) % 4 * fuzz_below(in, 8);
        p = fuzz_calloc(parts, size);
        if (__builtin_mul_overflow(parts, size, &bytes))
            bytes = SIZE_MAX;
        size = bytes;
        for (size_t i = 0; p && i < size; i = next_byte(i, size))
            if (((uint8_t *)p)[i])
                FUZZ_FAIL("byte %zu of %zu of calloc is not zero", i, size);
    }
    if (p)
        add(p, size, SA_MIN_ALIGN, MALLOC);
    else
        check_failure(size, 1, errno);
}

static size_t pick_align(struct fuzz_input *in)
{
    uint8_t how = fuzz_byte(in);
    size_t pow2 = (size_t)1 << (how & 64 ? fuzz_below(in, 22) : fuzz_below(in, 13));

    return how % 16 == 0   ? fuzz_number(in, 2)
           : how % 16 == 1 ? (size_t)1 << fuzz_below(in, 64)
                           : pow2;
}

static void take_aligned(struct fuzz_input *in)
{
    size_t size = pick_size(in), align = pick_align(in), step = sa_vm.page_bytes;
    bool pow2 = align && (align & (align - 1)) == 0;
    void *p = (void *)1;
    int result;

    if (too_much(size) || (align > LIVE_MAX && align < 1ul << 47))
        return;
    errno = SENTINEL;
    switch (fuzz_byte(in) % 5) {
    case 0:
        result = fuzz_posix_memalign(&p, align, size);
        FUZZ_EQUAL(errno, result == ENOMEM ? ENOMEM : SENTINEL); /* as glibc's does */
        if (!pow2 || align % sizeof(void *)) {
            FUZZ_CHECK(result == EINVAL && p == (void *)1);
            return;
        }
        if (result) {
            FUZZ_CHECK(p == (void *)1);
            check_failure(size, align, result);
            return;
        }
        add(p, size, align, OTHER);
        return;
    case 1:
        p = fuzz_memalign(align, size);
        if (!pow2 && align < (size_t)1 << 63)
            for (align = sa_max(align, 1); align & (align - 1);)
                align += align & -align; /* up to the next power of two */
        if (align > (size_t)1 << 63) {
            FUZZ_CHECK(!p && errno == EINVAL);
            return;
        }
        break;
    case 2:
        p = fuzz_valloc(size);
        align = step;
        break;
    case 3:
        p = fuzz_pvalloc(size);
        align = step;
        size = size > SIZE_MAX - step ? size : sa_align_up(sa_max(size, 1), step);
        break;
    default:
        p = fuzz_aligned_alloc(align, size);
        if (!pow2) {
            FUZZ_CHECK(!p && errno == EINVAL);
            return;
        }
        if (p) {
            add(p, size, align, ALIGNED);
            return;
        }
    }
    if (p)
        add(p, size, align, OTHER);
    else
        check_failure(size, align, errno);
}

static void drop(unsigned i)
{
    check_content(&blocks[i], blocks[i].p, blocks[i].usable);
    live_bytes -= blocks[i].usable;
    blocks[i] = blocks[--count];
}

static void give(struct fuzz_input *in, unsigned i)
{
    struct block b = blocks[i];
    uint8_t how = fuzz_byte(in);

    FUZZ_EQUAL(fuzz_malloc_usable_size(b.p), b.usable);
    drop(i);
    errno = SENTINEL;
    if (how % 2 && b.how == MALLOC)
        fuzz_free_sized(b.p, b.size);
    else if (how % 2 && b.how == ALIGNED)
        fuzz_free_aligned_sized(b.p, b.align, b.size);
    else if (how % 8 == 2)
        FUZZ_CHECK(!fuzz_realloc(b.p, 0));
    else
        fuzz_free(b.p);
    FUZZ_EQUAL(errno, SENTINEL);
}

static void resize(struct fuzz_input *in, unsigned i)
{
    struct block b = blocks[i];
    size_t size = pick_size(in), n, parts = 1;
    uint8_t how = fuzz_byte(in);
    void *p;

    if (how % 4 == 0) /* near what it is */
        size = sa_max(b.size + fuzz_number(in, 2), 32768) - 32768;
    if (too_much(size) || (size == 0 && b.size == 0))
        return;
    size = sa_max(size, 1);
    errno = SENTINEL;
    if (how % 8 == 1) {
        parts = 1 + fuzz_below(in, 8);
        p = fuzz_reallocarray(b.p, parts, size);
        size = __builtin_mul_overflow(parts, size, &n) ? SIZE_MAX : n;
    } else {
        p = fuzz_realloc(b.p, size);
    }
    if (!p) {
        check_failure(size, 1, errno);
        FUZZ_EQUAL(fuzz_malloc_usable_size(b.p), b.usable);
        check_content(&b, b.p, b.usable);
        return;
    }
    check_content(&b, p, size);
    live_bytes -= b.usable;
    blocks[i] = blocks[--count];
    add(p, size, SA_MIN_ALIGN, MALLOC);
}

/* One call under faults, or none. */
static void set_faults(struct fuzz_input *in)
{
    test_faults.mmap_after = fuzz_byte(in) % 2 ? (long)fuzz_below(in, 4) : FAULT_NEVER;
}

static void set_sampling(struct fuzz_input *in)
{
    static const int64_t intervals[] = {0, 1, 256, 65536};
    static int64_t now; /* a change stops all CPUs, which takes its time */
    int64_t interval = intervals[fuzz_below(in, 4)];

    if (interval == now || !sa_fork_gate_enter())
        return;
    sa_sample_rates_set_interval(now = interval);
    sa_fork_gate_leave();
}

static void step(struct fuzz_input *in)
{
    switch (fuzz_byte(in) % 16) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
        take(in);
        break;
    case 5:
    case 6:
        take_aligned(in);
        break;
    case 7:
    case 8:
    case 9:
    case 10:
        if (count)
            give(in, (unsigned)fuzz_below(in, count));
        break;
    case 11:
    case 12:
    case 13:
        if (count)
            resize(in, (unsigned)fuzz_below(in, count));
        break;
    case 14:
        set_faults(in);
        break;
    default:
        set_sampling(in);
        sa_mixed_use = fuzz_byte(in) % 2 ? SA_MIXED_ALWAYS : SA_MIXED_AUTO;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};
    struct sa_live_stats live;

    next_seed = 0;
    while (fuzz_left(&in))
        step(&in);
    test_faults_clear();
    while (count)
        give(&in, count - 1);
    FUZZ_EQUAL(live_bytes, 0);
    sa_live_stats(&live);
    FUZZ_EQUAL(live.samples, 0);
    errno = 0;
    fuzz_free(NULL);
    fuzz_free_sized(NULL, 10);
    fuzz_free_aligned_sized(NULL, 64, 10);
    FUZZ_EQUAL(fuzz_malloc_usable_size(NULL), 0);
    in = (struct fuzz_input){NULL, NULL};
    set_sampling(&in);
    return 0;
}
