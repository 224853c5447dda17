/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork while another thread is in the loader, whose lock is never released in the child. Proves
 * that the child can write profiles all the same, that they name what is loaded as the parent's do,
 * and that profiles in the parent go on. usage: fork_loader SCRATCH
 */
#include "include/salloc/profile.h"
#include "test/outside/check.h"

#include <link.h>
#include <pthread.h>
#include <sys/wait.h>

static int inside, leave; /* atomic */

static int stay(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)info, (void)size, (void)arg;
    __atomic_store_n(&inside, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&leave, __ATOMIC_ACQUIRE))
        usleep(1000);
    return 1;
}

static void *stay_in_loader(void *arg)
{
    dl_iterate_phdr(stay, arg);
    return arg;
}

/* A file with a profile's text up to what the kernel maps; freed by the caller. */
static char *write_and_read(const char *scratch, const char *name)
{
    salloc_profile *profile = salloc_snapshot_profile(SALLOC_PROFILE_HEAP);
    char path[4096], *text = calloc(1, 1 << 20);
    int fd;

    REQUIRE(profile && text);
    snprintf(path, sizeof(path), "%s/%d.%s", scratch, getpid(), name);
    REQUIRE(salloc_profile_write_file(profile, path) == 0);
    salloc_profile_free(profile);
    fd = open(path, O_RDONLY);
    REQUIRE(fd >= 0 && read(fd, text, (1 << 20) - 1) > 40);
    close(fd);
    unlink(path);
    return text;
}

int main(int argc, char **argv)
{
    void *blocks[100];
    pthread_t thread;
    char *text;
    pid_t pid;
    int status;

    REQUIRE(argc == 2);
    check_begin();
    alarm(60);
    REQUIRE(salloc_set_sampling_interval(1) == 0);
    for (int i = 0; i < 100; i++)
        blocks[i] = malloc(1000);
    REQUIRE(salloc_set_sampling_interval(0) == 0);
    REQUIRE(pthread_create(&thread, NULL, stay_in_loader, NULL) == 0);
    while (!__atomic_load_n(&inside, __ATOMIC_ACQUIRE))
        usleep(1000);

    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        alarm(30); /* is not handed down */
        text = write_and_read(argv[1], "child.collapsed");
        REQUIRE(strstr(text, "main"));
        REQUIRE(strstr(text, "libc"));
        free(write_and_read(argv[1], "child.pb.gz"));
        free(write_and_read(argv[1], "child.heap"));
        exit(0);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_SAYS(status == 0, "the child ended with %#x", (unsigned)status);
    __atomic_store_n(&leave, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    free(write_and_read(argv[1], "parent.pb.gz"));
    for (int i = 0; i < 100; i++)
        free(blocks[i]);
    return check_end();
}
