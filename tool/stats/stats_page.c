/* SPDX-License-Identifier: Apache-2.0 */
/* The stats page of a target; see stats_page.h. The child writes a struct answer to a pipe, and the
 * page after it. */
#include "tool/stats/stats_page.h"

#include "alloc/base/thread_safety.h"
#include "alloc/api/options_text.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "stats/openmetrics.h"
#include "stats/stats_snapshot.h"
#include "tool/base/io.h"
#include "tool/base/limit.h"
#include "tool/base/text.h"
#include "tool/base/time.h"
#include "tool/stats/state.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WALL_SECONDS 30
#define SECONDS_MAX  20          /* of CPU time */
#define MEMORY_MAX   (4ul << 30) /* that the child may map */
#define PAGE_MAX     (32u << 20)

struct answer {
    struct sa_error e;
    uint64_t dropped;
};

static struct sa_snapshot_subject subject;

static void read_memory(const struct sa_target *t)
{
    unsigned long size = 0, resident = 0;
    char path[SA_PROC_PATH];
    FILE *f;

    f = t->live ? fopen(sa_io_proc_path(path, t->pid, "statm"), "re") : NULL;
    if (!f)
        return;
    if (fscanf(f, "%lu %lu", &size, &resident) == 2) {
        subject.mapped_bytes = size * (size_t)sysconf(_SC_PAGESIZE);
        subject.resident_bytes = resident * (size_t)sysconf(_SC_PAGESIZE);
    }
    fclose(f);
}

static void read_version(struct sa_target *t, const struct sa_table *table)
{
    struct sa_error none = {SA_EXIT_DONE, ""};
    uint64_t place = sa_table_variable(table, "version", &none);
    char *text = subject.version;

    if (none.code || !sa_target_read(t, place, text, sizeof(subject.version)))
        strcpy(text, "unknown");
    text[sizeof(subject.version) - 1] = '\0';
    for (; *text; text++)
        if (!strchr("0123456789abcdefghijklmnopqrstuvwxyz.-+~", *text))
            *text = '?';
}

/* What the kernel tells of the target. Of a core it tells nothing: its time is that of the heap's
 * last tick. */
static void read_subject(struct sa_target *t,
                         const struct sa_table *table) SA_NO_THREAD_SAFETY_ANALYSIS
{
    struct timespec now;

    subject.pid = t->pid;
    subject.time_ns = (uint64_t)t->time_ns;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    subject.clock_ns = t->live ? (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec
                               : sa_huge_heap_ordinary.now_ns;
    read_memory(t);
    read_version(t, table);
    if (t->live)
        (void)sched_getaffinity(t->thread, sizeof(subject.cpus), (cpu_set_t *)subject.cpus);
    sa_snapshot_subject = &subject;
}

/* What the child is to make. */
struct task {
    bool numbers; /* not a page */
    bool whole;   /* the metrics of the whole process alone */
    enum sa_report_kind kind;
    const char *file;
};

/* As note_waste of the library (alloc/api/profile_api.c). */
static double waste_of(const struct sa_report_input *input)
{
    const struct sa_mixed_stats *mixed = &input->s.mixed;
    double bytes =
        mixed->bytes > mixed->used_bytes ? (double)(mixed->bytes - mixed->used_bytes) : 0;

    for (unsigned cls = 1; cls < input->s.classes; cls++)
        bytes += (double)input->cls[cls].central.free_objects * (double)input->s.cls[cls].size;
    return bytes;
}

/* Makes a page, or the numbers, from this process's state. */
static void make(const struct task *task, struct sa_fmt *f, struct sa_error *e)
{
    size_t cap = task->numbers ? sizeof(struct sa_stats_numbers) : sa_report_size();
    bool parts = task->numbers || task->whole;
    struct sa_report_input *input = parts ? sa_report_input_take() : NULL;
    struct sa_stats_numbers *numbers;

    sa_report_options = sa_options_report;
    sa_fmt_init(f, malloc(cap), cap);
    numbers = (struct sa_stats_numbers *)f->buf;
    if (!f->buf || (parts && !input)) {
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the page");
    } else if (task->numbers) {
        sa_metrics_read(&input->s, &numbers->m);
        numbers->seconds = input->seconds;
        numbers->waste = waste_of(input);
        f->len = sizeof(*numbers);
    } else if (task->whole) {
        sa_openmetrics_format_whole(f, input, task->kind == SA_REPORT_PROMETHEUS);
    } else if (task->file) {
        sa_report_format_file(task->kind, task->file, f);
    } else {
        sa_report_format_as(task->kind, f);
    }
}

/* In the child. */
static void answer(struct sa_target *t, const struct sa_table *table, const struct task *task,
                   int fd)
{
    struct answer a = {{SA_EXIT_DONE, ""}, 0};
    struct sa_state state = {.target = t, .table = table, .e = &a.e};
    struct sa_fmt f = {NULL, 0, 0, false};

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* with whoever gives it up */
    sa_limit_lower(RLIMIT_CPU, SECONDS_MAX);
    sa_limit_lower(RLIMIT_CORE, 0);
    sa_limit_memory(MEMORY_MAX);
    if (sa_state_take(&state)) {
        read_subject(t, table);
        make(task, &f, &a.e);
    }
    a.dropped = state.dropped;
    _exit(sa_io_write_all(fd, &a, sizeof(a)) || (!a.e.code && sa_io_write_all(fd, f.buf, f.len)));
}

/* Waits until there is something to read. False: the time is over. A target can let its reader wait
 * in the kernel for ever, by a page that it never gives. */
static bool wait_for(int fd, double end)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    double left;

    while ((left = end - sa_time_seconds()) > 0)
        if (poll(&poll_fd, 1, (int)(left * 1000) + 1) > 0)
            return true;
    return false;
}

