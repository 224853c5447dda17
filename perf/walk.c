/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What hugepages are worth: two heaps of the same blocks of mixed sizes, one with them and one
 * without (SALLOC_CONF=hugepages:off), each in a process of its own, and a walk over a ring of
 * pointers through blocks on as many different pages as there are, of which each step misses the
 * TLB. The walks of the two alternate, so that whatever else the machine does hits both. Also
 * shown: how long filling took, how much memory each has, how much of it lies on hugepages, and the
 * longest call of malloc and free between filling and walking, which is when hugepages are
 * collapsed.
 *
 * usage: salloc-walk [MIB [WALKS [SECONDS]]], with libsalloc.so preloaded
 *   MIB      of blocks (2048)
 *   WALKS    of each heap (15)
 *   SECONDS  between filling and walking, in which the program does next to nothing (20)
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NODES                                                                                      \
    (1u << 18) /* of the ring: each on a page of its own, as far as there are that many            \
                */
#define WALKS_MAX 101
#define SIZE_LOG  22 /* blocks below 4 MiB */
#define MIB       (1ul << 20)

static void fail(const char *what)
{
    fprintf(stderr, "salloc-walk: %s\n", what);
    exit(1);
}

static double clock_s(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* splitmix64 (Steele, Lea, Flood). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* A field of a file of /proc, in KiB, summed over its lines. */
static size_t proc_sum(const char *path, const char *field)
{
    FILE *f = fopen(path, "re");
    size_t sum = 0, n = strlen(field);
    char line[512];

    if (!f)
        return 0;
    while (fgets(line, sizeof(line), f))
        if (strncmp(line, field, n) == 0)
            sum += strtoul(line + n, NULL, 10);
    fclose(f);
    return sum;
}

/* Part of what is resident of the mappings from low to high that lies on hugepages. */
static double on_hugepages(uintptr_t low, uintptr_t high)
{
    FILE *f = fopen("/proc/self/smaps", "re");
    double all = 0, huge = 0;
    char line[512];
    int in = 0;

    while (f && fgets(line, sizeof(line), f)) {
        unsigned long start, end, kib;

        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            in = start <= high && end > low;
        else if (in && sscanf(line, "Anonymous: %lu", &kib) == 1)
            all += (double)kib;
        else if (in && sscanf(line, "AnonHugePages: %lu", &kib) == 1)
            huge += (double)kib;
    }
    if (f)
        fclose(f);
    return all > 0 ? huge / all : 0;
}

/* Memory of the program's own, which is to be the same in both and no part of what is measured. */
static void *own_memory(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);

    if (p == MAP_FAILED)
        fail("out of memory");
    madvise(p, bytes, MADV_NOHUGEPAGE);
    return p;
}

static uint64_t state = 42;

/* As many bytes of each doubling of sizes, from 32 bytes on. */
static size_t pick_size(void)
{
    for (;;) {
        uint64_t r = next_random(&state);
        unsigned log = 5;

        while (log < SIZE_LOG - 1 && r & 1) {
            r >>= 1;
            log++;
        }
        if (log < SIZE_LOG - 1 || r & 1)
            return (1ul << log) + (next_random(&state) & ((1ul << log) - 1));
    }
}

struct heap {
    uintptr_t low, high; /* addresses of blocks */
    void **blocks;       /* of the ring: one on each page */
    size_t nodes;
    double fill_s, fill_cpu_s;
    size_t bytes, rss;
};

static void fill(struct heap *h, size_t mib)
{
    size_t per_node = mib * MIB / NODES, since = 0;
    double start = clock_s(CLOCK_MONOTONIC), cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID);

    h->blocks = own_memory(NODES * sizeof(void *));
    while (h->bytes < mib * MIB) {
        size_t size = pick_size();
        char *p = malloc(size);

        if (!p)
            fail("malloc failed");
        memset(p, 1, size);
        h->bytes += size;
        h->low = (uintptr_t)p < h->low || !h->low ? (uintptr_t)p : h->low;
        h->high = (uintptr_t)p > h->high ? (uintptr_t)p : h->high;
        for (since += size; since >= per_node; since -= per_node) {
            size_t back = since % size & ~63ul;

            if (h->nodes < NODES && back + sizeof(void *) <= size)
                h->blocks[h->nodes++] = p + back;
        }
    }
    h->fill_s = clock_s(CLOCK_MONOTONIC) - start;
    h->fill_cpu_s = clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu;
}

/* One ring through all nodes in random order. */
static void make_ring(struct heap *h)
{
    for (size_t i = h->nodes - 1; i > 0; i--) {
        size_t k = next_random(&state) % (i + 1);
        void *t = h->blocks[i];

        h->blocks[i] = h->blocks[k];
        h->blocks[k] = t;
    }
    for (size_t i = 0; i < h->nodes; i++)
        memcpy(h->blocks[i], &h->blocks[(i + 1) % h->nodes], sizeof(void *));
}

/* ns a step. */
static double walk(const struct heap *h)
{
    double start = clock_s(CLOCK_THREAD_CPUTIME_ID);
    void *p = h->blocks[0];

    for (size_t i = 0; i < 4 * h->nodes; i++)
        memcpy(&p, p, sizeof(p));
    __asm__ volatile("" : : "r"(p));
    return (clock_s(CLOCK_THREAD_CPUTIME_ID) - start) * 1e9 / (4.0 * (double)h->nodes);
}

