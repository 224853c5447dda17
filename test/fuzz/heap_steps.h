/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the targets of both page heaps share: a table of spans on the fake system, the
 * checks of a new span, and which action a byte stands for. The target has the actions.
 */
#ifndef SA_TEST_FUZZ_HEAP_STEPS_H
#define SA_TEST_FUZZ_HEAP_STEPS_H

#include "alloc/os/vm.h"
#include "test/fuzz/arena.h"
#include "test/fuzz/fuzz.h"
#include "test/support/start.h"
#include "test/support/fake_system.h"

#define SPANS 400

static struct sa_span *spans[SPANS];
static unsigned count;
static uint64_t now_ns;
static size_t lost; /* pages that the kernel took away when a fresh mapping failed */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    setenv("CMOCKA_TEST_ABORT", "1", 1); /* of the checks that this shares with unit tests */
    test_start_layers();
    if (sa_vm.page_step != 1) {
        fprintf(stderr, "lengths are exact only where the kernel's pages are small\n");
        exit(77);
    }
    fake_begin();
    return 0;
}

static inline void spans_begin(uint64_t seed)
{
    fake_again();
    fuzz_arena_begin(seed);
    count = 0;
    lost = 0;
    now_ns = 1000000000;
}

static inline void faults_end(void)
{
    fake.map_fails = fake.release_fails = 0;
    fake.renew_fails = fake.renew_loses = 0;
    fuzz_arena.fails_after = -1;
}

/* A span that the heap gave out: it is aligned, nobody else's, and zero if that was said; then some
 * of it is written. */
static inline void spans_enter(struct fuzz_input *in, struct sa_span *s, size_t align, uint8_t how)
{
    FUZZ_EQUAL(s->start % (align << SA_PAGE_SHIFT), 0);
    fake_own(s->start, s->pages, true);
    for (size_t i = 0; s->zeroed && i < s->pages; i++)
        FUZZ_CHECK(!(fake.pages[fake_page((void *)s->start) + i] & FAKE_DIRTY));
    if (how & 32)
        fake_touch(s->start, how & 16 ? s->pages : fuzz_below(in, s->pages + 1));
    spans[count++] = s;
}

/* A span leaves the table, to be freed; moved_away: as after a move of its pages. */
static inline void spans_leave(unsigned i, bool moved_away)
{
    struct sa_span *s = spans[i];

    for (size_t k = 0; moved_away && k < s->pages; k++)
        fake.pages[fake_page((void *)s->start) + k] &= (unsigned char)~(FAKE_MEMORY | FAKE_DIRTY);
    fake_own(s->start, s->pages, false);
    fake.giving = s->moved ? s->start : 0;
    spans[i] = spans[--count];
}

/* The faults that both have. */
static inline void faults_set(struct fuzz_input *in, uint8_t which)
{
    fake.map_fails = which & 1 ? fuzz_below(in, 101) : 0;
    fake.release_fails = which & 2 ? fuzz_below(in, 101) : 0;
    fake.renew_loses = which & 4 ? fuzz_below(in, 101) : 0;
    fake.renew_fails = which & 32 ? fuzz_below(in, 101) : 0;
}

/* The target's. */
struct heap_actions {
    void (*take)(struct fuzz_input *in);
    void (*give)(struct fuzz_input *in, unsigned i);
    void (*resize)(struct fuzz_input *in, unsigned i);
    void (*tick)(void);
    void (*other)(struct fuzz_input *in, unsigned what); /* 0 .. 2 */
};

static inline void spans_step(struct fuzz_input *in, const struct heap_actions *actions)
{
    unsigned what = fuzz_byte(in) % 16;

    if (what < 6) {
        actions->take(in);
    } else if (what < 12) {
        if (count)
            (what < 10 ? actions->give : actions->resize)(in, (unsigned)fuzz_below(in, count));
    } else if (what == 12) {
        now_ns += fuzz_number(in, 1 + fuzz_below(in, 5));
        actions->tick();
    } else {
        actions->other(in, what - 13);
    }
}

#endif
