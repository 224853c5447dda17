/* SPDX-License-Identifier: Apache-2.0 */
/* Answers; see answer.h. They are what the commands write. */
#include "tool/serve/answer.h"

#include "sampling/export/write.h"
#include "tool/base/human.h"
#include "tool/base/text.h"
#include "tool/page/flame.h"
#include "tool/reading/allocations.h"
#include "tool/reading/input.h"
#include "tool/reading/output.h"
#include "tool/reading/processes.h"
#include "tool/reading/sweep.h"
#include "tool/serve/families.h"
#include "tool/stats/stats_page.h"
#include "tool/top/row.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char page_head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<title>Processes on salloc</title>\n"
    "<style>body{font:15px sans-serif;margin:2em}table{border-collapse:collapse}"
    "td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ccc}"
    "td:nth-child(2),th:nth-child(2),td:last-child{text-align:left}"
    "@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}a{color:#8bf}}"
    "</style></head><body>\n<h1>Processes on salloc</h1>\n"
    "<p><a href=\"metrics\">Metrics of all</a>, for Prometheus; and "
    "<a href=\"metrics/all\">those of size classes and CPUs</a>.</p>\n"
    "<table><tr><th scope=\"col\">PID</th><th scope=\"col\">name</th><th scope=\"col\">RSS</th>"
    "<th scope=\"col\">in use</th><th scope=\"col\">samples</th><th></th></tr>\n";

static const char page_rows_end[] = "</table>\n";
static const char page_end[] = "</body></html>\n";

static void put_row(const struct sa_row_values *row)
{
    char resident[SA_HUMAN_BYTES], used[SA_HUMAN_BYTES];
    int pid = row->process.pid;

    sa_human_bytes((double)row->process.resident, resident);
    sa_human_bytes((double)row->in_use, used);
    printf("<tr><td>%d</td><td>%s</td><td>%s</td><td>%s</td><td>%llu</td><td>"
           "<a href=\"flame?pid=%d\">flame graph</a> "
           "<a href=\"stats?pid=%d\">stats</a> "
           "<a href=\"debug/pprof/heap?pid=%d\">heap</a> "
           "<a href=\"debug/pprof/allocs?pid=%d&amp;seconds=30\">allocations of 30 s</a>"
           "</td></tr>\n",
           pid, row->process.name, resident, used, (unsigned long long)row->samples, pid, pid, pid,
           pid);
}

static void answer_index(struct sa_error *e)
{
    struct sa_rows rows = {0};

    if (!sa_rows_read(&rows, e))
        return;
    printf("%s", page_head);
    for (size_t i = 0; i < rows.count; i++)
        put_row(&rows.rows[i]);
    printf("%s", page_rows_end);
    if (rows.damaged)
        printf("<p>%zu processes could not be read.</p>\n", rows.damaged);
    printf("%s", page_end);
    sa_rows_free(&rows);
}

struct metrics {
    enum sa_report_kind kind;
    bool all;
};

/* A line with the labels of the process, and behind it its page. */
static bool make_metrics(struct sa_reading *r, void *arg, struct sa_buffer *out, struct sa_error *e)
{
    const struct metrics *metrics = arg;
    char name[SA_PROCESS_NAME];
    int pid = r->target.pid;

    sa_process_read_name(pid, name);
    if (!sa_text_add(out, "pid=\"%d\",name=\"%s\"\n", pid, name)) {
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the metrics");
        return false;
    }
    return metrics->all ? sa_stats_page(&r->target, &r->table, metrics->kind, NULL, out, NULL, e)
                        : sa_stats_whole(&r->target, &r->table, metrics->kind, out, e);
}

static bool add_process(struct sa_families *families, const struct sa_sweep_cache_entry *entry)
{
    const char *end = memchr(entry->data, '\n', entry->bytes);
    char labels[96];
    size_t length = end ? (size_t)(end - entry->data) : sizeof(labels);

    if (length >= sizeof(labels))
        return true; /* it is none of ours */
    memcpy(labels, entry->data, length);
    labels[length] = '\0';
    return sa_families_add(families, end + 1, entry->bytes - length - 1, labels);
}

/* The families of all processes, each with its samples of all. */
static bool make_families(const struct sa_sweep_cache *cache, struct sa_buffer *ret)
{
    struct sa_families families = {NULL, 0, 0};
    bool fine = true;

    for (size_t i = 0; fine && i < cache->count; i++)
        if (cache->of[i].code == SA_EXIT_DONE)
            fine = add_process(&families, &cache->of[i]);
    fine = fine && sa_families_put(&families, ret);
    sa_families_free(&families);
    return fine;
}

