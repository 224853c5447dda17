/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Downloads in a child process; see debuginfod.h. libdebuginfod waits within calls: for names of
 * hosts, and for a thread that resolves them even after it was told to stop. A call that is told to
 * stop also notes in the cache that there is no such file. So the child ends itself within the call
 * a moment before its time is over, without its unfinished file, or is killed then.
 * libdebuginfod asks all servers at once and does not say which one failed, so they fail together,
 * but for an error that comes at once while there are others.
 * State: `command` and `late` are shared with child processes. Those of a command wait one at a
 * time, and all write the same to `late`. The others are set before there is a child.
 */
#include "tool/symbol/debuginfod.h"

#include "tool/base/child.h"
#include "tool/base/note.h"
#include "tool/base/time.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#define URLS         "DEBUGINFOD_URLS"
#define LIBRARY      "libdebuginfod.so.1"
#define STOP_SECONDS 0.2 /* from the child's stop to its end */
#define ID_MAX       64  /* bytes of a build id */
#define DESCRIPTORS  256
#define TICK_US      50000 /* from one look at the time to the next, once it is over */

/* The calls of libdebuginfod that are used; its header may not be there. */
typedef struct debuginfod_client client;
typedef int find(client *, const unsigned char *id, int bytes, char **ret_path);
typedef int progress(client *, long done, long all);

struct command {
    double waited; /* seconds */
    bool failed;   /* the servers are not asked again, and a note says why */
    bool lacking;  /* a file was wanted of servers that failed */
};

static struct command *command; /* NULL: there are no servers */
static volatile bool *late;     /* the servers do not answer: the same for all commands */
static char *urls;
static double allowed = SA_DEBUGINFOD_SECONDS;

static void *shared(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    return at == MAP_FAILED ? NULL : at;
}

void sa_debuginfod_begin(void)
{
    const char *all = getenv(URLS);

    urls = all && all[strspn(all, " ")] ? strdup(all) : NULL;
    late = urls ? shared(sizeof(*late)) : NULL;
    sa_debuginfod_begin_command();
    unsetenv(URLS);
}

void sa_debuginfod_begin_command(void)
{
    command = late ? shared(sizeof(*command)) : NULL;
}

void sa_debuginfod_allow(double seconds)
{
    allowed = seconds;
}

double sa_debuginfod_allowed(void)
{
    return urls ? allowed : 0;
}

bool sa_debuginfod_was_lacking(void)
{
    return command && command->lacking;
}

/* --- the child --- */

struct download {
    const unsigned char *id;
    size_t bytes;
    bool debug;
    double seconds;
};

/* Of the child. */
static const struct download *current;
static double stop_at;

/* Removes the file in the cache that the library has begun: .../BUILD-ID/debuginfo.XXXXXX. */
static void remove_unfinished(void)
{
    char path[PATH_MAX], name[64], folder[2 * ID_MAX + 3] = "/";
    ssize_t n;

    for (size_t i = 0; i < current->bytes && i < ID_MAX; i++)
        sprintf(folder + 1 + 2 * i, "%02x", current->id[i]);
    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        const char *base;

        snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
        n = readlink(name, path, sizeof(path) - 1);
        if (n <= 0)
            continue;
        path[n] = '\0';
        base = strrchr(path, '/');
        if (base && strchr(base, '.') && (size_t)(base - path) >= strlen(folder) &&
            memcmp(base - strlen(folder), folder, strlen(folder)) == 0)
            unlink(path);
    }
}

/* A call for each piece of data and each second. */
static int end_in_time(client *c, long done, long all)
{
    (void)c;
    (void)done;
    (void)all;
    if (sa_time_seconds() < stop_at)
        return 0;
    remove_unfinished();
    _exit(1);
}

static void wake(int number)
{
    (void)number; /* it ends the wait of curl, which looks at the time then */
}

