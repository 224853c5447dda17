/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SALLOC_CONF: any string gives options that are in range, and at most so many complaints, which
 * are printable and fit their buffer, whatever its size. An item by itself means the same as in the
 * string, if no later item has its key: the options are those of the items that are understood,
 * taken one by one.
 */
#include "alloc/api/options/options.h"

#include "test/fuzz/fuzz.h"

#include <signal.h>

#define COMPLAINT SA_OPTION_COMPLAINTS_BYTES

static void check_range(const struct sa_options *o, const char *text)
{
    struct sa_options fresh;

    sa_options_default(&fresh);
    FUZZ_CHECK(memchr(o->stats.text, '\0', sizeof(o->stats.text)));
    FUZZ_CHECK(memchr(o->profile.text, '\0', sizeof(o->profile.text)));
    FUZZ_CHECK(strstr(text, o->stats.text) || strcmp(o->stats.text, fresh.stats.text) == 0);
    for (size_t i = 0; i < SA_PROFILES_MAX; i++)
        FUZZ_CHECK(o->profile_type.of[i] <= SALLOC_PROFILE_LIFETIMES);
    FUZZ_CHECK(o->profile_signal >= 0 && o->profile_signal < NSIG);
    FUZZ_CHECK(o->profile_signal != SIGKILL && o->profile_signal != SIGSEGV);
    FUZZ_CHECK(o->cpu_cache <= 1ul << 30 && o->guarded_slots <= 16384);
    FUZZ_CHECK(o->soft_limit <= PTRDIFF_MAX && o->skip_subrelease_interval <= 300);
}

static void check_complaint(const char *complaint, size_t cap)
{
    size_t lines = 0;

    FUZZ_CHECK(memchr(complaint, '\0', cap));
    for (const char *c = complaint; *c; c++) {
        FUZZ_CHECK((*c >= ' ' && *c <= '~') || *c == '\n');
        lines += *c == '\n';
    }
    FUZZ_CHECK(lines <= SA_OPTION_COMPLAINTS + 1);
}

/* The first complaint of items parsed one by one; the options add up in *o. */
static void parse_items(struct sa_options *o, const char *text, char *first)
{
    char *copy = strdup(text), *rest = copy, *item, complaint[COMPLAINT];

    FUZZ_CHECK(copy);
    *first = '\0';
    while ((item = strsep(&rest, ","))) {
        sa_options_parse(o, item, complaint, sizeof(complaint));
        if (!*item)
            FUZZ_CHECK(!*complaint);
        if (!*first)
            strcpy(first, complaint);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sa_options whole, items;
    char *text, *small, complaint[COMPLAINT], first[COMPLAINT];
    size_t cap, n;

    if (size == 0)
        return 0;
    /* The environment is strings: what follows the first zero is not seen. */
    cap = data[0];
    n = strnlen((const char *)data + 1, size - 1);
    text = malloc(n + 1);
    small = malloc(cap ? cap : 1);
    FUZZ_CHECK(text && small);
    memcpy(text, data + 1, n);
    text[n] = '\0';

    memset(&whole, 0, sizeof(whole));
    memset(&items, 0, sizeof(items));
    sa_options_default(&whole);
    sa_options_default(&items);
    sa_options_parse(&whole, text, complaint, sizeof(complaint));
    check_range(&whole, text);
    check_complaint(complaint, sizeof(complaint));
    parse_items(&items, text, first);
    FUZZ_CHECK(memcmp(&whole, &items, sizeof(whole)) == 0);
    FUZZ_CHECK(!*first || *complaint);
    if (!strstr(complaint, "again: ")) /* of which items alone know nothing */
        FUZZ_CHECK(strncmp(complaint, first, strlen(first)) == 0);

    sa_options_parse(&whole, text, small, cap);
    if (cap) {
        check_complaint(small, cap);
        FUZZ_CHECK(strncmp(small, complaint, strlen(small)) == 0 || cap > sizeof(complaint));
    }
    free(text);
    free(small);
    return 0;
}
