/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filler against arrays that say of each page whether it is taken, free or unbacked: what is
 * given out and of which hugepage, what is released, what the sums are, tails of large spans, and
 * decisions not to release.
 */
#include "alloc/page_heap/huge/huge_filler.h"

#include "test/fuzz/fuzz.h"

#define HUGEPAGES 16
#define SPANS     512

enum page { FREE, CLEAR, TAKEN };

static struct sa_huge_filler filler;
static struct sa_huge_tracker trackers[HUGEPAGES];
static struct {
    bool in, eager;
    unsigned char page[SA_HUGE_PAGES];
} model[HUGEPAGES];
static struct {
    unsigned hugepage;
    uint32_t at, n;
} spans[SPANS];
static unsigned count;
static uint64_t now_ns;

static void set(unsigned hugepage, uint32_t at, uint32_t n, bool taken, enum page to)
{
    for (uint32_t i = at; i < at + n; i++) {
        FUZZ_CHECK((model[hugepage].page[i] == TAKEN) == taken);
        model[hugepage].page[i] = (unsigned char)to;
    }
}

static uint32_t count_of(unsigned hugepage, enum page what)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < SA_HUGE_PAGES; i++)
        n += model[hugepage].page[i] == what;
    return n;
}

static uint32_t backed_of(unsigned h)
{
    return count_of(h, FREE) +
           (model[h].eager && !trackers[h].subreleased ? count_of(h, CLEAR) : 0);
}

static void check(void)
{
    static struct sa_huge_filler_stats s;
    static struct sa_span_ages ages;
    size_t in = 0, pages[3] = {0}, kinds = 0, histogram = 0, backed = 0, counted = 0;

    for (unsigned h = 0; h < HUGEPAGES; h++) {
        uint32_t n[3];

        if (!model[h].in)
            continue;
        in++;
        for (int what = FREE; what <= TAKEN; what++)
            pages[what] += n[what] = count_of(h, what);
        FUZZ_EQUAL(trackers[h].range.taken, n[TAKEN]);
        FUZZ_EQUAL(trackers[h].unbacked_pages, n[CLEAR]);
        FUZZ_EQUAL(sa_huge_tracker_backed(&trackers[h]), backed_of(h));
        backed += backed_of(h);
    }
    memset(&s, 0, sizeof(s));
    memset(&ages, 0, sizeof(ages));
    sa_huge_filler_report(&filler, &s);
    for (unsigned h = 0; h < HUGEPAGES; h++)
        if (model[h].in)
            sa_huge_filler_count(&filler, &trackers[h], &s, &ages);
    FUZZ_EQUAL(s.hugepages, in);
    FUZZ_EQUAL(s.used_pages, pages[TAKEN]);
    FUZZ_EQUAL(s.free_pages, backed);
    FUZZ_EQUAL(s.free_pages + s.unmapped_pages, pages[FREE] + pages[CLEAR]);
    FUZZ_EQUAL(s.used_hugepageable + s.used_in_released, pages[TAKEN]);
    FUZZ_EQUAL(s.full + s.partial + s.released, in);
    FUZZ_EQUAL(s.unmapped_in_released, filler.unbacked_pages[1]);
    FUZZ_CHECK(s.unmapped_in_released + s.used_in_released <= s.released * SA_HUGE_PAGES);
    for (int kind = 0; kind < SA_HUGE_KINDS; kind++) {
        kinds += filler.kinds[kind];
        for (int b = 0; b < SA_HUGE_BUCKETS; b++)
            histogram += s.kind[kind].free_pages[b];
    }
    FUZZ_EQUAL(kinds, in);
    FUZZ_EQUAL(histogram, in);
    for (int i = 0; i < SA_AGE_LENGTHS; i++)
        counted += ages.backed[i].pages + ages.released[i].pages;
    FUZZ_EQUAL(counted, pages[FREE] + pages[CLEAR]);
    FUZZ_CHECK(s.min_free_pages <= s.free_pages + s.unmapped_pages);
    FUZZ_CHECK(s.min_free_backed_pages <= s.free_pages);
    FUZZ_CHECK(s.peak_demand.used_pages >= s.used_pages);
    FUZZ_CHECK(filler.low_water <= backed);
}

