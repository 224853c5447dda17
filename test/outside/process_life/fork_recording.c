/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile of lifetimes is asked for by a signal while a fork takes long, and cannot be made.
 * Proves that the recording goes on: the next signal writes it. usage: fork_recording [PATH], PATH
 * for the program's own use
 */
#include "test/outside/check.h"
#include "test/outside/own_stderr.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

/* Much longer than the second for which the library tries. */
#define LONG_MS 30000

static int said; /* what is written to stderr */

/* Runs after the library's handler, which stops profiles from being made; until the library has
 * given up. */
static void prepare(void)
{
    struct pollfd ready = {.fd = said, .events = POLLIN};
    char text[200] = {0};

    kill(getpid(), SIGUSR2);
    REQUIRE(poll(&ready, 1, LONG_MS) == 1);
    REQUIRE(read(said, text, sizeof(text) - 1) > 0);
    CHECK_SAYS(strstr(text, "cannot write profile"), "%s", text);
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
    own_stderr_begin(arguments);
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
    said = own_stderr_begin(argv);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0)
        _exit(0);
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(access(path, F_OK) != 0);
    kill(getpid(), SIGUSR2);
    for (end = check_now() + 5; access(path, F_OK) != 0 && check_now() < end;)
        usleep(1000);
    CHECK(unlink(path) == 0);
    rmdir(argv[1]);
    _exit(check_end()); /* nothing is written at exit */
}
