/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real memory pressure: a control group whose memory is short, in which threads read at random from
 * a file that is far longer, so that the kernel has to take pages back all the time and tasks wait
 * for it. With SALLOC_CONF=pressure:on the kernel's trigger wakes the maintenance thread, and what
 * is free goes back. Skipped where no such group can be made, or where the kernel says that nobody
 * waited long enough.
 *
 * usage: pressure SYSTEM (the pressure of all tasks is watched) | GROUP (that of the process's
 *        group of version 2) pressure PRESS  (in the group)
 */
#include "include/salloc/salloc.h"
#include "test/outside/check.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#define MIB        (1ul << 20)
#define LIMIT      "33554432"
#define FILE_BYTES (160 * MIB)
#define THREADS    16
#define BLOCKS     1000
#define TMPFS      0x01021994

/* What the trigger asks for: so many microseconds in two seconds. */
#define WAITED_US 150000

static bool write_file(const char *folder, const char *name, const char *text)
{
    char path[300];
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : write(fd, text, strlen(text));
    if (fd >= 0)
        close(fd);
    return n == (ssize_t)strlen(text);
}

static bool read_file(const char *path, char text[4096])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, 4095);

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* Microseconds that some task has waited, as the file says. */
static uint64_t waited(const char *path)
{
    char text[4096], *at;

    at = read_file(path, text) ? strstr(text, "total=") : NULL;
    return at ? strtoull(at + 6, NULL, 10) : 0;
}

static int fd = -1;
static volatile bool stop;

static void *press(void *arg)
{
    const volatile char *p = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    uint64_t state = (uintptr_t)arg;

    REQUIRE(p != MAP_FAILED);
    madvise((void *)p, FILE_BYTES, MADV_RANDOM);
    while (!stop)
        (void)p[check_random(&state) % FILE_BYTES];
    return NULL;
}

static void make_file(void)
{
    static char some[MIB];
    struct statfs fs;

    fd = open("pressure.data", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0);
    unlink("pressure.data");
    if (fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS)
        SKIP("files here are memory");
    memset(some, 7, sizeof(some));
    for (size_t i = 0; i < FILE_BYTES; i += sizeof(some))
        if (write(fd, some, sizeof(some)) != (ssize_t)sizeof(some))
            SKIP("no room for a file");
    fsync(fd);
}

/* Blocks that come and go: there is always something to give back. */
static void churn(void)
{
    char *blocks[BLOCKS];

    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(8000);
        REQUIRE(blocks[i]);
        memset(blocks[i], 1, 8000);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

static size_t property(const char *name)
{
    static int (*get)(const char *, size_t *);
    size_t value = 0;

    if (!get)
        *(void **)&get = dlsym(RTLD_DEFAULT, "salloc_get_numeric_property");
    REQUIRE(get);
    CHECK(get(name, &value) == 0);
    return value;
}

/* The file that the maintenance thread waits on. */
static bool find_watched(char path[4096])
{
    for (int i = 0; i < 64; i++) {
        char link[64];
        ssize_t n;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", i);
        n = readlink(link, path, 4095);
        path[n > 0 ? n : 0] = '\0';
        if (strstr(path, "/memory.pressure") || strcmp(path, "/proc/pressure/memory") == 0)
            return true;
    }
    return false;
}

static int in_group(void)
{
    pthread_t threads[THREADS];
    char path[4096] = "";
    uint64_t last[9] = {0}, max = 0;
    double start;

    make_file();
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, press, (void *)i) == 0);
    start = check_now();
    for (int i = 0; check_now() < start + 30 && property("salloc.pressure_events") < 2; i++) {
        uint64_t now;

        churn();
        usleep(250000);
        if (!path[0] && property("salloc.pressure_source") == 2 && !find_watched(path))
            path[0] = '\0';
        now = path[0] ? waited(path) : 0;
        if (last[i % 9] && now - last[i % 9] > max) /* nine rounds ago: two seconds and more */
            max = now - last[i % 9];
        last[i % 9] = now;
    }
    check_say("%s: %zu events in %.1f s, %zu bytes given back; at most %llu us waited in 2 s", path,
              property("salloc.pressure_events"), check_now() - start,
              property("salloc.pressure_released_bytes"), (unsigned long long)max);
    if (property("salloc.pressure_source") != 2)
        SKIP("the kernel allows no trigger");
    if (property("salloc.pressure_events") == 0 && max < 2 * WAITED_US)
        SKIP("nobody waits for memory here");
    CHECK(strstr(path, getenv("SALLOC_TEST_WATCHED")) != NULL);
    CHECK(property("salloc.pressure_events") > 0);
    CHECK(property("salloc.pressure_released_bytes") > 0);
    _exit(check_end());
}

static char v1[200], v2[200]; /* folders of the groups; "": none */

static bool make(char folder[200], const char *parent)
{
    struct stat there;
    char path[300];

    snprintf(path, sizeof(path), "%s/cgroup.procs", parent);
    if (stat(path, &there) != 0)
        return false;
    snprintf(folder, 200, "%s/salloc-test-%d", parent, (int)getpid());
    if (mkdir(folder, 0755) == 0)
        return true;
    folder[0] = '\0';
    return false;
}

/* A limit of whatever version of groups there is. */
static bool make_groups(void)
{
    bool has_v2 = make(v2, "/sys/fs/cgroup/unified") || make(v2, "/sys/fs/cgroup");

    if (has_v2 && write_file(v2, "memory.max", LIMIT))
        return true;
    return make(v1, "/sys/fs/cgroup/memory") && write_file(v1, "memory.limit_in_bytes", LIMIT);
}

static void remove_groups(void)
{
    for (int i = 0; i < 50 && ((v1[0] && rmdir(v1) != 0 && errno == EBUSY) ||
                               (v2[0] && rmdir(v2) != 0 && errno == EBUSY));
         i++)
        usleep(20000);
}

int main(int argc, char **argv)
{
    bool group;
    char text[4096];
    int status;
    pid_t child;

    REQUIRE(argc == 2);
    check_begin();
    if (strcmp(argv[1], "PRESS") == 0)
        return in_group();
    group = strcmp(argv[1], "GROUP") == 0;
    if (!read_file("/proc/pressure/memory", text))
        SKIP("the kernel does not tell of pressure");
    if (!make_groups()) {
        remove_groups();
        SKIP("no control group with a limit can be made");
    }
    snprintf(text, sizeof(text), "%s/memory.pressure", v2);
    if (group && access(text, R_OK) != 0) {
        remove_groups();
        SKIP("control groups do not tell of pressure");
    }
    if (!group && !v1[0]) {
        remove_groups();
        SKIP("each limit is of a group that is watched");
    }
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        if ((v1[0] && !write_file(v1, "cgroup.procs", "0")) ||
            (group && !write_file(v2, "cgroup.procs", "0")))
            SKIP("a group cannot be entered");
        setenv("SALLOC_TEST_WATCHED", group ? v2 : "pressure", 1);
        execl("/proc/self/exe", argv[0], "PRESS", (char *)NULL);
        _exit(1);
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    remove_groups();
    if (WIFSIGNALED(status))
        check_say("killed by signal %d", WTERMSIG(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
