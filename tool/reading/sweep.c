/* SPDX-License-Identifier: Apache-2.0 */
/* Reading many processes; see sweep.h. The child writes a struct frame for each process, and behind
 * it the bytes that it announces. */
#include "tool/reading/sweep.h"

#include "tool/base/child.h"
#include "tool/base/io.h"
#include "tool/base/text.h"
#include "tool/base/time.h"
#include "tool/reading/processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* A sweep on its way. */
struct run {
    struct sa_sweep *sweep;
    pid_t *list;
    size_t count, next; /* next: where a child begins */
    struct users users;
    struct sa_sweep_moment *moments;     /* of each process, pid 0: not known; or NULL */
    struct sa_sweep_cache_entry **found; /* what is known of each; or NULL */
    size_t reused;                       /* entries of processes on salloc */
    struct sa_sweep_cache fresh;         /* what is known from now on */
};

static struct sa_sweep_cache_entry *cached(const struct run *run, size_t i)
{
    return run->found ? run->found[i] : NULL;
}

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

    if (sweep->skip && sweep->skip(pid, sweep->arg)) {
        e->code = SA_EXIT_NOT_ON_IT;
        return;
    }
    if (!sa_reading_open_numbers(&r, (struct sa_source){.pid = pid}, e))
        return;
    if (sa_process_shares_memory(pid))
        e->code = SA_EXIT_NOT_ON_IT;
    else
        sweep->make(&r, sweep->arg, out, e);
    sa_reading_close(&r);
    if (!e->code && out->used > FRAME_MAX)
        sa_error_set(e, SA_EXIT_DAMAGED, "%d: it says too much", pid);
}

static bool write_frame(int end, size_t index, const struct sa_buffer *out,
                        const struct sa_error *e)
{
    struct frame frame = {.index = index, .code = e->code};

    frame.bytes = (uint32_t)(e->code ? strlen(e->text) : out->used);
    return sa_io_write_all(end, &frame, sizeof(frame)) == 0 &&
           sa_io_write_all(end, e->code ? e->text : out->data, frame.bytes) == 0;
}

/* From the process `next` on. */
static bool read_processes(void *arg, int end)
{
    const struct run *run = arg;

    for (size_t i = run->next; i < run->count; i++) {
        struct sa_error e = {SA_EXIT_DONE, ""};
        struct sa_buffer out = {NULL, 0, 0};

        if (cached(run, i))
            continue;
        if (is_left_out(&run->users, run->list[i]))
            sa_error_set(&e, SA_EXIT_DAMAGED, LEFT_OUT, run->list[i]);
        else
            read_one(run->sweep, run->list[i], &out, &e);
        if (!write_frame(end, i, &out, &e))
            return false;
        sa_buffer_free(&out);
    }
    return true;
}

/* --- its parent --- */

/* Exactly so many bytes until a moment, or false. */
static bool read_until(int fd, void *data, size_t bytes, double end)
{
    ssize_t n = 0;

    for (char *p = data; bytes && (n = sa_child_read(fd, p, bytes, end)) > 0; p += n)
        bytes -= (size_t)n;
    return !bytes;
}

static bool is_unread(uint32_t code)
{
    return code == SA_EXIT_DAMAGED || code == SA_EXIT_VERSION || code == SA_EXIT_FAILED;
}

/* Takes what was found of a process, or was known. */
static void take(struct run *run, size_t i, uint32_t code, const char *data, size_t bytes,
                 struct sa_error *e)
{
    struct sa_sweep *sweep = run->sweep;
    struct sa_sweep_cache_entry *entry = cached(run, i);
    bool fine = !sweep->take || sweep->take(run->list[i], code, data, bytes, sweep->arg);

    sweep->unread += is_unread(code);
    if (entry)
        fine = sa_sweep_cache_move(&run->fresh, entry) && fine;
    else if (run->moments && run->moments[i].pid)
        fine = sa_sweep_cache_add(&run->fresh, &run->moments[i], code, data, bytes) && fine;
    if (!fine)
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the answer");
    if (code == SA_EXIT_DONE) {
        sweep->changed += !entry;
        run->reused += entry != NULL;
    }
}

