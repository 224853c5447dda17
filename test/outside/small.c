/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library costs a small program in memory: 30 blocks of as many sizes stay, and 64 MiB come and go, so that
 * samples are taken. The program runs itself once more without the library, and both say what memory they have
 * that is no file's.
 *
 * Proves that this is at most 66 pages more with the library. The sizes have a page or more each, the rest is what
 * every program touches of the variables, tables and records, which lies together for that (alloc/cold.ld). Where the
 * heap begins, and so the part of each table by address, is random: the least of some runs counts.
 */
#include "test/outside/check.h"

#include <sched.h>
#include <sys/wait.h>

#define SIZES    30
#define MOST     66
#define RUNS     3
#define TURNOVER (64ul << 20)

static void *kept[SIZES];

static void load(void)
{
    for (size_t i = 0; i < SIZES; i++) {
        kept[i] = malloc(16 + i * i * 2);
        REQUIRE(kept[i]);
        memset(kept[i], 1, 16 + i * i * 2);
    }
    for (size_t bytes = 0; bytes < TURNOVER; bytes += 512) {
        void *p = malloc(512);

        CHECK_OPAQUE(p);
        free(p);
    }
}

/* Pages of this process that are no file's; the zero page does not count. */
static int pages(void)
{
    static char text[1 << 18];
    int fd = open("/proc/self/smaps", O_RDONLY);
    size_t n = 0;
    ssize_t got;
    long kib = 0;

    REQUIRE(fd >= 0);
    while ((got = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
        n += (size_t)got;
    close(fd);
    text[n] = '\0';
    for (const char *at = text; (at = strstr(at, "\nAnonymous:")) != NULL; at++)
        kib += strtol(at + strlen("\nAnonymous:"), NULL, 10);
    return (int)(kib / 4);
}

/* What the program says when it is run again. */
static int ask(const char *preload)
{
    int ends[2], said = 0, status;
    pid_t child;

    REQUIRE(pipe(ends) == 0);
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDIN_FILENO);
        if (!preload)
            unsetenv("LD_PRELOAD");
        execl("/proc/self/exe", "small", "say", NULL);
        _exit(1);
    }
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    REQUIRE(read(ends[0], &said, sizeof(said)) == sizeof(said));
    close(ends[0]);
    close(ends[1]);
    return said;
}

int main(int argc, char **argv)
{
    int least = INT32_MAX;
    cpu_set_t one;

    (void)argv;
    if (argc > 1) {
        load();
        least = pages();
        return write(STDIN_FILENO, &least, sizeof(least)) == sizeof(least) ? 0 : 1;
    }
    if (sysconf(_SC_PAGESIZE) != 4096)
        SKIP("the figures are those of pages of 4 KiB");
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one); /* each CPU has its cache */
    sched_setaffinity(0, sizeof(one), &one);
    for (int i = 0; i < RUNS; i++) {
        int more = ask(getenv("LD_PRELOAD")) - ask(NULL);

        check_say("%d pages more", more);
        least = more < least ? more : least;
    }
    CHECK_SAYS(least <= MOST, "%d pages", least);
    return check_end();
}
