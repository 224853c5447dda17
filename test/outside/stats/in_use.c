/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sampled block counts once: "in use" is what the program has, to 0.5 %, and the memory of the
 * process is that of a process without sampling, but for 1 % and 16 KiB for each live sample.
 *
 * The program runs itself with sampling off, then with each interval. Which blocks are sampled does
 * not matter: each has its own allowance, and is in use once.
 *
 * usage: in_use SIZE BLOCKS INTERVAL... (SALLOC_TEST_FULL=1: of 4000 blocks)
 */
#include "test/outside/check.h"

#include <sched.h>
#include <sys/wait.h>

#define STEP                                                                                       \
    7919 /* a prime, to no number of blocks a factor: the order in which blocks are replaced */

struct figures {
    size_t truth, in_use, anonymous, samples;
};

/* Bytes of anonymous memory, exact (the counters in /proc/self/status are not). */
static size_t anonymous(void)
{
    char text[4096], *at;
    int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    if (n <= 0)
        SKIP("no /proc/self/smaps_rollup");
    text[n] = '\0';
    at = strstr(text, "\nAnonymous:");
    REQUIRE(at);
    return strtoul(at + 11, NULL, 10) * 1024;
}

/* In a process of its own: allocates, and writes the figures to `out`. */
static int measure(size_t size, size_t blocks, int out)
{
    static char *b[65536];
    size_t in_use = check_property("salloc.allocated_bytes");
    struct figures f = {0};
    cpu_set_t cpus;

    REQUIRE(blocks <= sizeof(b) / sizeof(*b));
    /* One CPU, as each has a cache of its own that may come into use in one process and not in
     * another. */
    CPU_ZERO(&cpus);
    CPU_SET(sched_getcpu(), &cpus);
    sched_setaffinity(0, sizeof(cpus), &cpus);
    /* Each is replaced, so that what is popped has been written to. */
    for (size_t i = 0; i < 3 * blocks; i++) {
        char *old = b[i * STEP % blocks];

        if (old)
            f.truth -= malloc_usable_size(old);
        free(old);
        b[i * STEP % blocks] = malloc(size);
        REQUIRE(b[i * STEP % blocks]);
        memset(b[i * STEP % blocks], 1, size);
        f.truth += malloc_usable_size(b[i * STEP % blocks]);
    }
    f.in_use = check_property("salloc.allocated_bytes") - in_use;
    f.samples = check_property("salloc.live_samples");
    malloc_trim(0); /* what is free goes back within seconds in any case */
    f.anonymous = anonymous();
    REQUIRE(write(out, &f, sizeof(f)) == sizeof(f));
    for (size_t i = 0; i < blocks; i++)
        free(b[i]);
    in_use = check_property("salloc.allocated_bytes") - in_use;
    CHECK_SAYS(in_use == 0, "%zu bytes in use when all is freed", in_use);
    return check_end();
}

/* Another process that does it, with the interval. */
static struct figures run(char **argv, const char *interval)
{
    struct figures f;
    int ends[2], status;
    char conf[100], out[20];
    pid_t child;

    REQUIRE(pipe(ends) == 0);
    snprintf(conf, sizeof(conf), "sample_interval:%s,sample_seed:7", interval);
    snprintf(out, sizeof(out), "%d", ends[1]);
    child = fork();
    if (child == 0) {
        setenv("SALLOC_CONF", conf, 1);
        execl("/proc/self/exe", argv[0], argv[1], argv[2], "-", out, (char *)NULL);
        _exit(1);
    }
    close(ends[1]);
    if (read(ends[0], &f, sizeof(f)) != sizeof(f))
        f = (struct figures){0};
    close(ends[0]);
    REQUIRE(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CHECK_SKIPPED)
        _exit(CHECK_SKIPPED);
    REQUIRE(status == 0);
    return f;
}

int main(int argc, char **argv)
{
    size_t size, blocks;
    struct figures off;

    check_begin();
    REQUIRE(argc >= 4);
    size = strtoul(argv[1], NULL, 10);
    blocks = getenv("SALLOC_TEST_FULL") ? 4000 : strtoul(argv[2], NULL, 10);
    if (strcmp(argv[3], "-") == 0)
        return measure(size, blocks, atoi(argv[4]));
    off = run(argv, "0");
    CHECK_SAYS(off.in_use == off.truth, "%zu bytes in use, %zu allocated", off.in_use, off.truth);
    for (int i = 3; i < argc; i++) {
        struct figures f = run(argv, argv[i]);
        size_t difference = f.in_use > f.truth ? f.in_use - f.truth : f.truth - f.in_use;
        size_t max = off.anonymous + off.anonymous / 100 + f.samples * 16384;

        check_say("interval %s: %zu samples of %zu bytes, in use %+.3f %%, memory %+.3f %%",
                  argv[i], f.samples, f.truth,
                  ((double)f.in_use - (double)f.truth) * 100 / (double)f.truth,
                  ((double)f.anonymous - (double)off.anonymous) * 100 / (double)off.anonymous);
        CHECK_SAYS(difference * 200 <= f.truth, "%zu bytes in use, %zu allocated", f.in_use,
                   f.truth);
        CHECK_SAYS(f.anonymous <= max, "%zu bytes of memory, %zu without sampling", f.anonymous,
                   off.anonymous);
    }
    return check_end();
}