static unsigned chunk(uint32_t allocations)
{
    static const uint32_t max[] = {64, 32, 16, 8, 4, 2, 1};

    for (unsigned i = 7; i > 0; i--)
        if (allocations <= max[i - 1])
            return i;
    return 0;
}

/* Where a hugepage stands in the order in which they are filled; UINT32_MAX: it cannot serve. */
static uint32_t rank(unsigned h, uint32_t n, bool dense)
{
    const struct sa_huge_tracker *t = &trackers[h];
    unsigned kind;

    if (!model[h].in || t->range.longest < n || (t->donated ? dense : t->dense != dense))
        return UINT32_MAX;
    kind = !t->subreleased ? t->donated : backed_of(h) ? 2 : 3;
    return kind * 10000 + t->range.longest * 8 + chunk(t->range.allocations);
}

static void remember(unsigned hugepage, uint32_t at, uint32_t n)
{
    spans[count].hugepage = hugepage;
    spans[count].at = at;
    spans[count++].n = n;
}

/* A hugepage more, with one span on it. */
static void add(struct fuzz_input *in, uint32_t n, bool dense)
{
    uint8_t how = fuzz_byte(in);
    uint32_t unbacked_from = how % 4 ? 0 : (uint32_t)fuzz_below(in, SA_HUGE_PAGES + 1);
    bool donated = !dense && fuzz_byte(in) % 4 == 0 && n < SA_HUGE_PAGES, all_clear = true;
    unsigned h = 0;

    while (h < HUGEPAGES && model[h].in)
        h++;
    if (h == HUGEPAGES)
        return;
    sa_huge_filler_prepare(&trackers[h], h, unbacked_from, how & 64);
    model[h].in = true;
    model[h].eager = how & 64;
    for (uint32_t i = 0; i < SA_HUGE_PAGES; i++)
        model[h].page[i] = i < unbacked_from ? FREE : CLEAR;
    for (uint32_t i = 0; i < n; i++)
        all_clear = all_clear && model[h].page[i] == CLEAR;
    FUZZ_EQUAL(sa_huge_filler_add(&filler, &trackers[h], n, donated, dense), all_clear);
    if (donated)
        sa_huge_filler_set_tail(&filler, &trackers[h], n);
    set(h, 0, n, false, TAKEN);
    remember(h, 0, n);
}

static void take(struct fuzz_input *in)
{
    uint32_t n = (uint32_t)fuzz_size(in, 8), align = 1u << fuzz_below(in, 8);
    bool dense = fuzz_byte(in) % 2, all_clear = true;
    uint32_t best = UINT32_MAX, before[HUGEPAGES];
    struct sa_filler_place place;
    size_t backed;
    unsigned h;

    if (count == SPANS)
        return;
    align = n + align <= SA_HUGE_PAGES ? align : 1;
    for (h = 0; h < HUGEPAGES; h++) {
        before[h] = rank(h, n, dense);
        best = before[h] < best ? before[h] : best;
    }
    place = sa_huge_filler_find(&filler, n, align, dense);
    if (!place.tracker) {
        FUZZ_CHECK(align > 1 || best == UINT32_MAX);
        add(in, n, dense);
        return;
    }
    h = (unsigned)place.tracker->hugepage;
    FUZZ_CHECK(align > 1 ? before[h] != UINT32_MAX : before[h] == best);
    FUZZ_EQUAL(place.at % align, 0);
    for (uint32_t i = 0; i < n; i++)
        all_clear = all_clear && model[h].page[place.at + i] == CLEAR;
    FUZZ_EQUAL(place.zero, all_clear);
    if (fuzz_byte(in) % 8 == 0) {
        sa_huge_filler_cancel(&place);
        return;
    }
    backed = sa_huge_filler_backed(&filler) + filler.taken_pages;
    sa_huge_filler_commit(&filler, &place, dense);
    FUZZ_EQUAL(sa_huge_filler_backed(&filler) + filler.taken_pages, backed + place.grows);
    set(h, place.at, n, false, TAKEN);
    remember(h, place.at, n);
}