static long interrupted(void)
{
    struct rusage usage;

    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

/* Little enough to be nothing, and enough for the allocator to do its rounds. The longest call in
 * ms, of those that the kernel did not interrupt. */
static double idle(double seconds)
{
    double end = clock_s(CLOCK_MONOTONIC) + seconds, longest = 0;

    while (clock_s(CLOCK_MONOTONIC) < end) {
        for (int i = 0; i < 10; i++) {
            long before = interrupted();
            double start = clock_s(CLOCK_MONOTONIC), took;

            free(malloc(300000));
            took = clock_s(CLOCK_MONOTONIC) - start;
            if (took > longest && interrupted() == before)
                longest = took;
        }
        usleep(20000);
    }
    return longest * 1e3;
}

/* A heap: filled, described, and walked through each time that a byte comes in. */
static int child(size_t mib, double seconds)
{
    struct heap h = {0};
    double longest;
    char go;

    fill(&h, mib);
    h.rss = proc_sum("/proc/self/status", "VmRSS:");
    make_ring(&h);
    if (read(STDIN_FILENO, &go, 1) != 1)
        return 1;
    longest = idle(seconds);
    printf("%.2f %.2f %zu %zu %zu %.4f %.3f\n", h.fill_s, h.fill_cpu_s, h.bytes >> 20, h.rss >> 10,
           proc_sum("/proc/self/status", "VmRSS:") >> 10, on_hugepages(h.low, h.high), longest);
    fflush(stdout);
    while (read(STDIN_FILENO, &go, 1) == 1) {
        printf("%.3f\n", walk(&h));
        fflush(stdout);
    }
    return 0;
}

struct process {
    FILE *to, *from;
    double fill_s, fill_cpu_s, covered, longest_ms;
    size_t bytes, rss_before, rss;
};

static void start(struct process *p, const char *choice, char **argv)
{
    int to[2], from[2];
    char conf[64];

    if (pipe(to) || pipe(from))
        fail("no pipe");
    snprintf(conf, sizeof(conf), "hugepages:%s", choice);
    switch (fork()) {
    case -1:
        fail("no process");
        break;
    case 0:
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        close(to[0]), close(to[1]), close(from[0]), close(from[1]);
        setenv("SALLOC_CONF", conf, 1);
        setenv("SALLOC_WALK_CHILD", "1", 1);
        execv("/proc/self/exe", argv);
        _exit(1);
    default:
        close(to[0]), close(from[1]);
        p->to = fdopen(to[1], "w");
        p->from = fdopen(from[0], "r");
    }
}

static void say_go(struct process *p)
{
    putc('g', p->to);
    fflush(p->to);
}

static void hear(struct process *p)
{
    if (fscanf(p->from, "%lf %lf %zu %zu %zu %lf %lf", &p->fill_s, &p->fill_cpu_s, &p->bytes,
               &p->rss_before, &p->rss, &p->covered, &p->longest_ms) != 7)
        fail("a process ended early");
}

static double one_walk(struct process *p)
{
    double ns;

    say_go(p);
    if (fscanf(p->from, "%lf", &ns) != 1)
        fail("a process ended early");
    return ns;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void show(const char *name, const struct process *p, double *ns, size_t walks)
{
    qsort(ns, walks, sizeof(*ns), by_value);
    printf("| %s | %.2f | %.2f | %zu | %zu | %zu | %.1f %% | %.2f | %.2f |\n", name, p->fill_s,
           p->fill_cpu_s, p->bytes, p->rss_before, p->rss, p->covered * 100, p->longest_ms,
           ns[walks / 2]);
}

int main(int argc, char **argv)
{
    static const char *const choices[] = {"auto", "off"};
    static double ns[2][WALKS_MAX], ratio[WALKS_MAX];
    size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 2048;
    size_t walks = argc > 2 ? strtoul(argv[2], NULL, 10) : 15;
    double seconds = argc > 3 ? strtod(argv[3], NULL) : 20;
    struct process p[2];

    if (mib == 0 || walks == 0 || walks > WALKS_MAX)
        fail("usage: salloc-walk [MIB [WALKS [SECONDS]]]");
    if (getenv("SALLOC_WALK_CHILD"))
        return child(mib, seconds);
    for (int i = 0; i < 2; i++)
        start(&p[i], choices[i], argv);
    for (int i = 0; i < 2; i++)
        say_go(&p[i]);
    for (int i = 0; i < 2; i++)
        hear(&p[i]);
    for (size_t w = 0; w < walks; w++) {
        for (int i = 0; i < 2; i++) {
            int k = (int)((w + (size_t)i) % 2);

            ns[k][w] = one_walk(&p[k]);
        }
        ratio[w] = ns[0][w] / ns[1][w];
    }
    printf("| hugepages | filled in s | CPU s | MiB of blocks | RSS | later | on hugepages | "
           "longest call, ms "
           "| ns a step |\n"
           "|---|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for (int i = 0; i < 2; i++)
        show(choices[i], &p[i], ns[i], walks);
    qsort(ratio, walks, sizeof(*ratio), by_value);
    printf("a step takes %.3f of the time with hugepages (middle half %.3f to %.3f)\n",
           ratio[walks / 2], ratio[walks / 4], ratio[walks * 3 / 4]);
    for (int i = 0; i < 2; i++) {
        fclose(p[i].to);
        fclose(p[i].from);
    }
    while (wait(NULL) > 0)
        ;
    return 0;
}
