/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clients ask `sallocctl serve` for: targets, parameters and Accept headers of words that it
 * knows, of numbers, and of any bytes. The answer is a request whose numbers are in range, or a
 * status and a line that can be printed.
 */
#include "alloc/base/utf8.h"
#include "test/fuzz/fuzz.h"
#include "tool/serve/request.h"

#define PARAMETERS 4
#define TEXT       512

/* Adds a word, a number, or bytes. */
static size_t add_piece(struct fuzz_input *in, char *to, size_t at)
{
    static const char *const words[] = {
        "/",
        "/metrics",
        "/metrics/all",
        "/stats",
        "/debug/pprof/heap",
        "/debug/pprof/allocs",
        "/flame",
        "http://localhost:9100",
        "http://",
        "localhost",
        "[::1]",
        "127.0.0.1",
        "pid",
        "seconds",
        "debug",
        "0",
        "12",
        "1e9",
        "nan",
        "300",
        "ms",
        "m",
        "s",
        "text/plain",
        "application/openmetrics-text",
        "*/*",
        "text/*",
        ";q=",
        "; version=1.0.0",
        "0.5",
        ",",
        ";",
        "=",
        " ",
    };
    uint8_t what = fuzz_byte(in);
    int n = what < 160
                ? snprintf(to + at, TEXT - at, "%s", words[what % (sizeof(words) / sizeof(*words))])
            : what < 200 ? snprintf(to + at, TEXT - at, "%llu",
                                    (unsigned long long)fuzz_number(in, 1 + what % 8))
                         : snprintf(to + at, TEXT - at, "%c", fuzz_byte(in));

    at += (size_t)n;
    return at < TEXT ? at : TEXT - 1;
}

/* A string in memory of exactly its length; the caller frees it. */
static char *text(struct fuzz_input *in)
{
    char buf[TEXT] = "", *copy;
    size_t at = 0;

    for (size_t n = fuzz_below(in, 12); n; n--)
        at = add_piece(in, buf, at);
    copy = strdup(buf);
    FUZZ_CHECK(copy);
    return copy;
}

static void check_answer(unsigned status, const struct sa_serve_request *r, const char *why)
{
    char clean[SA_SERVE_WHY];

    if (status == 200) {
        const char *type = sa_serve_request_type(r);

        FUZZ_CHECK(r->kind <= SA_SERVE_FLAME && type && *type);
        FUZZ_CHECK(r->kind < SA_SERVE_STATS || r->pid > 0);
        FUZZ_CHECK(r->kind != SA_SERVE_ALLOCS ||
                   (r->seconds >= 0 && r->seconds <= SA_SERVE_SECONDS_MAX));
        return;
    }
    FUZZ_CHECK(status >= 400 && status < 500);
    FUZZ_CHECK(*why && strnlen(why, SA_SERVE_WHY) < SA_SERVE_WHY);
    memcpy(clean, why, SA_SERVE_WHY);
    sa_utf8_clean(clean, strlen(clean));
    FUZZ_CHECK(strcmp(clean, why) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};

    do {
        char *target = text(&in), *accept = fuzz_byte(&in) % 2 ? text(&in) : NULL;
        char *names[PARAMETERS], *values[PARAMETERS], why[SA_SERVE_WHY] = "";
        struct sa_serve_parameter parameters[PARAMETERS];
        struct sa_serve_request request = {0};
        size_t count = fuzz_below(&in, PARAMETERS + 1);
        const char *path;

        target[strcspn(target, "?")] = '\0'; /* libmicrohttpd has taken the parameters off */
        path = sa_serve_request_path(target);
        FUZZ_CHECK(!path || *path == '/');
        for (size_t i = 0; i < count; i++) {
            names[i] = text(&in);
            values[i] = text(&in);
            parameters[i] = (struct sa_serve_parameter){names[i], values[i]};
        }
        if (path)
            check_answer(sa_serve_request_parse(path, parameters, count, accept, &request, why),
                         &request, why);
        for (size_t i = 0; i < count; i++) {
            free(names[i]);
            free(values[i]);
        }
        free(target);
        free(accept);
    } while (fuzz_left(&in));
    return 0;
}