static void drop(unsigned h)
{
    FUZZ_EQUAL(count_of(h, TAKEN), 0);
    sa_huge_filler_remove(&filler, &trackers[h]);
    model[h].in = false;
}

static void give(struct fuzz_input *in, unsigned i)
{
    unsigned h = spans[i].hugepage;
    bool unbacked = fuzz_byte(in) % 4 == 0;

    set(h, spans[i].at, spans[i].n, true, unbacked ? CLEAR : FREE);
    if (spans[i].at == 0 && trackers[h].tail_pages)
        sa_huge_filler_abandon(&filler, &trackers[h]);
    if (sa_huge_filler_put(&filler, &trackers[h], spans[i].at, spans[i].n, unbacked))
        drop(h);
    else
        FUZZ_CHECK(count_of(h, TAKEN) > 0);
    spans[i] = spans[--count];
}

static void resize(struct fuzz_input *in, unsigned i)
{
    unsigned h = spans[i].hugepage;
    uint32_t end = spans[i].at + spans[i].n, more = 1 + (uint32_t)fuzz_below(in, 40);

    if (spans[i].at == 0 && trackers[h].tail_pages)
        return; /* the heap does not */
    if (fuzz_byte(in) % 2) {
        bool room = end + more <= SA_HUGE_PAGES;

        for (uint32_t k = end; room && k < end + more; k++)
            room = model[h].page[k] != TAKEN;
        FUZZ_EQUAL(sa_huge_filler_extend(&filler, &trackers[h], end, more), room);
        if (room) {
            set(h, end, more, false, TAKEN);
            spans[i].n += more;
        }
    } else if (spans[i].n > more) {
        bool unbacked = fuzz_byte(in) % 4 == 0;

        sa_huge_filler_trim(&filler, &trackers[h], end - more, more, unbacked);
        set(h, end - more, more, true, unbacked ? CLEAR : FREE);
        spans[i].n -= more;
    }
}

/* Whether the run of free pages with this one has a backed page. */
static bool run_has_free(unsigned h, uint32_t page)
{
    uint32_t at = page;

    while (at > 0 && (model[h].page[at - 1] == FREE || model[h].page[at - 1] == CLEAR))
        at--;
    while (at < SA_HUGE_PAGES && model[h].page[at] == CLEAR)
        at++;
    return at < SA_HUGE_PAGES && model[h].page[at] == FREE;
}

