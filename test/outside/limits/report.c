/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports at the hard limit, when nothing else can be had: in each format, again and again, and
 * several at once up to a bound. What was freed is no more counted, and the limit is what it was
 * for everything else.
 *
 * usage: report
 */
#include "include/salloc/salloc.h"
#include "test/outside/check.h"

#include <errno.h>

#define MIB (1ul << 20)

enum { LIMIT_MIB = 64, ROUNDS = 200, HELD_MAX = 1000 };

/* What salloc.h says, on a machine with fewer than a thousand CPUs, and a little for records. */
#define PAST_MAX (7 * MIB + MIB / 4)

typedef char *get_function(void);

static const char *const names[] = {"salloc_get_stats", "salloc_get_stats_json",
                                    "salloc_get_stats_prometheus", "salloc_get_stats_openmetrics"};

/* Takes all that can be had. */
static void fill(void)
{
    for (size_t size = MIB; size >= 16; size /= 2)
        while (malloc(size))
            ;
}

static void full(void)
{
    for (size_t size = 16; size <= MIB; size *= 4) {
        errno = 0;
        CHECK_SAYS(!malloc(size) && errno == ENOMEM, "%zu bytes", size);
    }
}

/* What stayed behind of each would soon be more than may pass the limit. */
static void again_and_again(get_function *get, const char *name)
{
    for (int i = 0; i < ROUNDS; i++) {
        char *text = get();

        CHECK_SAYS(text && strlen(text) > 1000, "%s, round %d", name, i);
        free(text);
    }
    full();
}

static void held(get_function *get)
{
    static char *texts[HELD_MAX];
    size_t n = 0, used;

    while (n < HELD_MAX && (texts[n] = get()))
        n++;
    used = check_property("generic.physical_memory_used");
    CHECK_SAYS(n >= 4 && n < HELD_MAX, "%zu at once", n);
    CHECK_SAYS(used <= LIMIT_MIB * MIB + PAST_MAX, "%zu bytes", used);
    full();
    while (n)
        free(texts[--n]);
    free(get());
    full();
}

int main(void)
{
    int (*set_limit)(enum salloc_memory_limit, size_t) =
        (int (*)(enum salloc_memory_limit, size_t))dlsym(RTLD_DEFAULT, "salloc_set_memory_limit");
    size_t hits;

    REQUIRE(set_limit && set_limit(SALLOC_HARD_LIMIT, LIMIT_MIB * MIB) == 0);
    fill();
    full();
    hits = check_property("tcmalloc.hard_limit_hits");
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        get_function *get = (get_function *)dlsym(RTLD_DEFAULT, names[i]);
        char *text;

        REQUIRE(get);
        text = get();
        REQUIRE(text);
        free(text);
        CHECK_SAYS(check_property("tcmalloc.hard_limit_hits") == hits, "%s counts as a hit",
                   names[i]);
        again_and_again(get, names[i]);
        held(get);
        hits = check_property("tcmalloc.hard_limit_hits");
    }
    return check_end();
}