/* Takes what is known, up to the first process of which nothing is; returns that one. */
static size_t take_known(struct run *run, size_t from, struct sa_error *e)
{
    for (; from < run->count && cached(run, from) && !e->code; from++) {
        const struct sa_sweep_cache_entry *entry = cached(run, from);

        take(run, from, entry->code, entry->data, entry->bytes, e);
    }
    return from;
}

/* Takes frames from the process `from` on; returns where the child has stopped, or the number of
 * processes. */
static size_t take_frames(struct run *run, size_t from, int fd, struct sa_error *e)
{
    char *data = malloc(FRAME_MAX);

    while (data && (from = take_known(run, from, e)) < run->count && !e->code) {
        double end = sa_time_seconds() + FRAME_SECONDS;
        struct frame frame;

        if (!read_until(fd, &frame, sizeof(frame), end) || frame.index != from ||
            frame.bytes > FRAME_MAX || !read_until(fd, data, frame.bytes, end))
            break;
        take(run, from++, frame.code, data, frame.bytes, e);
    }
    if (!data)
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the answer");
    free(data);
    return from;
}

/* Has a child read from there on; returns where to go on. */
static size_t sweep_from(struct run *run, size_t from, struct sa_error *e)
{
    struct sa_child_task task = {.run = read_processes, .arg = run};
    struct sa_child child;
    int failed;

    run->next = from;
    failed = sa_child_start(&task, &child);
    if (failed) {
        sa_error_set(e, SA_EXIT_FAILED, "a process: %s", strerror(failed));
        return run->count;
    }
    from = take_frames(run, from, child.fd, e);
    close(child.fd);
    sa_child_end(child.pid, true);
    return from;
}

/* Notes that a process has stopped its reader. */
static void note_failure(struct run *run, size_t i, struct sa_error *e)
{
    char text[64];

    snprintf(text, sizeof(text), LEFT_OUT, run->list[i]);
    add_failure(&run->users, user_of(run->list[i]));
    take(run, i, SA_EXIT_DAMAGED, text, strlen(text), e);
}

/* Finds what is known of each process. */
static void find_known(struct run *run, struct sa_error *e)
{
    const struct sa_sweep_cache *before = run->sweep->cache;

    if (!before)
        return;
    run->moments = calloc(run->count, sizeof(*run->moments));
    run->found = calloc(run->count, sizeof(*run->found));
    if (!run->moments || !run->found) {
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the answer");
        return;
    }
    for (size_t i = 0; i < run->count; i++)
        if (sa_sweep_moment_of(run->list[i], &run->moments[i]))
            run->found[i] = sa_sweep_cache_find(before, &run->moments[i]);
}

static void run_free(struct run *run)
{
    struct sa_sweep_cache *before = run->sweep->cache;
    size_t done = 0;

    if (before) {
        for (size_t i = 0; i < before->count; i++)
            done += before->of[i].code == SA_EXIT_DONE && before->of[i].at.pid;
        run->sweep->changed += done - run->reused;
        sa_sweep_cache_pass(before, &run->fresh);
        *before = run->fresh;
    }
    free(run->list);
    free(run->moments);
    free(run->found);
}

bool sa_sweep(struct sa_sweep *sweep, struct sa_error *e)
{
    struct run run = {.sweep = sweep};
    size_t from = 0;

    run.list = sa_processes_list(&run.count);
    if (!run.list) {
        sa_error_set(e, SA_EXIT_FAILED, "/proc cannot be read");
        return false;
    }
    find_known(&run, e);
    while ((from = take_known(&run, from, e)) < run.count && !e->code) {
        from = sweep_from(&run, from, e);
        if (from < run.count && !e->code)
            note_failure(&run, from++, e);
    }
    run_free(&run);
    return !e->code;
}