static void release(struct fuzz_input *in)
{
    struct sa_filler_release r;
    struct sa_filler_least least = {.subreleased = 1 + (uint32_t)fuzz_below(in, 40),
                                    .other = (uint32_t)fuzz_below(in, 200)};
    uint32_t max[2] = {0, 0}, backed = 0, released = 0;
    uint64_t done[SA_HUGE_WORDS] = {0};
    unsigned good = fuzz_byte(in); /* so many pages the kernel takes */
    bool can, eager, empty;
    unsigned h, subreleased;

    for (h = 0; h < HUGEPAGES; h++)
        if (model[h].in && backed_of(h) > max[trackers[h].subreleased])
            max[trackers[h].subreleased] = backed_of(h);
    can = sa_huge_filler_can_release(&filler, least);
    FUZZ_EQUAL(sa_huge_filler_begin(&filler, least, &r), can);
    if (!can) { /* the best is found to within its bucket */
        FUZZ_CHECK(max[1] < least.subreleased + 8 && max[0] < least.other + 8);
        return;
    }
    h = (unsigned)r.tracker->hugepage;
    eager = model[h].eager && !trackers[h].subreleased;
    subreleased = trackers[h].subreleased;
    FUZZ_CHECK(subreleased || max[1] < least.subreleased + 8);
    for (uint32_t i = 0; i < SA_HUGE_PAGES; i++) {
        bool gives = model[h].page[i] == FREE || (eager && model[h].page[i] == CLEAR);
        bool moves = gives || (model[h].page[i] == CLEAR && run_has_free(h, i));

        FUZZ_EQUAL(r.backed[i / 64] >> i % 64 & 1, gives);
        FUZZ_EQUAL(r.mask[i / 64] >> i % 64 & 1, moves);
        backed += gives;
    }
    for (uint32_t i = 0; i < SA_HUGE_PAGES; i++) {
        if (!(r.mask[i / 64] >> i % 64 & 1))
            continue;
        if (eager)
            model[h].page[i] = FREE;
        if (good) {
            good -= good < 255;
            done[i / 64] |= 1ull << i % 64;
            released += model[h].page[i] == FREE;
            model[h].page[i] = CLEAR;
        }
    }
    FUZZ_EQUAL(backed / 8, max[subreleased] / 8);
    FUZZ_CHECK(backed >= (subreleased ? least.subreleased : least.other));
    /* While pages move, others are freed and none of those is given out. */
    if (count && fuzz_byte(in) % 2) {
        unsigned i = (unsigned)fuzz_below(in, count);

        if (spans[i].hugepage != h)
            give(in, i);
    }
    FUZZ_EQUAL(sa_huge_filler_end(&filler, &r, done, &empty), released);
    if (empty)
        drop(h);
    else if (fuzz_byte(in) % 4 == 0)
        trackers[h].no_hugepages = true;
}

static void make_whole(void)
{
    struct sa_huge_tracker *t = sa_huge_filler_next_full(&filler);

    if (!t)
        return;
    FUZZ_CHECK(model[t->hugepage].in && !t->queued);
    sa_huge_filler_collapsed(&filler, t);
    model[t->hugepage].eager = true;
    for (uint32_t i = 0; i < SA_HUGE_PAGES; i++)
        if (model[t->hugepage].page[i] == CLEAR)
            model[t->hugepage].page[i] = FREE;
}

static void set_eager(bool eager)
{
    for (unsigned h = 0; h < HUGEPAGES && filler.eager != eager; h++)
        model[h].eager = eager;
    sa_huge_filler_set_eager(&filler, eager);
}

static void step(struct fuzz_input *in)
{
    switch (fuzz_byte(in) % 16) {
    case 0:
        release(in);
        break;
    case 1:
        make_whole();
        break;
    case 2:
        sa_huge_filler_tick(&filler, now_ns += fuzz_number(in, 1 + fuzz_below(in, 6)));
        break;
    case 3:
        set_eager(fuzz_byte(in) % 2);
        break;
    case 4:
    case 5:
    case 6:
        if (count)
            resize(in, (unsigned)fuzz_below(in, count));
        break;
    case 7:
    case 8:
    case 9:
    case 10:
        if (count)
            give(in, (unsigned)fuzz_below(in, count));
        break;
    default:
        take(in);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};
    uint8_t how = fuzz_byte(&in);

    memset(&filler, 0, sizeof(filler));
    memset(model, 0, sizeof(model));
    count = 0;
    sa_huge_filler_init(&filler);
    sa_huge_filler_set_eager(&filler, how & 8);
    sa_huge_filler_tick(&filler, now_ns = 7000000000);
    while (fuzz_left(&in)) {
        step(&in);
        check();
    }
    while (count) {
        give(&in, count - 1);
        check();
    }
    FUZZ_EQUAL(filler.hugepages, 0);
    FUZZ_EQUAL(filler.taken_pages, 0);
    FUZZ_EQUAL(filler.unbacked_pages[0] + filler.unbacked_pages[1] + filler.unbacked_pages[2], 0);
    FUZZ_EQUAL(filler.tail_pages + filler.abandoned_pages, 0);
    return 0;
}
