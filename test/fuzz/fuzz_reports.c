/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stats page in all formats, of made-up numbers (any number of bytes that fits an address):
 * each fits the size that is said to hold it, the text is lines of printable characters, the JSON
 * is JSON, and OpenMetrics has a type before the samples of each family and ends as it must. And
 * that a buffer that is too small is not left.
 */
#include "stats/report.h"

#include "stats/report_input.h"
#include "test/fuzz/fuzz.h"
#include "test/support/start.h"

#define BITS_MAX 47 /* of user addresses */

static const uint8_t *numbers, *numbers_end; /* the part of the input that is numbers; repeated */

struct sa_report_input *__real_sa_report_input_take(void);
struct sa_report_input *__wrap_sa_report_input_take(void);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    test_start(TEST_CACHE_LIMIT);
    return 0;
}

/* Words of any magnitude. */
static void make_up(void *of, size_t bytes)
{
    static const uint8_t none[8];
    const uint8_t *at = numbers;

    for (uint64_t *word = of; bytes >= sizeof(*word); word++, bytes -= sizeof(*word)) {
        size_t left = (size_t)(numbers_end - at);
        unsigned bits;

        *word = 0;
        memcpy(word, left ? at : none, left < 8 ? left : 8);
        bits = *word & 63;
        *word = bits >= BITS_MAX ? *word >> (64 - BITS_MAX) : *word >> 6 & ((1ull << bits) - 1);
        at = left > 3 ? at + 3 : numbers;
    }
}

#define MAKE_UP(first, last)                                                                       \
    make_up(&(first), (size_t)((char *)&(last) - (char *)&(first)) + sizeof(last))

struct sa_report_input *__wrap_sa_report_input_take(void)
{
    struct sa_report_input *r = __real_sa_report_input_take();

    FUZZ_CHECK(r);
    MAKE_UP(r->s.heap, r->s.arena);
    for (unsigned cls = 1; cls < r->s.classes; cls++)
        MAKE_UP(r->s.cls[cls].cpu_objects, r->s.cls[cls].spans_returned);
    MAKE_UP(r->s.in_use_bytes, r->s.mapped_bytes);
    MAKE_UP(r->s.guarded, r->s.guarded);
    MAKE_UP(r->s.soft, r->s.release_rate); /* what follows chooses a word: it is one of a few */
    MAKE_UP(r->s.soft_calls, r->s.cpu_cache_limit);
    for (unsigned cls = 1; cls < r->s.classes; cls++)
        MAKE_UP(r->cls[cls].transfer, r->cls[cls].central);
    MAKE_UP(r->huge.heap, r->huge.address);
    MAKE_UP(r->huge.sizes, r->huge.sizes);
    MAKE_UP(r->sampled_sizes, r->sampled_sizes);
    return r;
}

/* --- JSON: its grammar, for what may occur
 * ------------------------------------------------------- */

static const char *skip(const char *p)
{
    while (*p == ' ' || *p == '\n')
        p++;
    return p;
}

static const char *string(const char *p)
{
    FUZZ_CHECK(*p == '"');
    for (p++; *p != '"'; p++)
        FUZZ_CHECK(*p >= ' ' && *p != '\\');
    return p + 1;
}

/* What follows a value. */
static const char *value(const char *p, int depth)
{
    char close;
    bool object;

    p = skip(p);
    FUZZ_CHECK(depth < 10);
    if (*p == '"')
        return string(p);
    if (*p >= '0' && *p <= '9') {
        FUZZ_CHECK(*p != '0' || p[1] < '0' || p[1] > '9');
        while (*p >= '0' && *p <= '9')
            p++;
        return p; /* whole numbers only: "integers" */
    }
    FUZZ_CHECK(*p == '{' || *p == '[');
    object = *p == '{';
    close = object ? '}' : ']';
    p = skip(p + 1);
    if (*p == close)
        return p + 1;
    for (;; p++) {
        if (object) {
            p = skip(string(skip(p)));
            FUZZ_CHECK(*p == ':');
            p++;
        }
        p = skip(value(p, depth + 1));
        if (*p == close)
            return p + 1;
        FUZZ_CHECK(*p == ',');
    }
}

/* --- OpenMetrics --- */

static size_t name_length(const char *p)
{
    return strspn(p, "abcdefghijklmnopqrstuvwxyz_0123456789:");
}

/* A family's lines are together, its type first. Only OpenMetrics has an end, and units. */
static void check_metrics(const char *text, bool ends)
{
    char family[100] = "";
    size_t lines = 0;

    for (const char *p = text, *end; *p; p = end + 1, lines++) {
        size_t n;

        end = strchr(p, '\n');
        FUZZ_CHECK(end);
        if (strncmp(p, "# EOF\n", 6) == 0) {
            FUZZ_CHECK(ends && !end[1] && lines > 10);
            return;
        }
        if (*p == '#') {
            FUZZ_CHECK(strncmp(p, "# TYPE ", 7) == 0 || strncmp(p, "# HELP ", 7) == 0 ||
                       (ends && strncmp(p, "# UNIT ", 7) == 0));
            n = name_length(p + 7);
            FUZZ_CHECK(n > 0 && n < sizeof(family) && p[7 + n] == ' ');
            memcpy(family, p + 7, n);
            family[n] = '\0';
            continue;
        }
        n = strlen(family);
        FUZZ_CHECK(n && strncmp(p, family, n) == 0);
        p += name_length(p);
        if (*p == '{') {
            p = strchr(p, '}');
            FUZZ_CHECK(p && p < end);
            p++;
        }
        FUZZ_CHECK(*p == ' ');
        n = strspn(p + 1, "0123456789");
        FUZZ_CHECK(n > 0);
        p += 1 + n;
        if (*p == '.' && strstr(family, "_ratio"))
            p += 1 + strspn(p + 1, "0123456789");
        FUZZ_CHECK(p == end);
    }
    FUZZ_CHECK(!ends && lines > 10);
}

static void check_text(const char *text)
{
    size_t n = strlen(text);

    FUZZ_CHECK(n > 1000 && text[n - 1] == '\n');
    for (size_t i = 0; i < n; i++)
        FUZZ_CHECK(text[i] == '\n' || (text[i] >= ' ' && text[i] <= '~'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};
    size_t cap = fuzz_byte(&in) % 4 ? sa_report_size() : fuzz_number(&in, 2);
    enum sa_report_kind kind = (enum sa_report_kind)fuzz_below(&in, SA_REPORT_KINDS);
    char *text = malloc(cap ? cap : 1);
    struct sa_fmt f;

    FUZZ_CHECK(text);
    numbers = in.at;
    numbers_end = in.end;
    sa_fmt_init(&f, text, cap);
    sa_report_format_as(kind, &f);
    FUZZ_CHECK(cap == 0 || (f.len < cap && text[f.len] == '\0' && strlen(text) == f.len));
    if (cap == sa_report_size()) {
        FUZZ_CHECK(!f.truncated);
        if (kind == SA_REPORT_TEXT)
            check_text(text);
        else if (kind == SA_REPORT_JSON)
            FUZZ_CHECK(*skip(value(text, 0)) == '\0');
        else
            check_metrics(text, kind == SA_REPORT_OPENMETRICS);
    }
    free(text);
    return 0;
}
