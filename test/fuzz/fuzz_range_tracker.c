/* SPDX-License-Identifier: Apache-2.0 */
/* Bitmaps of pages against arrays of booleans: which run is chosen, and every count. */
#include "alloc/page_heap/huge/range_tracker.h"

#include "test/fuzz/fuzz.h"

#define PAGES_MAX 1024
#define HELD_MAX  512

static bool model[PAGES_MAX];
static struct sa_range_tracker tracker;
static struct {
    uint32_t at, n;
} held[HELD_MAX];
static unsigned count;

static uint32_t run_end(uint32_t at)
{
    uint32_t end = at;

    while (end < tracker.pages && model[end] == model[at])
        end++;
    return end;
}

static long model_find(uint32_t n, uint32_t align)
{
    uint32_t best = UINT32_MAX;
    long found = -1;

    for (uint32_t at = 0, end; at < tracker.pages; at = end) {
        uint32_t first = (at + align - 1) / align * align;

        end = run_end(at);
        if (!model[at] && first + n <= end && end - at < best) {
            best = end - at;
            found = first;
        }
    }
    return found;
}

static void check(void)
{
    uint32_t taken = 0, longest = 0;

    for (uint32_t at = 0, end; at < tracker.pages; at = end) {
        end = run_end(at);
        FUZZ_EQUAL(sa_bits_next(tracker.words, tracker.pages, at, !model[at]), end);
        FUZZ_EQUAL(sa_bits_next(tracker.words, tracker.pages, at, model[at]), at);
        FUZZ_EQUAL(sa_bits_count(tracker.words, at, end - at), model[at] ? end - at : 0);
        FUZZ_EQUAL(sa_range_is_free(&tracker, at, end - at), !model[at]);
        FUZZ_CHECK(!sa_range_is_free(&tracker, at, end - at + 1));
        taken += model[at] ? end - at : 0;
        if (!model[at] && end - at > longest)
            longest = end - at;
    }
    FUZZ_EQUAL(tracker.taken, taken);
    FUZZ_EQUAL(tracker.longest, longest);
    FUZZ_EQUAL(tracker.allocations, count);
}

static void hold(uint32_t at, uint32_t n)
{
    memset(&model[at], true, n);
    held[count].at = at;
    held[count++].n = n;
}

static void take(struct fuzz_input *in)
{
    uint32_t n = (uint32_t)fuzz_size(in, 10), align = 1u << fuzz_below(in, 8), at;
    long expect, got;

    if (n > tracker.pages || count == HELD_MAX)
        return;
    if (fuzz_byte(in) % 4) {
        expect = model_find(n, align);
        got = sa_range_alloc(&tracker, n, align);
        FUZZ_EQUAL(got, expect);
        if (got >= 0)
            hold((uint32_t)got, n);
        return;
    }
    at = (uint32_t)fuzz_below(in, tracker.pages);
    if (tracker.taken == 0 && at % 2) {
        sa_range_take_first(&tracker, n);
        hold(0, n);
    } else if (sa_range_is_free(&tracker, at, n)) {
        FUZZ_CHECK(at + n <= tracker.pages && !memchr(&model[at], true, n));
        sa_range_take(&tracker, at, n, true);
        hold(at, n);
    } else {
        FUZZ_CHECK(at + n > tracker.pages || memchr(&model[at], true, n));
    }
}

static void give(struct fuzz_input *in)
{
    unsigned i = (unsigned)fuzz_below(in, count);
    uint32_t at = held[i].at, n = held[i].n, keep = (uint32_t)fuzz_below(in, n);

    if (keep && fuzz_byte(in) % 2) { /* the end of it */
        sa_range_put(&tracker, at + keep, n - keep, false);
        memset(&model[at + keep], false, n - keep);
        held[i].n = keep;
    } else {
        sa_range_put(&tracker, at, n, true);
        memset(&model[at], false, n);
        held[i] = held[--count];
    }
}

static void lengthen(struct fuzz_input *in)
{
    unsigned i = (unsigned)fuzz_below(in, count);
    uint32_t end = held[i].at + held[i].n, n = 1 + (uint32_t)fuzz_below(in, 100);

    if (!sa_range_is_free(&tracker, end, n))
        return;
    FUZZ_CHECK(end + n <= tracker.pages && !memchr(&model[end], true, n));
    sa_range_take(&tracker, end, n, false);
    memset(&model[end], true, n);
    held[i].n += n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};
    uint32_t pages = 64 * (1 + (uint32_t)fuzz_below(&in, PAGES_MAX / 64));
    /* Exactly as long as it has to be. */
    uint64_t *words = calloc(pages / 64, sizeof(*words));

    FUZZ_CHECK(words);
    memset(model, 0, sizeof(model));
    count = 0;
    sa_range_init(&tracker, words, pages);
    while (fuzz_left(&in)) {
        unsigned what = fuzz_byte(&in) % 8;

        if (!count || what < 4)
            take(&in);
        else if (what < 7)
            give(&in);
        else
            lengthen(&in);
        check();
    }
    free(words);
    return 0;
}
