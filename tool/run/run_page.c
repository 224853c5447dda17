/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a program and makes a page of its profile; see run_page.h. The profile lies in a folder of
 * its own, by the PID of each process, because what the program starts writes profiles as well.
 *
 * The terminal sends SIGINT and SIGQUIT to the program, too, so this process ignores them. It
 * passes on what others send to it alone.
 */
#include "tool/run/run_page.h"

#include "tool/base/error.h"
#include "tool/page/flame.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define FILE_NAME "/%p.pb.gz" /* the library replaces %p by the PID */

static volatile sig_atomic_t program; /* its PID; 0: not yet */

static void pass_on(int signal)
{
    if (program)
        kill(program, signal);
}

int sa_run_page_prepare(char ret[SA_RUN_PROFILE_MAX])
{
    strcpy(ret, "/tmp/sallocctl.XXXXXX");
    if (!mkdtemp(ret))
        return errno;
    strcat(ret, FILE_NAME);
    return 0;
}

/* Sets how this process takes signals, and adds to *defaults those that the program is to take as
 * if it had been started without it. */
static void set_signals(sigset_t *defaults)
{
    static const struct {
        int signal;
        void (*handler)(int);
    } signals[] = {
        {SIGINT, SIG_IGN}, {SIGQUIT, SIG_IGN}, {SIGTERM, pass_on},
        {SIGHUP, pass_on}, {SIGUSR1, pass_on}, {SIGUSR2, pass_on},
    };

    sigemptyset(defaults);
    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
        struct sigaction action = {.sa_handler = signals[i].handler, .sa_flags = SA_RESTART}, old;

        sigaction(signals[i].signal, NULL, &old);
        if (old.sa_handler == SIG_IGN)
            continue;
        sigaction(signals[i].signal, &action, NULL);
        sigaddset(defaults, signals[i].signal);
    }
}

/* Runs the program; its wait status. */
static int run(char **argv, int *ret_error)
{
    posix_spawnattr_t attributes;
    sigset_t defaults;
    int status = 0;
    pid_t pid;

    set_signals(&defaults);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    *ret_error = posix_spawnp(&pid, argv[0], NULL, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    if (*ret_error)
        return 0;
    program = pid;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* Makes the page of a profile, in its place of the folder. */
static void make_page(const char *folder, const char *title, const char *page)
{
    struct sa_error e = {SA_EXIT_DONE, ""};
    char path[SA_RUN_PROFILE_MAX + 16];

    snprintf(path, sizeof(path), "%s/%d.pb.gz", folder, (int)program);
    if (access(path, F_OK) != 0)
        fprintf(stderr,
                "sallocctl: %s left no profile: a signal or _exit ended it, it is static, or it "
                "gained privileges\n",
                title);
    else if (sa_flame_write(path, NULL, title, page, &e))
        fprintf(stderr, "sallocctl: %s shows the heap of %s\n", page, title);
    sa_error_print(&e);
}

/* Removes the folder with all profiles. */
static void remove_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(folder);
}

/* Ends as the program has. */
static int end_alike(int status)
{
    static const struct rlimit no_core;

    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    setrlimit(RLIMIT_CORE, &no_core); /* the program has left one, if it was to */
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
    return 128 + WTERMSIG(status); /* as a shell says it */
}

int sa_run_page(char **argv, const char *profile, const char *page, int *ret_error)
{
    char folder[SA_RUN_PROFILE_MAX];
    int status = run(argv, ret_error);

    snprintf(folder, sizeof(folder), "%.*s", (int)(strlen(profile) - strlen(FILE_NAME)), profile);
    if (!*ret_error)
        make_page(folder, argv[0], page);
    remove_folder(folder);
    return *ret_error ? 0 : end_alike(status);
}
