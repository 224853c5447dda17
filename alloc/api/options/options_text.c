/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of SALLOC_CONF and their values as text; see options_text.h. */
#include "alloc/api/options/options_text.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/hardening/quarantine.h"
#include "sampling/guard/guarded.h"

#include <signal.h>
#include <string.h>

/* A text that does not fit, its end included, does not compile: it would be cut. */
#define SA_OPTION(id, kind, value, min, max, text)                                                 \
    SA_STATIC_ASSERT(sizeof(#id) <= sizeof(((struct sa_option_info *)0)->key) &&                   \
                         sizeof(text) <= sizeof(((struct sa_option_info *)0)->help),               \
                     "longer than the arrays of struct sa_option_info: " #id);
#include "alloc/api/options/options.def"
#undef SA_OPTION

#define SA_OPTION(key, kind, value, min, max, help)                                                \
    {SA_OPTION_##kind, offsetof(struct sa_options, key), min, max, #key, help},
const struct sa_option_info sa_option_infos[SA_OPTIONS] = {
#include "alloc/api/options/options.def"
};
#undef SA_OPTION

/* The words of values. If a value has several, reports and help show the first. */
static const struct {
    unsigned char kind, value;
    char word[14];
} words[] = {
    {SA_OPTION_flag, 1, "on"},
    {SA_OPTION_flag, 1, "true"},
    {SA_OPTION_flag, 1, "1"},
    {SA_OPTION_flag, 0, "off"},
    {SA_OPTION_flag, 0, "false"},
    {SA_OPTION_flag, 0, "0"},
    {SA_OPTION_types, SALLOC_PROFILE_HEAP, "heap"},
    {SA_OPTION_types, SALLOC_PROFILE_FRAGMENTATION, "fragmentation"},
    {SA_OPTION_types, SALLOC_PROFILE_PEAK_HEAP, "peak"},
    {SA_OPTION_types, SALLOC_PROFILE_ALLOCATIONS, "allocation"},
    {SA_OPTION_types, SALLOC_PROFILE_LIFETIMES, "lifetime"},
    {SA_OPTION_types, SALLOC_PROFILE_EVENTS, "events"},
    {SA_OPTION_hugepages, SA_HUGEPAGES_AUTO, "auto"},
    {SA_OPTION_hugepages, SA_HUGEPAGES_OFF, "off"},
    {SA_OPTION_hugepages, SA_HUGEPAGES_ALWAYS, "always"},
    {SA_OPTION_mixed, SA_MIXED_AUTO, "auto"},
    {SA_OPTION_mixed, SA_MIXED_AUTO, "on"},
    {SA_OPTION_mixed, SA_MIXED_OFF, "off"},
    {SA_OPTION_mixed, SA_MIXED_ALWAYS, "always"},
    {SA_OPTION_hardening, SA_HARDENING_OFF, "off"},
    {SA_OPTION_hardening, SA_HARDENING_OFF, "false"},
    {SA_OPTION_hardening, SA_HARDENING_OFF, "0"},
    {SA_OPTION_hardening, SA_HARDENING_SAMPLED, "sampled"},
    {SA_OPTION_hardening, SA_HARDENING_ON, "on"},
    {SA_OPTION_hardening, SA_HARDENING_ON, "true"},
    {SA_OPTION_hardening, SA_HARDENING_ON, "1"},
    {SA_OPTION_thread, SA_THREAD_AUTO, "auto"},
    {SA_OPTION_thread, SA_THREAD_OFF, "off"},
    {SA_OPTION_thread, SA_THREAD_OFF, "false"},
    {SA_OPTION_thread, SA_THREAD_OFF, "0"},
    {SA_OPTION_thread, SA_THREAD_ON, "on"},
    {SA_OPTION_thread, SA_THREAD_ON, "true"},
    {SA_OPTION_thread, SA_THREAD_ON, "1"},
    {SA_OPTION_junk, SA_JUNK_ALLOC, "alloc"},
    {SA_OPTION_junk, SA_JUNK_FREE, "free"},
    {SA_OPTION_junk, SA_JUNK_BOTH, "on"},
    {SA_OPTION_junk, SA_JUNK_BOTH, "true"},
    {SA_OPTION_junk, SA_JUNK_BOTH, "1"},
    {SA_OPTION_junk, SA_JUNK_NONE, "off"},
    {SA_OPTION_junk, SA_JUNK_NONE, "false"},
    {SA_OPTION_junk, SA_JUNK_NONE, "0"},
    {SA_OPTION_signal, SIGUSR1, "USR1"},
    {SA_OPTION_signal, SIGUSR2, "USR2"},
    {SA_OPTION_signal, SIGHUP, "HUP"},
    {SA_OPTION_signal, SIGPROF, "PROF"},
    {SA_OPTION_signal, SIGALRM, "ALRM"},
    {SA_OPTION_signal, SIGQUIT, "QUIT"},
    {SA_OPTION_signal, SIGWINCH, "WINCH"},
    {SA_OPTION_signal, SIGURG, "URG"},
    {SA_OPTION_percent, 0, "off"},
};

#define WORDS (sizeof(words) / sizeof(words[0]))

int sa_option_word(enum sa_option_kind kind, const char *word, size_t len)
{
    for (size_t i = 0; i < WORDS; i++)
        if (words[i].kind == kind && strlen(words[i].word) == len &&
            memcmp(words[i].word, word, len) == 0)
            return words[i].value;
    return -1;
}

/* The bytes of an option's field in struct sa_options. */
static size_t field_bytes(enum sa_option_kind kind)
{
    switch (kind) {
    case SA_OPTION_flag:
        return sizeof(sa_option_flag);
    case SA_OPTION_signal:
    case SA_OPTION_percent:
    case SA_OPTION_hugepages:
    case SA_OPTION_mixed:
    case SA_OPTION_hardening:
    case SA_OPTION_thread:
    case SA_OPTION_junk:
        return sizeof(int);
    default:
        return sizeof(uint64_t);
    }
}

_Static_assert(sizeof(sa_option_types) == 8 && sizeof(sa_option_hugepages) == sizeof(int) &&
                   sizeof(sa_option_mixed) == sizeof(int) &&
                   sizeof(sa_option_hardening) == sizeof(int) &&
                   sizeof(sa_option_thread) == sizeof(int) &&
                   sizeof(sa_option_junk) == sizeof(int) && sizeof(sa_option_size) == 8,
               "field_bytes");

/* Copies the lowest bytes of the value. Both architectures are little-endian. */
uint64_t sa_option_load(const struct sa_option_info *info, const struct sa_options *options)
{
    uint64_t value = 0;

    memcpy(&value, (const char *)options + info->offset, field_bytes(info->kind));
    return value;
}

void sa_option_store(const struct sa_option_info *info, struct sa_options *options, uint64_t value)
{
    memcpy((char *)options + info->offset, &value, field_bytes(info->kind));
}

/* Adds a number in the shortest form that the parser understands. */
static void add_size(struct sa_fmt *f, uint64_t bytes)
{
    static const char suffixes[] = {'k', 'm', 'g'};
    int i = -1;

    while (bytes && bytes % 1024 == 0 && i < 2) {
        bytes /= 1024;
        i++;
    }
    sa_fmt_add(f, "%llu", (unsigned long long)bytes);
    if (i >= 0)
        sa_fmt_add(f, "%c", suffixes[i]);
}

void sa_option_add_value(struct sa_fmt *f, const struct sa_option_info *info, uint64_t value)
{
    for (size_t i = 0; i < WORDS; i++) {
        if (words[i].kind == info->kind && words[i].value == value) {
            sa_fmt_add(f, "%s", words[i].word);
            return;
        }
    }
    if (info->kind == SA_OPTION_size)
        add_size(f, value);
    else if (info->kind == SA_OPTION_signal && !value)
        sa_fmt_add(f, "none");
    else
        sa_fmt_add(f, "%llu", (unsigned long long)value);
}

/* Adds the words of a kind, one for each value. */
static void add_words(struct sa_fmt *f, enum sa_option_kind kind)
{
    const char *between = "";

    for (size_t i = 0; i < WORDS; i++) {
        if (words[i].kind != kind ||
            (i && words[i - 1].kind == kind && words[i - 1].value == words[i].value))
            continue;
        sa_fmt_add(f, "%s%s", between, words[i].word);
        between = ", ";
    }
}

void sa_option_add_allowed(struct sa_fmt *f, const struct sa_option_info *info)
{
    switch (info->kind) {
    case SA_OPTION_path:
        sa_fmt_add(f, "a path of up to %d characters", SA_OPTION_PATH_MAX - 1);
        /* Reports of misuse go to stderr in any case, and to a file that has a name. */
        if (info->offset != offsetof(struct sa_options, report))
            sa_fmt_add(f, ", stderr, stdout or fd:N");
        return;
    case SA_OPTION_signal:
        sa_fmt_add(f, "RTMIN+N, RTMAX-N, a number, ");
        break;
    case SA_OPTION_percent:
        sa_fmt_add(f, "on, off or a percentage");
        break;
    case SA_OPTION_size:
        sa_fmt_add(f, "bytes, with k, m or g,");
        break;
    case SA_OPTION_seconds:
        sa_fmt_add(f, "seconds");
        break;
    case SA_OPTION_number:
        sa_fmt_add(f, "a number");
        break;
    default:
        break;
    }
    if (info->max) {
        sa_fmt_add(f, " from ");
        add_size(f, info->min);
        sa_fmt_add(f, " to ");
        add_size(f, info->max);
    } else {
        add_words(f, info->kind);
    }
}

/* The longest key; struct sa_option_info has room for it and a zero. */
#define KEY_MAX 31

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
}

/* Returns the Levenshtein distance of a[0 .. n - 1] and b, without regard to the case of a: the
 * number of letters to add, drop or change. n and the length of b are at most KEY_MAX. */
static size_t distance(const char *a, size_t n, const char *b)
{
    size_t row[KEY_MAX + 1], m = strlen(b);

    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t change = diagonal + (lower(a[i - 1]) != b[j - 1]);

            diagonal = row[j];
            row[j] = sa_min(change, sa_min(row[j], row[j - 1]) + 1);
        }
    }
    return row[m];
}

