/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work for the tracer to disturb. Whatever the library promises is checked while system calls fail:
 * a result or NULL with the errno that is documented, errno as it was otherwise, contents that
 * stay. After the mark, when everything succeeds again, the same work must succeed, twice in no
 * more address space than once, and the library's count of its address space must be the kernel's.
 *
 * Scenarios that are about the end of the process have no mark: what they leave behind is looked at
 * by syscalls.py.
 *
 * usage: scenarios NAME (in a folder of its own)
 */
#include "include/salloc/salloc.h"
#include "test/outside/check.h"
#include "test/outside/syscalls/mark.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define SENTINEL 4321 /* an errno that nobody sets */

/* Whether calls may fail now; written while there is one thread. */
static bool faulty = true;

/* After a call that gave ok: errno is what it has to be. */
static bool kept_errno(bool ok, int error)
{
    if (ok)
        CHECK_SAYS(errno == SENTINEL, "errno is %d after success", errno);
    else
        CHECK_SAYS(faulty && errno == error, "errno is %d, faulty %d", errno, faulty);
    errno = SENTINEL;
    return ok;
}

static void *take(void *p)
{
    kept_errno(p != NULL, ENOMEM);
    return p;
}

static void drop(void *p)
{
    errno = SENTINEL;
    free(p);
    kept_errno(true, 0);
}

/* Mixed work. */

enum { BLOCKS = 40 };

struct block {
    unsigned char *at;
    size_t size;
};

static void mark(const struct block *b, int value)
{
    b->at[0] = b->at[b->size / 2] = b->at[b->size - 1] = (unsigned char)value;
}

static bool holds(const struct block *b, int value)
{
    return b->at[0] == (unsigned char)value && b->at[b->size / 2] == (unsigned char)value &&
           b->at[b->size - 1] == (unsigned char)value;
}

static size_t pick_size(uint64_t r)
{
    return r % 16 == 0  ? 1 + (r >> 8) % 3000000
           : r % 16 < 4 ? 1 + (r >> 8) % 100000
                        : 1 + (r >> 8) % 2000;
}

static unsigned char *allocate(uint64_t how, size_t size)
{
    void *p = NULL;

    errno = SENTINEL;
    switch (how % 4) {
    case 0:
        p = calloc(size, 1);
        break;
    case 1:
        p = aligned_alloc(64u << how / 4 % 9, size);
        break;
    default:
        p = malloc(size);
    }
    take(p);
    if (p && how % 4 == 0)
        CHECK(((char *)p)[0] == 0 && ((char *)p)[size / 2] == 0 && ((char *)p)[size - 1] == 0);
    return p;
}

static void resize(struct block *b, int k, size_t size)
{
    size_t both = size < b->size ? size : b->size;
    unsigned char *p;

    CHECK(holds(b, k));
    memset(b->at + both / 2, k, 1);
    b->at[both - 1] = (unsigned char)k;
    errno = SENTINEL;
    p = take(realloc(b->at, size));
    if (p)
        *b = (struct block){p, size};
    CHECK(b->at[0] == (unsigned char)k && b->at[both / 2] == (unsigned char)k &&
          b->at[both - 1] == (unsigned char)k);
    mark(b, k);
}

static void mix(uint64_t seed, int steps)
{
    struct block blocks[BLOCKS] = {{NULL, 0}};

    for (int i = 0; i < steps; i++) {
        uint64_t r = check_random(&seed);
        int k = (int)(r >> 50) % BLOCKS;
        struct block *b = &blocks[k];

        if (b->at && r >> 40 & 1) {
            resize(b, k, pick_size(r));
            continue;
        }
        if (b->at)
            CHECK(holds(b, k));
        drop(b->at);
        b->size = pick_size(r);
        b->at = allocate(r >> 41, b->size);
        if (b->at)
            mark(b, k);
    }
    for (int k = 0; k < BLOCKS; k++) {
        if (blocks[k].at)
            CHECK(holds(&blocks[k], k));
        drop(blocks[k].at);
    }
}

static void work_mix(void)
{
    mix(7, 300);
    errno = SENTINEL;
    malloc_trim(0);
    kept_errno(true, 0);
}

/* Blocks that grow until they are moved by mremap, with others in their way. */
static void work_growth(void)
{
    unsigned char *way[12] = {NULL};
    struct block b = {NULL, 300000};

    b.at = allocate(2, b.size);
    if (!b.at)
        return;
    mark(&b, 5);
    for (int i = 0; i < 12; i++) {
        resize(&b, 5, b.size + b.size / 2);
        way[i] = allocate(0, b.size / 3);
        if (i % 3 == 1) {
            drop(way[i]);
            way[i] = NULL;
        }
    }
    drop(b.at);
    for (int i = 0; i < 12; i++)
        drop(way[i]);
}

