/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process whose first thread has ended tells of itself what others do: its size and RSS on the
 * stats page, its mappings in profiles, the name of its program, and an output by its descriptor.
 * usage: first_ended pthread_exit | exit | joined | lives
 *   pthread_exit, exit  how the first thread ends: by libc or by the system call
 *   joined              by libc, and a thread that was made later looks
 *   lives               it does not
 */
#include "include/salloc/profile.h"
#include "include/salloc/salloc.h"

#include "test/outside/check.h"

#include <pthread.h>
#include <sys/syscall.h>

static const char *mode;

static bool first_has_ended(void)
{
    char text[512] = "", *at;
    int fd = open("/proc/self/stat", O_RDONLY);
    ssize_t n = read(fd, text, sizeof(text) - 1);

    close(fd);
    at = n > 0 ? strrchr(text, ')') : NULL;
    return at && at[2] == 'Z';
}

static char *contents(const char *path)
{
    static char text[1 << 20];
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    REQUIRE(n > 0);
    text[n] = '\0';
    close(fd);
    return text;
}

/* The functions are found by name: the library is preloaded. */
#define FIND(function) (__typeof__(function) *)check_find(#function)

static void *check_find(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);

    REQUIRE(found);
    return found;
}

static void look(void)
{
    __typeof__(salloc_get_stats) *stats = FIND(salloc_get_stats);
    __typeof__(salloc_snapshot_profile) *snapshot = FIND(salloc_snapshot_profile);
    __typeof__(salloc_profile_write_file) *write_file = FIND(salloc_profile_write_file);
    char folder[] = "/tmp/first_ended.XXXXXX", path[64], *page = stats(), *line, *at;
    salloc_profile *profile = snapshot(SALLOC_PROFILE_HEAP);

    REQUIRE(page && profile && mkdtemp(folder));
    line = strstr(page, "Bytes resident (physical memory used)");
    REQUIRE(line);
    while (line > page && line[-1] != '\n')
        line--;
    at = strchr(line, ':');
    CHECK_SAYS(at && strtoul(at + 1, NULL, 10) > (8u << 20), "%.80s", line);
    snprintf(path, sizeof(path), "%s/x.heap", folder);
    CHECK(write_file(profile, path) == 0);
    line = strstr(contents(path), "MAPPED_LIBRARIES:");
    CHECK(line && strstr(line, "libsalloc") && strstr(line, "process_life_first_ended"));
    unlink(path);
    snprintf(path, sizeof(path), "%s/x.folded", folder);
    CHECK(write_file(profile, path) == 0);
    CHECK_SAYS(strstr(contents(path), "hold_memory"), "no name of a function of the program");
    unlink(path);
    rmdir(folder);
}

static void *volatile blocks[64];

__attribute__((noinline)) static void hold_memory(void)
{
    for (int i = 0; i < 64; i++)
        blocks[i] = memset(malloc(1 << 18), 1, 1 << 18);
}

static void *watch(void *arg)
{
    for (int i = 0; strcmp(mode, "lives") != 0 && !first_has_ended() && i < 1000; i++)
        usleep(10000);
    REQUIRE(first_has_ended() == (strcmp(mode, "lives") != 0));
    look();
    _exit(check_failures != 0);
    return arg;
}

static void *begin_watch(void *arg)
{
    pthread_t thread;

    usleep(20000);
    REQUIRE(pthread_create(&thread, NULL, watch, NULL) == 0);
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t thread;

    mode = argc > 1 ? argv[1] : "";
    hold_memory();
    REQUIRE(pthread_create(&thread, NULL, strcmp(mode, "joined") == 0 ? begin_watch : watch,
                           NULL) == 0);
    if (strcmp(mode, "lives") == 0)
        pause();
    if (strcmp(mode, "exit") == 0)
        syscall(SYS_exit, 0);
    pthread_exit(NULL);
}
