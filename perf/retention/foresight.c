/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of a rule that knows the future, for given places; see foresight.h. */
#include "perf/retention/foresight.h"

#include "alloc/base/bits.h"
#include "alloc/policy/retention.h"

#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGES 256
#define SPACE      (2 * SA_HOME_PAGES) /* the heap begins in the home window */

double foresight_ns;

static struct place {
    uint64_t since_ns; /* when it was given; 0: never used */
    uint64_t whole_ns; /* of that, the longest time in which its hugepage was free */
} * places;

static struct huge {
    uint64_t since_ns; /* when its last page was given */
    uint32_t used;
} * huges;

static void *zeroed(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);

    if (p == MAP_FAILED)
        abort();
    return p;
}

void foresight_begin(void)
{
    places = zeroed(SPACE * sizeof(*places));
    huges = zeroed(SPACE / HUGE_PAGES * sizeof(*huges));
}

static size_t place_of(uintptr_t start)
{
    size_t page = (start - SA_HOME_START) >> SA_PAGE_SHIFT;

    if (page >= SPACE)
        abort();
    return page;
}

/* The hugepage is in use again. */
static void end_whole(size_t huge, uint64_t now_ns)
{
    struct place *p = &places[huge * HUGE_PAGES];

    for (int i = 0; i < HUGE_PAGES; i++)
        p[i].whole_ns = sa_max(p[i].whole_ns, now_ns - huges[huge].since_ns);
}

static double cost_of(const struct place *p, uint64_t now_ns)
{
    double stay = (double)(now_ns - p->since_ns) / 1e9 * SA_HOLD_NS;
    double whole = stay - (double)p->whole_ns / 1e9 * SA_HOLD_NS + SA_PRICE_WHOLE_NS;

    if (!p->since_ns)
        return SA_PRICE_WHOLE_NS;
    if (p->whole_ns && whole < stay)
        stay = whole;
    return stay < SA_PRICE_INSIDE_NS ? stay : SA_PRICE_INSIDE_NS;
}

void foresight_take(uintptr_t start, size_t pages, uint64_t now_ns)
{
    for (size_t i = place_of(start), end = i + pages; i < end; i++) {
        struct huge *h = &huges[i / HUGE_PAGES];

        if (h->used++ == 0 && h->since_ns)
            end_whole(i / HUGE_PAGES, now_ns);
        foresight_ns += cost_of(&places[i], now_ns);
        places[i].whole_ns = 0;
    }
}

void foresight_give(uintptr_t start, size_t pages, uint64_t now_ns)
{
    for (size_t i = place_of(start), end = i + pages; i < end; i++) {
        places[i] = (struct place){now_ns, 0};
        if (--huges[i / HUGE_PAGES].used == 0)
            huges[i / HUGE_PAGES].since_ns = now_ns;
    }
}
