/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of the control socket: requests that there are, with what may be behind them, and any
 * bytes. The functions of the library that they end in are the target's: it sees what they get, and
 * says whether a trace runs. Each line has one answer, which is one line that fits.
 */
#include "alloc/api/control/control_requests.h"

#include "alloc/os/vdso.h"
#include "include/salloc/salloc.h"
#include "test/fuzz/fuzz.h"

#include <errno.h>

static char token, profile; /* whose addresses stand for a trace and its profile */
static bool runs;

/* What a user gives comes through whole, and ended. */
static int check_name(const char *s, uint8_t fails)
{
    static const int errors[] = {EINVAL, EPERM, ENOENT, ENOMEM, EBUSY, ENAMETOOLONG};

    FUZZ_CHECK(s && strlen(s) < SA_CONTROL_LINE_BYTES);
    if (fails % 4)
        return 0;
    errno = errors[fails / 4 % (sizeof(errors) / sizeof(*errors))];
    return -1;
}

int salloc_get_option(const char *key, char *value, size_t cap)
{
    size_t n = strlen(key) < cap ? strlen(key) : cap - 1;

    memset(value, '\n', cap);
    memcpy(value, key, n);
    value[n * 7 % cap] = '\0';
    return check_name(key, (uint8_t)*key);
}

int salloc_set_option(const char *key, const char *value)
{
    FUZZ_CHECK(!strchr(key, ' '));
    return check_name(key, (uint8_t)*value) || check_name(value, 1) ? -1 : 0;
}

salloc_profile_token *salloc_start_event_trace(size_t bytes)
{
    FUZZ_CHECK(!runs && bytes <= SIZE_MAX / 16);
    runs = bytes % 8 != 0;
    errno = ENOMEM;
    return runs ? (salloc_profile_token *)&token : NULL;
}

salloc_profile *salloc_profile_token_stop(salloc_profile_token *t)
{
    FUZZ_CHECK(runs && t == (salloc_profile_token *)&token);
    runs = false;
    return (salloc_profile *)&profile;
}

int salloc_profile_get_info(const salloc_profile *p, struct salloc_profile_info *ret)
{
    FUZZ_CHECK(p == (const salloc_profile *)&profile);
    ret->events = UINT64_MAX;
    ret->events_lost = UINT64_MAX;
    return 0;
}

int salloc_profile_write_file(const salloc_profile *p, const char *path)
{
    FUZZ_CHECK(p == (const salloc_profile *)&profile && *path == '/');
    return check_name(path, (uint8_t)path[1]);
}

void salloc_profile_free(salloc_profile *p)
{
    FUZZ_CHECK(p == (salloc_profile *)&profile);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    sa_vdso_init();
    return 0;
}

/* A line without a newline, in a buffer as the socket's. */
static void make_line(struct fuzz_input *in, char *line)
{
    static const char *const words[] = {
        "version",
        "get",
        "set",
        "trace start",
        "trace stop",
        "trace write",
        " ",
        "0",
        "1",
        "3600",
        "4096",
        "/tmp/x",
        "/",
        "%p",
        "trace",
        "start",
        "18446744073709551615",
        "sample_interval",
        "control",
        "-1",
    };
    size_t at = 0, room = SA_CONTROL_LINE_BYTES - 1;

    for (size_t n = 1 + fuzz_below(in, 8); n; n--) {
        uint8_t what = fuzz_byte(in);
        const char *word = words[what % (sizeof(words) / sizeof(*words))];

        if (what < 160) {
            at += (size_t)snprintf(line + at, room - at, "%s%s", word, what & 1 ? " " : "");
            at = at < room ? at : room - 1;
        } else {
            for (size_t k = what < 250 ? 1 : 1000; k && at < room - 1; k--)
                line[at++] = (char)fuzz_byte(in);
        }
    }
    line[at] = '\0';
    for (char *p = line; *p; p++)
        *p = *p == '\n' ? ' ' : *p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};

    do {
        char *line = malloc(SA_CONTROL_LINE_BYTES), answer[SA_CONTROL_LINE_BYTES + 64];
        struct sa_fmt f = {.buf = answer, .cap = sizeof(answer)};

        FUZZ_CHECK(line);
        make_line(&in, line);
        sa_control_answer(line, &f);
        FUZZ_CHECK(f.len < sizeof(answer) && f.len > 2);
        FUZZ_CHECK(memcmp(answer, "ok", 2) == 0 || memcmp(answer, "error ", 6) == 0);
        FUZZ_CHECK((char *)memchr(answer, '\n', f.len) == answer + f.len - 1);
        free(line);
        if (fuzz_byte(&in) % 16 == 0)
            sa_control_trace_look(true);
    } while (fuzz_left(&in));
    sa_control_trace_look(true);
    FUZZ_CHECK(!runs);
    return 0;
}