static void *thread_mix(void *arg)
{
    mix((uintptr_t)arg, 100);
    return NULL;
}

/* On stacks of our own, for libc keeps those that it maps. */
static void threads(void *(*run)(void *))
{
    static _Alignas(65536) char stacks[3][256 << 10];
    pthread_t thread[3];
    pthread_attr_t attr;

    pthread_attr_init(&attr);
    for (uintptr_t i = 0; i < 3; i++) {
        pthread_attr_setstack(&attr, stacks[i], sizeof(stacks[i]));
        if (pthread_create(&thread[i], &attr, run, (void *)(i + 1)) != 0) {
            CHECK(faulty);
            thread[i] = 0;
        }
    }
    for (int i = 0; i < 3; i++)
        if (thread[i])
            pthread_join(thread[i], NULL);
}

static void work_threads(void)
{
    threads(thread_mix);
    mix(9, 60);
}

/* Children that allocate, of a process with threads and of one without. */
static void fork_one(void)
{
    void *before = allocate(2, 1000);
    int status;
    pid_t pid = fork();

    REQUIRE(pid >= 0);
    if (pid == 0) {
        drop(before);
        mix(11, 60);
        _exit(check_end());
    }
    mix(12, 20);
    drop(before);
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_SAYS(status == 0, "the child's status is %#x", (unsigned)status);
}

static void *thread_fork(void *arg)
{
    if (arg == (void *)1)
        fork_one();
    mix((uintptr_t)arg, 60);
    return NULL;
}

static void work_fork(void)
{
    fork_one();
    threads(thread_fork);
}

/* Profiles: the documented errors, and files of every format. */
static const char *const endings[] = {"pb.gz", "pb", "heap", "jeprof", "txt", "collapsed"};

static int see_sample(const struct salloc_profile_sample *sample, void *count)
{
    *(size_t *)count += sample->depth;
    return 0;
}

static void use_profile(salloc_profile *profile, int first, int last)
{
    struct salloc_estimate estimate;
    size_t depth = 0;

    errno = SENTINEL;
    CHECK(salloc_profile_iterate(profile, see_sample, &depth) == 0);
    salloc_profile_estimate(profile, NULL, 0, SALLOC_ESTIMATE_WEIGHTED, 0.95, &estimate);
    for (int i = first; i <= last; i++) {
        char path[64];

        snprintf(path, sizeof(path), "profile.%s", endings[i]);
        errno = SENTINEL;
        if (salloc_profile_write_file(profile, path) == 0) {
            kept_errno(true, 0);
            CHECK(access(path, R_OK) == 0);
        } else {
            CHECK_SAYS(faulty && errno != SENTINEL && errno > 0, "errno is %d", errno);
        }
        unlink(path);
    }
    errno = SENTINEL;
    salloc_profile_free(profile);
    kept_errno(true, 0);
}

static void work_recording(void)
{
    static salloc_profile_token *tokens[2];
    salloc_profile *profile;

    for (int i = 0; i < 2; i++) /* that could not be stopped before */
        if (tokens[i])
            salloc_profile_free(salloc_profile_token_stop(tokens[i]));
    errno = SENTINEL;
    tokens[0] = salloc_start_allocation_profile();
    if (!tokens[0])
        kept_errno(false, ENOMEM);
    errno = SENTINEL;
    tokens[1] = salloc_start_lifetime_profile();
    if (!tokens[1])
        kept_errno(false, ENOMEM);
    mix(13, 100);
    for (int i = 0; i < 2; i++) {
        for (int tries = 0; tokens[i]; tries++) {
            errno = SENTINEL;
            profile = salloc_profile_token_stop(tokens[i]);
            if (kept_errno(profile != NULL, ENOMEM)) {
                tokens[i] = NULL;
                use_profile(profile, i, i);
            } else if (tries == 3) {
                break; /* the recording goes on */
            }
        }
    }
    for (int type = SALLOC_PROFILE_HEAP; type <= SALLOC_PROFILE_ALLOCATIONS; type++) {
        errno = SENTINEL;
        profile = salloc_snapshot_profile((enum salloc_profile_type)type);
        if (kept_errno(profile != NULL, ENOMEM))
            use_profile(profile, type == SALLOC_PROFILE_HEAP ? 0 : 4,
                        type == SALLOC_PROFILE_HEAP ? 5 : 4);
    }
}

static void work_stats(void)
{
    static char *(*const get[])(void) = {salloc_get_stats, salloc_get_stats_json,
                                         salloc_get_stats_openmetrics, salloc_get_stats_prometheus};
    size_t value;

    for (int i = 0; i < 4; i++) {
        char *text;

        mix(14, 20);
        errno = SENTINEL;
        text = get[i]();
        if (kept_errno(text != NULL, ENOMEM))
            CHECK(strlen(text) > 1000);
        drop(text);
    }
    errno = SENTINEL;
    CHECK(salloc_get_numeric_property("generic.heap_size", &value) == 0);
    mallinfo2();
    kept_errno(true, 0);
}