/* The families before what is known of each process, as that of PID 0. */
static bool save(const struct sa_buffer *families, const struct sa_sweep_cache *cache, int file)
{
    static const struct sa_sweep_moment none;
    struct sa_sweep_cache first = {.count = 0};
    bool fine = sa_sweep_cache_add(&first, &none, SA_EXIT_DONE, families->data, families->used) &&
                sa_sweep_cache_save(&first, file) && sa_sweep_cache_save(cache, file);

    sa_sweep_cache_free(&first);
    return fine;
}

static void put_metrics(const char *families, size_t bytes, size_t unread, bool openmetrics,
                        struct sa_error *e)
{
    sa_output_bytes(families, bytes, false, NULL, e);
    printf("# TYPE salloc_unread_processes gauge\n"
           "# HELP salloc_unread_processes processes on salloc, or that may be, that could not be "
           "read\nsalloc_unread_processes %zu\n%s",
           unread, openmetrics ? "# EOF\n" : "");
}

static void answer_metrics(const struct sa_serve_request *request, int known_file, int next,
                           struct sa_error *e)
{
    struct metrics metrics = {request->openmetrics ? SA_REPORT_OPENMETRICS : SA_REPORT_PROMETHEUS,
                              request->kind == SA_SERVE_ALL};
    struct sa_sweep_cache cache = {.count = 0};
    struct sa_sweep sweep = {.make = make_metrics, .arg = &metrics, .cache = &cache};
    struct sa_buffer text = {NULL, 0, 0};
    struct sa_sweep_cache_entry before = {.data = NULL};

    if (known_file >= 0)
        sa_sweep_cache_load(&cache, known_file);
    if (cache.count && !cache.of[0].at.pid)
        before = cache.of[0];
    if (sa_sweep(&sweep, e)) {
        if (before.data && !sweep.changed) {
            put_metrics(before.data, before.bytes, sweep.unread, request->openmetrics, e);
        } else if (!make_families(&cache, &text)) {
            sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the metrics");
        } else {
            put_metrics(text.data, text.used, sweep.unread, request->openmetrics, e);
            if (next >= 0 && !save(&text, &cache, next) && ftruncate(next, 0) != 0)
                sa_error_set(e, SA_EXIT_FAILED, "what was found cannot be kept");
        }
    }
    sa_buffer_free(&text);
    sa_sweep_cache_free(&cache);
}

static void answer_stats(struct sa_reading *r, struct sa_error *e)
{
    struct sa_buffer page = {NULL, 0, 0};

    if (sa_stats_page(&r->target, &r->table, SA_REPORT_TEXT, NULL, &page, NULL, e))
        sa_output_bytes(page.data, page.used, false, NULL, e);
    sa_buffer_free(&page);
}

static void answer_profile(struct sa_reading *r, const struct sa_serve_request *request,
                           struct sa_error *e)
{
    struct sa_outside_profile p;
    bool allocs = request->kind == SA_SERVE_ALLOCS;
    enum salloc_profile_type type = allocs ? SALLOC_PROFILE_ALLOCATIONS : SALLOC_PROFILE_HEAP;

    if (allocs && request->seconds > 0 ? sa_reading_allocations(r, request->seconds, &p, e)
                                       : sa_reading_profile(r, type, &p, e))
        sa_output_profile(&p.profile, NULL, e);
    sa_outside_profile_free(&p);
}

static void answer_flame(struct sa_reading *r, struct sa_error *e)
{
    char name[SA_PROCESS_NAME], title[64];
    struct sa_profile_file file;

    sa_process_read_name(r->target.pid, name);
    snprintf(title, sizeof(title), "%s, process %d", name, r->target.pid);
    if (!sa_input_read_target(&file, r, e))
        return;
    sa_flame_write(&file, NULL, title, NULL, e);
    sa_profile_file_free(&file);
}

/* Of one process. */
static void answer_one(const struct sa_serve_request *request, struct sa_error *e)
{
    struct sa_source source = {.pid = request->pid};
    bool stats = request->kind == SA_SERVE_STATS;
    struct sa_reading r;

    if (!(stats ? sa_reading_open_numbers : sa_reading_open)(&r, source, e))
        return;
    if (stats)
        answer_stats(&r, e);
    else if (request->kind == SA_SERVE_FLAME)
        answer_flame(&r, e);
    else
        answer_profile(&r, request, e);
    sa_reading_close(&r);
}

bool sa_serve_answer(const struct sa_serve_request *request, int known, int next,
                     struct sa_error *e)
{
    if (request->kind == SA_SERVE_INDEX)
        answer_index(e);
    else if (request->kind == SA_SERVE_METRICS || request->kind == SA_SERVE_ALL)
        answer_metrics(request, known, next, e);
    else
        answer_one(request, e);
    if (fflush(stdout) != 0)
        sa_error_set(e, SA_EXIT_FAILED, "the answer is too long");
    return !e->code;
}
