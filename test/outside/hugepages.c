/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real memory on real hugepages, in whatever mode the system's transparent hugepages are; skipped
 * where that is `never`. Run without sampling: samples are copies in small pages, by design. usage:
 *   hugepages covered|sparse|few|second
 *   covered  512 MiB of blocks below 512 KiB, all of them written to: nine tenths of them come to
 *            lie on hugepages, and they take at most an eighth more memory than they are long
 *   sparse   40,000 blocks of 64 KiB of which a page each is written to: with advice, no more
 *            memory than without
 *   few      of 512 MiB of blocks, 1 of 33 is kept: the rest goes back, and does not come again
 *   second   of 256 MiB of blocks of 64 KiB, every second is kept: the rest goes back, in few
 *            mappings
 */
#include "test/outside/check.h"

#define MIB 1048576ul

static char *blocks[1 << 20];
static size_t count;

static bool system_mode(const char *mode)
{
    char text[128];
    int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return strstr(text, mode) != NULL;
}

/* KiB of a field, over all of the process. */
static size_t rollup(const char *field)
{
    char text[4096], *at;
    int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    at = strstr(text, field);
    return at ? strtoul(at + strlen(field), NULL, 10) : 0;
}

/* KiB of the mappings that blocks lie in: resident ones, of these on hugepages. Uses libc's
 * streams, which allocate little. */
static void heap_memory(size_t *ret_all, size_t *ret_huge)
{
    uintptr_t low = UINTPTR_MAX, high = 0;
    FILE *f = fopen("/proc/self/smaps", "re");
    char line[512];
    bool in = false;

    REQUIRE(f);
    for (size_t i = 0; i < count; i++) {
        low = (uintptr_t)blocks[i] < low ? (uintptr_t)blocks[i] : low;
        high = (uintptr_t)blocks[i] > high ? (uintptr_t)blocks[i] : high;
    }
    *ret_all = *ret_huge = 0;
    while (fgets(line, sizeof(line), f)) {
        unsigned long start, end, kib;

        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            in = start <= high && end > low;
        else if (in && sscanf(line, "Anonymous: %lu", &kib) == 1)
            *ret_all += kib;
        else if (in && sscanf(line, "AnonHugePages: %lu", &kib) == 1)
            *ret_huge += kib;
    }
    fclose(f);
}

static size_t mappings(void)
{
    static char text[65536];
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t lines = 0;
    ssize_t n;

    while (fd >= 0 && (n = read(fd, text, sizeof(text))) > 0)
        for (ssize_t i = 0; i < n; i++)
            lines += text[i] == '\n';
    close(fd);
    return lines;
}

/* A program that does little: enough for the allocator to do its rounds. */
static void live(double seconds)
{
    double end = check_now() + seconds;

    while (check_now() < end) {
        char *p = malloc(100);

        REQUIRE(p);
        CHECK_OPAQUE(p);
        free(p);
        usleep(5000);
    }
}

/* False: the kernel does not tell. */
static bool property(const char *name, size_t *ret)
{
    int (*get)(const char *, size_t *);

    *(void **)&get = dlsym(RTLD_DEFAULT, "salloc_get_numeric_property");
    REQUIRE(get);
    return get(name, ret) == 0;
}

static void covered(void)
{
    uint64_t state = 7;
    size_t bytes = 0, all, huge, small, min = SIZE_MAX, covered_bytes;
    double start = check_now(), moved = start;

    while (bytes < 512 * MIB && count < sizeof(blocks) / sizeof(*blocks)) {
        size_t size = 256ul << check_random(&state) % 10;

        size += check_random(&state) % size;
        blocks[count] = malloc(size);
        REQUIRE(blocks[count]);
        memset(blocks[count++], 1, size);
        bytes += size;
    }
    /* How fast depends on what a hugepage costs the kernel, which gets a small part of the time. */
    do {
        live(1);
        heap_memory(&all, &huge);
        small = all - huge;
        if (small < min) {
            min = small;
            moved = check_now();
        }
    } while (small > bytes / 1024 / 10 && check_now() < moved + 40 && check_now() < start + 400);
    check_say("%zu KiB of blocks, %zu KiB resident, %zu KiB of it not on hugepages after %.1f s",
              bytes / 1024, all, small, check_now() - start);
    CHECK(small <= bytes / 1024 / 10);
    if (property("salloc.heap_hugepage_bytes", &covered_bytes))
        CHECK_SAYS(labs((long)(covered_bytes / 1024) - (long)huge) <= 4096, "%zu KiB, not %zu",
                   covered_bytes / 1024, huge);
    /* Blocks are rounded up by an eighth at most, and the caches may hold 2 MiB a CPU. */
    CHECK_SAYS(all <= bytes / 1024 / 8 * 9 + 16 * 1024, "%zu KiB resident", all);
}

static void sparse(void)
{
    size_t pages = 40000, all;

    if (system_mode("[always]"))
        SKIP("the kernel gives hugepages without being asked");
    for (count = 0; count < pages; count++) {
        blocks[count] = malloc(65536);
        REQUIRE(blocks[count]);
        blocks[count][0] = 1;
    }
    live(3);
    all = rollup("\nAnonymous:");
    check_say("%zu blocks of a page used each, %zu KiB anonymous", count, all);
    /* A page each, and what else the process has. */
    CHECK(all <= pages * 4 + 16 * 1024);
}

/* Keeps one block of so many. */
static void keep(size_t size, size_t total, size_t of)
{
    size_t kept, resident = 0, last, maps = 0;
    double start;

    for (count = 0; count < total / size; count++) {
        blocks[count] = malloc(size);
        REQUIRE(blocks[count]);
        memset(blocks[count], 1, size);
    }
    live(2);
    for (size_t i = 0; i < count; i++)
        if (i % of)
            free(blocks[i]);
    kept = count / of * size / 1024;
    start = check_now();
    do {
        live(0.5);
        resident = rollup("\nAnonymous:");
        maps = maps > mappings() ? maps : mappings();
    } while (resident > kept + 64 * 1024 && check_now() < start + 10);
    CHECK_SAYS(resident <= kept + 64 * 1024, "%zu KiB resident, %zu kept", resident, kept);
    live(5);
    last = rollup("\nAnonymous:");
    check_say("%zu KiB kept, %zu KiB anonymous, %zu some seconds later, %zu mappings", kept,
              resident, last, maps);
    CHECK(last <= resident + 4 * 1024);
    CHECK_SAYS(maps < 2000, "%zu mappings", maps);
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    check_begin();
    if (!system_mode("[madvise]") && !system_mode("[always]"))
        SKIP("transparent hugepages are off");
    if (strcmp(argv[1], "covered") == 0)
        covered();
    else if (strcmp(argv[1], "sparse") == 0)
        sparse();
    else if (strcmp(argv[1], "few") == 0)
        keep(65536, 512 * MIB, 33);
    else if (strcmp(argv[1], "second") == 0)
        keep(65536, 256 * MIB, 2);
    else
        REQUIRE(!"covered, sparse, few or second");
    return check_end();
}
