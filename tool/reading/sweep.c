/* SPDX-License-Identifier: Apache-2.0 */
/* Reading many processes; see sweep.h. The child writes a struct frame for each process, and behind
 * it the bytes that it announces. */
#include "tool/reading/sweep.h"

#include "tool/base/io.h"
#include "tool/base/time.h"
#include "tool/base/text.h"
#include "tool/reading/processes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FRAME_SECONDS 3.0 /* of a process */
#define FRAME_MAX     (8u << 20)
#define FAILURES_MAX  2 /* of processes of a user */
#define USERS         64
#define LEFT_OUT      "process %d cannot be read in time, and is left out"

struct frame {
    uint64_t index;
    uint32_t code; /* enum sa_exit */
    uint32_t bytes;
};

/* Users with processes that could not be read in time. */
struct users {
    struct {
        uid_t uid;
        unsigned failures;
    } of[USERS];
    size_t count;
};

static uid_t user_of(pid_t pid)
{
    char path[32];
    struct stat s;

    snprintf(path, sizeof(path), "/proc/%d", pid);
    return stat(path, &s) == 0 ? s.st_uid : (uid_t)-1;
}

static void add_failure(struct users *users, uid_t uid)
{
    size_t i = 0;

    while (i < users->count && users->of[i].uid != uid)
        i++;
    if (i == USERS)
        return;
    users->of[i].failures = i == users->count ? 1 : users->of[i].failures + 1;
    users->of[i].uid = uid;
    users->count += i == users->count;
}

static bool is_left_out(const struct users *users, pid_t pid)
{
    uid_t uid = users->count ? user_of(pid) : 0;

    for (size_t i = 0; i < users->count; i++)
        if (users->of[i].uid == uid && users->of[i].failures >= FAILURES_MAX)
            return true;
    return false;
}

/* --- the child --- */

static void read_one(const struct sa_sweep *sweep, pid_t pid, struct sa_buffer *out,
                     struct sa_error *e)
{
    struct sa_reading r;
    char number[16];

    if (sweep->skip && sweep->skip(pid, sweep->arg)) {
        e->code = SA_EXIT_NOT_ON_IT;
        return;
    }
    snprintf(number, sizeof(number), "%d", pid);
    if (!sa_reading_open_numbers(&r, number, e))
        return;
    sweep->make(&r, sweep->arg, out, e);
    sa_reading_close(&r);
    if (!e->code && out->used > FRAME_MAX)
        sa_error_set(e, SA_EXIT_DAMAGED, "%s: it says too much", number);
}

static bool write_frame(int end, size_t index, const struct sa_buffer *out,
                        const struct sa_error *e)
{
    struct frame frame = {.index = index, .code = e->code};

    frame.bytes = (uint32_t)(e->code ? strlen(e->text) : out->used);
    return sa_io_write_all(end, &frame, sizeof(frame)) == 0 &&
           sa_io_write_all(end, e->code ? e->text : out->data, frame.bytes) == 0;
}

static void child_main(const struct sa_sweep *sweep, const struct users *users, const pid_t *list,
                       size_t from, size_t count, int end)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = from; i < count; i++) {
        struct sa_error e = {SA_EXIT_DONE, ""};
        struct sa_buffer out = {NULL, 0, 0};

        if (is_left_out(users, list[i]))
            sa_error_set(&e, SA_EXIT_DAMAGED, LEFT_OUT, list[i]);
        else
            read_one(sweep, list[i], &out, &e);
        if (!write_frame(end, i, &out, &e))
            _exit(1);
        sa_buffer_free(&out);
    }
    _exit(0);
}

/* --- its parent --- */

static double now(void)
{
    return (double)sa_time_ns(CLOCK_MONOTONIC) * 1e-9;
}

/* Exactly so many bytes until a moment, or false. */
static bool read_until(int fd, void *data, size_t bytes, double end)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    char *p = data;

    while (bytes) {
        double left = end - now();
        ssize_t n = -1;

        if (left <= 0 || (poll(&ready, 1, (int)(left * 1000) + 1) > 0 &&
                          (n = read(fd, p, bytes)) <= 0 && errno != EINTR))
            return false;
        if (n > 0) {
            p += n;
            bytes -= (size_t)n;
        }
    }
    return true;
}

static bool is_unread(uint32_t code)
{
    return code == SA_EXIT_DAMAGED || code == SA_EXIT_VERSION || code == SA_EXIT_FAILED;
}

/* Takes frames from the process `from` on; returns where the child has stopped, or `count`. */
static size_t take_frames(struct sa_sweep *sweep, const pid_t *list, size_t from, size_t count,
                          int fd, struct sa_error *e)
{
    char *data = malloc(FRAME_MAX);

    for (; data && from < count && !e->code; from++) {
        double end = now() + FRAME_SECONDS;
        struct frame frame;

        if (!read_until(fd, &frame, sizeof(frame), end) || frame.index != from ||
            frame.bytes > FRAME_MAX || !read_until(fd, data, frame.bytes, end))
            break;
        sweep->unread += is_unread(frame.code);
        if (!sweep->take(list[from], frame.code, data, frame.bytes, sweep->arg))
            sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the answer");
    }
    if (!data)
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the answer");
    free(data);
    return from;
}

/* Has a child read from there on; returns where to go on. */
static size_t sweep_from(struct sa_sweep *sweep, const struct users *users, const pid_t *list,
                         size_t from, size_t count, struct sa_error *e)
{
    int ends[2];
    pid_t child;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        sa_error_set(e, SA_EXIT_FAILED, "a pipe: %s", strerror(errno));
        return count;
    }
    fflush(stdout);
    child = fork();
    if (child == 0)
        child_main(sweep, users, list, from, count, ends[1]);
    close(ends[1]);
    if (child < 0)
        sa_error_set(e, SA_EXIT_FAILED, "a process: %s", strerror(errno));
    else
        from = take_frames(sweep, list, from, count, ends[0], e);
    close(ends[0]);
    if (child > 0) {
        kill(child, SIGKILL);
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    return from;
}

/* Notes that a process has stopped its reader. */
static void note_failure(struct sa_sweep *sweep, struct users *users, pid_t pid, struct sa_error *e)
{
    char text[64];

    snprintf(text, sizeof(text), LEFT_OUT, pid);
    sweep->unread++;
    add_failure(users, user_of(pid));
    if (!sweep->take(pid, SA_EXIT_DAMAGED, text, strlen(text), sweep->arg))
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the answer");
}

bool sa_sweep(struct sa_sweep *sweep, struct sa_error *e)
{
    struct users users = {.count = 0};
    size_t count, from = 0;
    pid_t *list = sa_processes_list(&count);

    if (!list) {
        sa_error_set(e, SA_EXIT_FAILED, "/proc cannot be read");
        return false;
    }
    while (from < count && !e->code) {
        from = sweep_from(sweep, &users, list, from, count, e);
        if (from < count && !e->code)
            note_failure(sweep, &users, list[from++], e);
    }
    free(list);
    return !e->code;
}
