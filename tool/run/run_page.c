/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a program and makes a page of its profile; see run_page.h. The profile lies in a folder of
 * its own, by the PID of each process, because what the program starts writes profiles as well.
 *
 * The terminal sends SIGINT and SIGQUIT to the program, too, so this process ignores them. It
 * passes on what others send to it alone.
 */
#include "tool/run/run_page.h"

#include "tool/base/budget.h"
#include "tool/base/error.h"
#include "tool/page/flame.h"
#include "tool/reading/input.h"
#include "tool/reading/ticker.h"

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

#define FILE_NAME     "/%p.pb.gz" /* the library replaces %p by the PID */
#define FIRST_READING 0.05        /* seconds after the start, at the latest */

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

/* Starts the program, with the signals that this process had blocked. Returns 0 or an errno. */
static int start(char **argv, const sigset_t *blocked)
{
    posix_spawnattr_t attributes;
    sigset_t defaults;
    pid_t pid;
    int error;

    set_signals(&defaults);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setsigmask(&attributes, blocked);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    sa_budget_end();
    error = posix_spawnp(&pid, argv[0], NULL, &attributes, argv, environ);
    sa_budget_begin(UINT64_MAX);
    posix_spawnattr_destroy(&attributes);
    if (!error)
        program = pid;
    return error;
}

/* Waits until the program has ended; its wait status. */
static int wait_for(void)
{
    int status = 0;

    while (waitpid(program, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* The same, and reads it every so many seconds. SIGCHLD, which is blocked, ends a pause. It cannot
 * be read before it has come to its own code. */
static int watch(struct sa_moments *m, double every, const sigset_t *ends)
{
    struct sa_ticker ticker = sa_ticker_begin(every);
    int status = 0;

    if (ticker.next > FIRST_READING)
        ticker.next = FIRST_READING;
    while (waitpid(program, &status, WNOHANG) == 0) {
        double seconds = sa_ticker_next(&ticker);
        struct timespec left = {.tv_sec = (time_t)seconds};

        left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
        if (sigtimedwait(ends, NULL, &left) < 0 && errno == EAGAIN) {
            struct sa_error e = {SA_EXIT_DONE, ""};

            sa_moments_add(m, program, &e);
            ticker.next += every;
        }
    }
    return status;
}

/* Runs the program; its wait status. m: what is read of it meanwhile, every so many seconds. */
static int run(char **argv, struct sa_moments *m, double every, int *ret_error)
{
    sigset_t ends, blocked;
    int status;

    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ends, &blocked);
    *ret_error = start(argv, &blocked);
    status = *ret_error ? 0 : every > 0 ? watch(m, every, &ends) : wait_for();
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    return status;
}

/* Makes the page of a profile, in its place of the folder, or that of a time line. */
static void make_page(const char *folder, struct sa_moments *m, const char *title, const char *page,
                      const char *unfit)
{
    struct sa_error e = {SA_EXIT_DONE, ""};
    char path[SA_RUN_PROFILE_MAX + 16];
    struct sa_profile_file file;

    snprintf(path, sizeof(path), "%s/%d.pb.gz", folder, (int)program);
    if (m && sa_moments_are_many(m)) {
        if (sa_flame_write_moments(m, NULL, NULL, title, page, &e))
            fprintf(stderr, "sallocctl: %s shows the heap of %s at %zu moments\n", page, title,
                    m->count);
    } else if (access(path, F_OK) != 0) {
        fprintf(stderr, "sallocctl: %s left no profile: %s\n", title,
                unfit ? unfit : "a signal or _exit ended it");
    } else if (sa_input_read(&file, (struct sa_source){.name = path}, &e)) {
        if (sa_flame_write(&file, NULL, title, page, &e))
            fprintf(stderr, "sallocctl: %s shows the heap of %s\n", page, title);
        sa_profile_file_free(&file);
    }
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

int sa_run_page(char **argv, const char *profile, const char *page, double every, const char *unfit,
                int *ret_error)
{
    char folder[SA_RUN_PROFILE_MAX];
    struct sa_moments *m = every > 0 ? calloc(1, sizeof(*m)) : NULL;
    int status = run(argv, m, m ? every : 0, ret_error);

    snprintf(folder, sizeof(folder), "%.*s", (int)(strlen(profile) - strlen(FILE_NAME)), profile);
    if (!*ret_error)
        make_page(folder, m, argv[0], page, unfit);
    if (m)
        sa_moments_free(m);
    free(m);
    remove_folder(folder);
    return *ret_error ? 0 : end_alike(status);
}
