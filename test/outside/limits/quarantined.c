/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freed blocks that are kept from use and hold no memory count for nothing: a loop of malloc and
 * free that needs one block at a time passes no limit that leaves room for two, and has its peak
 * there.
 *
 * SALLOC_CONF says what keeps the blocks, and the limits. The sampler keeps some a quarter of a
 * second after the first sample and later, also by default.
 *
 * usage: quarantined
 */
#include "test/outside/check.h"

#define BYTES 1000000

static size_t resident(void)
{
    char text[64], *end;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof(text) - 1);

    close(fd);
    REQUIRE(n > 0);
    text[n] = '\0';
    strtoul(text, &end, 10);
    return strtoul(end, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

/* Blocks of which so much is written; the largest resident size. */
static size_t loop(size_t written, double seconds)
{
    double end = check_now() + seconds;
    size_t max = 0;

    for (int i = 0; check_now() < end; i++) {
        char *p = malloc(BYTES);

        REQUIRE(p);
        memset(p, 1, written);
        if (i % 16 == 0) {
            size_t now = resident();

            max = now > max ? now : max;
        }
        free(p);
    }
    return max;
}

int main(void)
{
    size_t max, peak, none = 0;

    check_begin();
    max = loop(1, 1);
    peak = check_property("salloc.peak_physical_bytes");
    /* The block counts as a whole, which is 1 MB too much. The libraries do not count, and have as
     * much in memory. */
    CHECK_SAYS(peak <= max + max / 10, "peak %zu, %zu bytes resident", peak, max);
    max = loop(BYTES, 0.5);
    peak = check_property("salloc.peak_physical_bytes");
    CHECK_SAYS(peak <= max + max / 10, "peak %zu, %zu bytes resident", peak, max);
    none += check_property("salloc.soft_limit_hits") + check_property("salloc.hard_limit_hits");
    CHECK_SAYS(none == 0, "%zu hits of limits", none);
    CHECK_SAYS(check_property("salloc.sample_quarantine_empty_bytes") >= 2 * BYTES,
               "%zu bytes are kept", check_property("salloc.sample_quarantine_empty_bytes"));
    return check_end();
}