/* What the child writes, up to PAGE_MAX. */
static bool read_all(int fd, struct sa_buffer *text, struct sa_error *e)
{
    double end = sa_time_seconds() + WALL_SECONDS;
    char some[16384];
    ssize_t n;

    for (;;) {
        if (!wait_for(fd, end)) {
            sa_error_set(e, SA_EXIT_DAMAGED, "its memory cannot be read within %d seconds",
                         WALL_SECONDS);
            return false;
        }
        n = read(fd, some, sizeof(some));
        if (n == 0)
            break;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || text->used > PAGE_MAX || !sa_text_put(text, some, (size_t)n))
            return false;
    }
    return true;
}

/* Waits for the child. False: it did not end well. */
static bool end_child(pid_t child, struct sa_error *e)
{
    int status;

    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    if (WIFSIGNALED(status))
        sa_error_set(e, SA_EXIT_DAMAGED,
                     "the state of its library makes no sense: signal %d at the report",
                     WTERMSIG(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void take_answer(const struct sa_buffer *text, struct sa_buffer *ret, uint64_t *ret_dropped,
                        struct sa_error *e)
{
    struct answer a;

    if (text->used < sizeof(a)) {
        sa_error_set(e, SA_EXIT_DAMAGED, "the state of its library makes no sense");
        return;
    }
    memcpy(&a, text->data, sizeof(a));
    a.e.text[sizeof(a.e.text) - 1] = '\0';
    if (ret_dropped)
        *ret_dropped = a.dropped;
    if (a.e.code)
        sa_error_set(e, a.e.code, "%s", a.e.text);
    else if (!sa_text_put(ret, text->data + sizeof(a), text->used - sizeof(a)))
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the page");
}

/* Has a child do a task. */
static bool run_task(struct sa_target *t, const struct sa_table *table, const struct task *task,
                     struct sa_buffer *ret, uint64_t *ret_dropped, struct sa_error *e)
{
    struct sa_buffer text = {NULL, 0, 0};
    int ends[2];
    pid_t child;
    bool whole;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        sa_error_set(e, SA_EXIT_FAILED, "a pipe: %s", strerror(errno));
        return false;
    }
    fflush(stdout);
    child = fork();
    if (child == 0)
        answer(t, table, task, ends[1]);
    close(ends[1]);
    if (child < 0) {
        sa_error_set(e, SA_EXIT_FAILED, "a process: %s", strerror(errno));
        close(ends[0]);
        return false;
    }
    whole = read_all(ends[0], &text, e);
    close(ends[0]);
    if (!whole)
        kill(child, SIGKILL);
    if (!end_child(child, e) || !whole)
        text.used = 0;
    take_answer(&text, ret, ret_dropped, e);
    sa_buffer_free(&text);
    return !e->code;
}

bool sa_stats_page(struct sa_target *t, const struct sa_table *table, enum sa_report_kind kind,
                   const char *file, struct sa_buffer *ret, uint64_t *ret_dropped,
                   struct sa_error *e)
{
    struct task task = {.kind = kind, .file = file};

    return run_task(t, table, &task, ret, ret_dropped, e);
}

bool sa_stats_whole(struct sa_target *t, const struct sa_table *table, enum sa_report_kind kind,
                    struct sa_buffer *ret, struct sa_error *e)
{
    struct task task = {.whole = true, .kind = kind};

    return run_task(t, table, &task, ret, NULL, e);
}

bool sa_stats_read(struct sa_target *t, const struct sa_table *table, struct sa_stats_numbers *ret,
                   struct sa_error *e)
{
    struct task task = {.numbers = true};
    struct sa_buffer bytes = {NULL, 0, 0};

    if (run_task(t, table, &task, &bytes, NULL, e)) {
        if (bytes.used == sizeof(*ret))
            memcpy(ret, bytes.data, sizeof(*ret));
        else
            sa_error_set(e, SA_EXIT_DAMAGED, "the state of its library makes no sense");
    }
    sa_buffer_free(&bytes);
    return !e->code;
}
