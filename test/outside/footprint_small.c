/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library costs a small program in memory: 30 blocks of as many sizes stay, and others
 * come and go for a while, so that samples are taken, guarded and kept. The program runs itself
 * once more without the library, and both say what memory they have that is no file's.
 *
 * Proves that all code which runs then is in the first 128 KiB of the library, as the kernel maps
 * 64 KiB around each page; that of the C library's constants samples read a few pages, and do not
 * bring in what is around them; and that the rest is at most 72 pages more with the library. The
 * sizes have a page or more each, the rest is what every program touches of the variables, tables
 * and records, which lies together for that (alloc/cold.ld). Where the heap begins, and so the part
 * of each table by address, is random: the least of some runs counts. Where the kernel maps the
 * library at no multiple of 64 KiB, 64 KiB more of its code may be mapped.
 * usage: outside_footprint_small [code]   (one run, which says only where the code is)
 */
#include "test/outside/check.h"

#include <sched.h>
#include <sys/wait.h>

#define SIZES    30
#define MOST     72
#define CODE_MAX 32
#define AROUND   16 /* pages that the kernel maps at a time */
#define LIBC_MAX 6
#define RUNS     20
#define SECONDS  0.5

static void *kept[SIZES];

static void load(void)
{
    for (size_t i = 0; i < SIZES; i++) {
        kept[i] = malloc(16 + i * i * 2);
        REQUIRE(kept[i]);
        memset(kept[i], 1, 16 + i * i * 2);
    }
    for (double end = check_now() + SECONDS; check_now() < end;)
        for (int i = 0; i < 10000; i++) {
            char *p = malloc(512);

            REQUIRE(p);
            *p = 1;
            CHECK_OPAQUE(p);
            free(p);
        }
}

struct pages {
    int own;  /* no file's; the zero page does not count */
    int code; /* of the library */
    int most; /* of code that may be mapped */
    int libc; /* of the C library's constants, which lie behind its code */
};

static int pages_at(const char *text, const char *row)
{
    const char *at = text ? strstr(text, row) : NULL;

    return at ? (int)strtol(at + strlen(row), NULL, 10) / 4 : 0;
}

static struct pages pages(void)
{
    static char text[1 << 18];
    struct pages p = {0, 0, CODE_MAX, 0};
    const char *at;

    check_read("/proc/self/smaps", text, sizeof(text));
    for (at = text; (at = strstr(at, "\nAnonymous:")) != NULL; at++)
        p.own += pages_at(at, "\nAnonymous:");
    p.code = pages_at(strstr(text, "libsalloc.so"), "\nRss:"); /* its first mapping */
    at = strstr(text, "libsalloc.so");
    while (at && at > text && at[-1] != '\n')
        at--;
    if (at && strtoul(at, NULL, 16) % (AROUND * 4096) != 0)
        p.most += AROUND;
    at = strstr(text, "libc.so");
    for (int i = 0; at && i < 2; i++) /* its third */
        at = strstr(at + 1, "libc.so");
    p.libc = pages_at(at, "\nRss:");
    return p;
}

/* What the program says when it is run again. */
static struct pages ask(const char *preload, const char *conf)
{
    struct pages said;
    int ends[2], status;
    pid_t child;

    REQUIRE(pipe(ends) == 0);
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDIN_FILENO);
        if (!preload)
            unsetenv("LD_PRELOAD");
        if (conf)
            setenv("SALLOC_CONF", conf, 1);
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
    int min = INT32_MAX, runs = argc > 1 ? 1 : RUNS;
    struct pages with;
    cpu_set_t one;

    if (argc > 1 && strcmp(argv[1], "say") == 0) {
        load();
        with = pages();
        return write(STDIN_FILENO, &with, sizeof(with)) == sizeof(with) ? 0 : 1;
    }
    if (sysconf(_SC_PAGESIZE) != 4096)
        SKIP("the figures are those of pages of 4 KiB");
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one); /* each CPU has its cache */
    sched_setaffinity(0, sizeof(one), &one);
    for (int i = 0; i < runs; i++) {
        with = ask(getenv("LD_PRELOAD"), NULL);
        with.own -= ask(NULL, NULL).own;
        with.libc -= ask(getenv("LD_PRELOAD"), "sample_interval:0").libc;
        check_say("%d pages of code, %d of the C library for samples, %d others more", with.code,
                  with.libc, with.own);
        CHECK(with.code > 0 && with.code <= with.most);
        CHECK(with.libc <= LIBC_MAX);
        min = with.own < min ? with.own : min;
    }
    if (argc == 1)
        CHECK_SAYS(min <= MOST, "%d pages", min);
    return check_end();
}
