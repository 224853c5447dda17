/* SPDX-License-Identifier: Apache-2.0 */
/* The stats page of a target; see stats_page.h. The child writes a struct answer to a pipe, and the
 * page after it. */
#include "tool/stats/stats_page.h"

#include "alloc/base/thread_safety.h"
#include "alloc/api/options/options_text.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "stats/openmetrics.h"
#include "stats/stats_snapshot.h"
#include "tool/base/child.h"
#include "tool/base/io.h"
#include "tool/base/text.h"
#include "tool/stats/state.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    char text[128];

    if (t->live && sa_io_read_proc(sa_io_living(t->pid), "statm", text, sizeof(text)) &&
        sscanf(text, "%lu %lu", &size, &resident) == 2) {
        subject.mapped_bytes = size * (size_t)sysconf(_SC_PAGESIZE);
        subject.resident_bytes = resident * (size_t)sysconf(_SC_PAGESIZE);
    }
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

/* As note_waste of the library (alloc/api/entry/profile_api.c). */
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
    struct sa_stats_numbers *numbers = malloc(cap);

    sa_report_options = sa_options_report;
    if (!numbers || (parts && !input)) {
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the page");
        return;
    }
    sa_fmt_init(f, (char *)numbers, cap);
    if (task->numbers) {
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

/* What a child needs for a task. */
struct job {
    struct sa_target *target;
    const struct sa_table *table;
    const struct task *task;
};

/* In the child. */
static bool answer(void *arg, int fd)
{
    const struct job *job = arg;
    struct answer a = {{SA_EXIT_DONE, ""}, 0};
    struct sa_state state = {.target = job->target, .table = job->table, .e = &a.e};
    struct sa_fmt f = {NULL, 0, 0, false};

    if (sa_state_take(&state)) {
        read_subject(job->target, job->table);
        make(job->task, &f, &a.e);
    }
    a.dropped = state.dropped;
    return sa_io_write_all(fd, &a, sizeof(a)) == 0 &&
           (a.e.code || sa_io_write_all(fd, f.buf, f.len) == 0);
}

/* Says how a child has ended that is not done. */
static void explain_end(enum sa_child_end end, int number, struct sa_error *e)
{
    if (end == SA_CHILD_NONE)
        sa_error_set(e, SA_EXIT_FAILED, "a process: %s", strerror(number));
    else if (end == SA_CHILD_LATE)
        sa_error_set(e, SA_EXIT_DAMAGED, "its memory cannot be read within %d seconds",
                     WALL_SECONDS);
    else if (end == SA_CHILD_KILLED)
        sa_error_set(e, SA_EXIT_DAMAGED,
                     "the state of its library makes no sense: signal %d at the report", number);
    else if (end == SA_CHILD_FAILED)
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the page");
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
    struct job job = {t, table, task};
    struct sa_child_task child = {.run = answer,
                                  .arg = &job,
                                  .seconds = WALL_SECONDS,
                                  .answer_max = PAGE_MAX,
                                  .cpu_seconds = SECONDS_MAX,
                                  .memory = MEMORY_MAX};
    struct sa_buffer text = {NULL, 0, 0};
    int number;
    enum sa_child_end end = sa_child_run(&child, &text, &number);

    if (end != SA_CHILD_DONE)
        text.used = 0;
    explain_end(end, number, e);
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
