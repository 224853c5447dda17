/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process costs. usage: footprint trivial | once | idle
 *
 *   trivial   one allocation: at most 3 MiB resident, at most 64 MiB of address space
 *   once      1000 threads that each allocate once: below 24 MiB resident
 *   idle      300 threads that held 1 MiB each and do nothing now: below 64 MiB, a little later
 */
#include "test/outside/check.h"

#include <link.h>
#include <pthread.h>

enum { IDLE_BLOCKS = 256, IDLE_BYTES = 4096, IDLE_SECONDS = 10 };

static pthread_barrier_t barrier;

static void *once(void *arg)
{
    char *p = malloc(100);

    REQUIRE(p);
    CHECK_OPAQUE(p);
    *p = 1;
    free(p);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return arg;
}

static void *idle(void *arg)
{
    char *v[IDLE_BLOCKS];

    for (int i = 0; i < IDLE_BLOCKS; i++) {
        v[i] = malloc(IDLE_BYTES);
        REQUIRE(v[i]);
        memset(v[i], 1, IDLE_BYTES);
    }
    for (int i = 0; i < IDLE_BLOCKS; i++)
        free(v[i]);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return arg;
}

/* Resident KiB while so many threads wait; the least within some seconds of a little work. */
static size_t with_threads(int n, void *(*work)(void *), int seconds)
{
    double end;
    size_t min;
    pthread_t thread;
    pthread_attr_t attr;

    pthread_barrier_init(&barrier, NULL, (unsigned)n + 1);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 64 << 10);
    for (int i = 0; i < n; i++)
        REQUIRE(pthread_create(&thread, &attr, work, NULL) == 0);
    pthread_barrier_wait(&barrier);
    min = check_status("VmRSS:");
    for (end = check_now() + seconds; check_now() < end;) {
        size_t now;

        free(malloc(60));
        usleep(10000);
        now = check_status("VmRSS:");
        min = now < min ? now : min;
    }
    return min;
}

static int tls_of(struct dl_phdr_info *info, size_t size, void *ret)
{
    (void)size;
    if (strstr(info->dlpi_name, "libsalloc.so"))
        for (int i = 0; i < info->dlpi_phnum; i++)
            if (info->dlpi_phdr[i].p_type == PT_TLS)
                *(size_t *)ret = info->dlpi_phdr[i].p_memsz;
    return 0;
}

static void trivial(void)
{
    size_t tls = 0;
    void *p = malloc(10);

    REQUIRE(p);
    CHECK_SAYS(check_status("VmHWM:") <= 3 * 1024, "%zu KiB resident", check_status("VmHWM:"));
    CHECK_SAYS(check_status("VmPeak:") <= 64 * 1024, "%zu KiB of address space",
               check_status("VmPeak:"));
    dl_iterate_phdr(tls_of, &tls);
    CHECK_SAYS(tls <= 64, "%zu bytes of static TLS", tls);
    free(p);
}

int main(int argc, char **argv)
{
    size_t kib;

    REQUIRE(argc == 2);
    if (strcmp(argv[1], "trivial") == 0) {
        trivial();
    } else if (strcmp(argv[1], "once") == 0) {
        kib = with_threads(1000, once, 1);
        CHECK_SAYS(kib < 24 * 1024, "%zu KiB resident", kib);
    } else {
        kib = with_threads(300, idle, IDLE_SECONDS);
        CHECK_SAYS(kib < 64 * 1024, "%zu KiB resident", kib);
    }
    check_begin();
    fflush(NULL);
    _exit(check_end()); /* the threads wait for ever */
}