static void set_alarm(double seconds)
{
    struct sigaction action = {.sa_handler = wake};
    struct itimerval timer = {.it_interval.tv_usec = TICK_US};

    seconds = seconds > STOP_SECONDS ? seconds - STOP_SECONDS : 0;
    stop_at = sa_time_seconds() + seconds;
    timer.it_value.tv_sec = (time_t)seconds;
    timer.it_value.tv_usec = 1 + (suseconds_t)((seconds - (double)(time_t)seconds) * 999998);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* The answer: an error's number as a line, or 0 and the path of the file. */
static bool download(void *arg, int fd)
{
    const struct download *d = arg;
    void *library = dlopen(LIBRARY, RTLD_NOW);
    client *(*begin)(void) = NULL;
    void (*set_progress)(client *, progress *) = NULL;
    find *call = NULL;
    client *c;
    char *path = NULL;
    int file;

    if (library) {
        *(void **)&begin = dlsym(library, "debuginfod_begin");
        *(void **)&set_progress = dlsym(library, "debuginfod_set_progressfn");
        *(void **)&call =
            dlsym(library, d->debug ? "debuginfod_find_debuginfo" : "debuginfod_find_executable");
    }
    if (!begin || !set_progress || !call)
        return dprintf(fd, "%d\n", ENOENT) > 0; /* as without servers */
    setenv(URLS, urls, 1);
    c = begin();
    if (!c)
        return false;
    set_progress(c, end_in_time);
    current = d;
    set_alarm(d->seconds);
    file = call(c, d->id, (int)d->bytes, &path);
    if (file < 0)
        return dprintf(fd, "%d\n", -file) > 0;
    return dprintf(fd, "0\n%s", path) > 0;
}

/* --- the command --- */

static void fail(const char *why)
{
    if (command->failed)
        return;
    command->failed = command->lacking = true;
    sa_note("some names may come without source lines: the debuginfod servers (%s) %s", urls, why);
}

static void tell_late(void)
{
    char why[128];

    snprintf(why, sizeof(why), "take more than %g seconds; --debuginfod SECONDS waits longer",
             allowed);
    fail(why);
    *late = true;
}

/* Understands the answer. */
static int open_answer(char *answer, size_t bytes, char **ret_path)
{
    char *path = memchr(answer, '\n', bytes), why[128];
    int error = path ? atoi(answer) : EIO, fd;

    if (error == ENOENT || error == ENOSYS)
        return -1; /* servers without the file; no servers */
    if (error && strchr(urls + strspn(urls, " "), ' '))
        return -1; /* of one of them */
    if (error) {
        *late |= error == ETIME || error == ECONNREFUSED || error == EHOSTUNREACH;
        snprintf(why, sizeof(why), "cannot be asked: %s", strerror(error));
        fail(why);
        return -1;
    }
    fd = open(path + 1, O_RDONLY | O_CLOEXEC);
    *ret_path = fd >= 0 ? strdup(path + 1) : NULL;
    return fd;
}

int sa_debuginfod_open(const unsigned char *id, size_t bytes, bool debug, char **ret_path)
{
    double start = sa_time_seconds(), left = command ? allowed - command->waited : 0;
    struct download d = {id, bytes, debug, left};
    struct sa_child_task task = {
        .run = download, .arg = &d, .seconds = left, .answer_max = PATH_MAX + 16};
    struct sa_buffer answer = {NULL, 0, 0};
    enum sa_child_end end;
    int number, fd = -1;

    *ret_path = NULL;
    if (!command || !(allowed > 0))
        return -1;
    command->lacking |= command->failed || *late;
    if (command->lacking)
        return -1;
    if (left <= STOP_SECONDS) {
        tell_late();
        return -1;
    }
    end = sa_child_run(&task, &answer, &number);
    command->waited += sa_time_seconds() - start;
    if (end == SA_CHILD_LATE || command->waited > allowed - STOP_SECONDS)
        tell_late();
    else if (end != SA_CHILD_DONE)
        fail("cannot be asked: their reader failed");
    if (end == SA_CHILD_DONE && answer.used && sa_buffer_add(&answer, 1)) {
        answer.data[answer.used - 1] = '\0';
        fd = open_answer(answer.data, answer.used, ret_path);
    }
    sa_buffer_free(&answer);
    return fd;
}
