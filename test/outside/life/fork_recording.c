/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile of lifetimes is asked for by a signal while a fork takes long, and cannot be made. Proves that the
 * recording goes on: the next signal writes it. usage: fork_recording [PATH], PATH for the program's own use
 */
#include "test/outside/check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

/* Longer than the second for which the library tries. */
#define LONG_US 1500000

/* Runs after the library's handler, which stops profiles from being made. */
static void prepare(void)
{
    kill(getpid(), SIGUSR2);
    usleep(LONG_US);
}

static void preinit(void)
{
    if (pthread_atfork(prepare, NULL, NULL) != 0)
        _exit(1);
}

__attribute__((section(".preinit_array"), used)) static void (*preinit_entry)(void) = preinit;

/* Starts the program again with the options that it needs. */
static void start_again(char *self)
{
    char path[] = "/tmp/salloc-test-XXXXXX", conf[200];
    char *arguments[] = {self, path, NULL};

    REQUIRE(mkdtemp(path));
    snprintf(conf, sizeof(conf), "profile:%s/life.txt,profile_type:lifetime,profile_signal:USR2",
             path);
    setenv("SALLOC_CONF", conf, 1);
    execv("/proc/self/exe", arguments);
    _exit(1);
}

int main(int argc, char **argv)
{
    double end;
    char path[200];
    int status;
    pid_t pid;

    check_begin();
    alarm(60);
    if (argc == 1)
        start_again(argv[0]);
    snprintf(path, sizeof(path), "%s/life.txt", argv[1]);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0)
        _exit(0);
    REQUIRE(waitpid(pid, &status, 0) == pid);
    usleep(LONG_US); /* until the thread that writes has given up */
    CHECK(access(path, F_OK) != 0);
    kill(getpid(), SIGUSR2);
    for (end = check_now() + 5; access(path, F_OK) != 0 && check_now() < end;)
        usleep(1000);
    CHECK(unlink(path) == 0);
    rmdir(argv[1]);
    _exit(check_end()); /* nothing is written at exit */
}