const struct sa_option_info *sa_option_nearest(const char *key, size_t len)
{
    const struct sa_option_info *nearest = NULL;
    size_t min =
        len / 3 + 1; /* a key that differs by more than 1/3 of its letters is another word */

    if (len > KEY_MAX)
        return NULL;
    for (size_t i = 0; i < SA_OPTIONS; i++) {
        size_t d = distance(key, len, sa_option_infos[i].key);

        if (d < min) {
            min = d;
            nearest = &sa_option_infos[i];
        }
    }
    return nearest;
}

void sa_options_help(void)
{
    struct sa_options initial;

    sa_options_default(&initial);
    sa_warn("SALLOC_CONF=\"key:value,key:value\", explained in doc/tuning.md; the keys are");
    for (size_t i = 0; i < SA_OPTIONS; i++) {
        const struct sa_option_info *info = &sa_option_infos[i];
        char allowed[160], value[32];
        struct sa_fmt f;

        sa_fmt_init(&f, allowed, sizeof(allowed));
        sa_option_add_allowed(&f, info);
        sa_fmt_init(&f, value, sizeof(value));
        if (info->kind == SA_OPTION_path)
            sa_fmt_add(&f, "none");
        else
            sa_option_add_value(&f, info, sa_option_load(info, &initial));
        sa_warn("%s: %s (%s; default %s)", info->key, info->help, allowed, value);
    }
}