static void work_settings(void)
{
    static const size_t limits[] = {0, 64 << 10, 1536 << 10};

    for (int i = 0; i < 3; i++) {
        errno = SENTINEL;
        if (salloc_set_numeric_property("tcmalloc.max_per_cpu_cache_size", limits[i]) == 0)
            kept_errno(true, 0);
        else
            CHECK(faulty);
        mix(15, 50);
        errno = SENTINEL;
        CHECK(salloc_set_sampling_interval(i == 0 ? 1 : 4096 << i) == 0);
        kept_errno(true, 0);
        mix(16, 50);
        salloc_release_free_memory(i == 2 ? SIZE_MAX : 1 << 20);
        kept_errno(true, 0);
    }
    salloc_set_sampling_interval(1 << 20);
}

static void work_topology(void)
{
    salloc_discover_topology();
    mix(17, 50);
}

/* Address space that runs out, and is there again afterwards. */
static void work_exhaustion(void)
{
    static rlim_t max;
    struct rlimit old, limit;
    void **list = NULL, **p;

    REQUIRE(getrlimit(RLIMIT_AS, &old) == 0);
    if (!max)
        max = (check_status("VmSize:") << 10) + (24 << 20);
    limit = (struct rlimit){max, old.rlim_max};
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    for (int i = 0;; i++) {
        errno = SENTINEL;
        p = malloc(i % 2 ? 200000 : 3000);
        if (!p)
            break;
        *p = list;
        list = p;
    }
    CHECK_SAYS(errno == ENOMEM, "errno is %d", errno);
    while ((p = list)) {
        list = *p;
        drop(p);
    }
    REQUIRE(setrlimit(RLIMIT_AS, &old) == 0);
    mix(18, 50);
}

/* Ends of the process. */

static void work_end(void)
{
    mix(19, 80);
}

static void work_signal(void)
{
    mix(20, 40);
    for (int i = 0; i < 2; i++) {
        raise(SIGUSR2);
        usleep(3000);
    }
    mix(20, 40);
}

static void work_bug(void)
{
    volatile char *p = malloc(100);

    free((void *)p);
    if (p)
        p[3] = 1; /* guarded: reported, and the end; else nothing happens */
}

static const struct scenario {
    const char *name;
    void (*work)(void);
    bool marked;
} scenarios[] = {
    {"mix", work_mix, true},
    {"growth", work_growth, true},
    {"threads", work_threads, true},
    {"fork", work_fork, true},
    {"recording", work_recording, true},
    {"stats", work_stats, true},
    {"settings", work_settings, true},
    {"topology", work_topology, true},
    {"exhaustion", work_exhaustion, true},
    {"end", work_end, false},
    {"signal", work_signal, false},
    {"bug", work_bug, false},
};

/* Address space of the process that is not counted by the library. */
static long not_counted(void)
{
    return (long)(check_status("VmSize:") << 10) - (long)check_property("salloc.system_bytes");
}

/* Of the metadata, the caches of CPUs: a run has as many as it came by CPUs. */
static size_t slab_bytes(void)
{
    static const char line[] = "per-CPU slab bytes used";
    char *page = salloc_get_stats(), *at = page ? strstr(page, line) : NULL;
    size_t bytes = 0;

    while (at && at > page && at[-1] != '\n')
        at--;
    CHECK(at && sscanf(at, "MALLOC: %zu", &bytes) == 1);
    free(page);
    return bytes;
}

/* What a run leaves: compared with runs in which nothing fails. */
static const char *const figures[] = {"generic.bytes_in_use_by_app", "tcmalloc.metadata_bytes",
                                      "tcmalloc.page_heap_free"};
#define METADATA 1

int main(int argc, char **argv)
{
    const struct scenario *s = scenarios;
    long start;

    REQUIRE(argc == 2);
    check_begin();
    while (strcmp(s->name, argv[1]) != 0)
        REQUIRE(++s < scenarios + sizeof(scenarios) / sizeof(*scenarios));
    start = not_counted();
    s->work();
    if (s->marked) {
        syscall(TRACE_MARK);
        CHECK_SAYS(not_counted() == start, "%ld bytes of address space are not counted",
                   not_counted() - start);
        faulty = false;
        for (int i = 0; i < 3; i++)
            s->work();
        CHECK_SAYS(not_counted() == start, "%ld bytes of address space are not counted at the end",
                   not_counted() - start);
        malloc_trim(0);
        for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++)
            check_say("%s %zu", figures[i],
                      check_property(figures[i]) - (i == METADATA ? slab_bytes() : 0));
    }
    return check_end();
}
