/* SPDX-License-Identifier: Apache-2.0 */
/* Answers; see answer.h. They are what the commands write. */
#include "tool/serve/answer.h"

#include "sampling/export/write.h"
#include "tool/base/human.h"
#include "tool/base/text.h"
#include "tool/page/flame.h"
#include "tool/reading/allocations.h"
#include "tool/reading/output.h"
#include "tool/reading/processes.h"
#include "tool/serve/families.h"
#include "tool/stats/stats_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char page_head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<title>Processes on salloc</title>\n"
    "<style>body{font:15px sans-serif;margin:2em}table{border-collapse:collapse}"
    "td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ccc}"
    "td:nth-child(2),th:nth-child(2),td:last-child{text-align:left}"
    "@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}a{color:#8bf}}"
    "</style></head><body>\n<h1>Processes on salloc</h1>\n"
    "<p><a href=\"/metrics\">Metrics of all</a>, for Prometheus.</p>\n"
    "<table><tr><th scope=\"col\">PID</th><th scope=\"col\">name</th><th scope=\"col\">RSS</th>"
    "<th scope=\"col\">in use</th><th scope=\"col\">samples</th><th></th></tr>\n";

static const char page_end[] = "</table>\n</body></html>\n";

/* A process, if it runs on salloc and may be read. */
static bool open_process(pid_t pid, struct sa_reading *ret)
{
    struct sa_error e = {SA_EXIT_DONE, ""};
    char number[16];

    snprintf(number, sizeof(number), "%d", pid);
    return sa_reading_open_numbers(ret, number, &e);
}

static void put_row(struct sa_reading *r)
{
    struct sa_error e = {SA_EXIT_DONE, ""};
    struct sa_process process;
    char resident[SA_HUMAN_BYTES], used[SA_HUMAN_BYTES];
    double bytes = 0;
    uint64_t samples = 0;
    int pid = r->target.pid;

    sa_live_count(&r->target, &r->table, &samples, &bytes, &e);
    if (e.code)
        return;
    sa_process_read(pid, &process);
    sa_human_bytes((double)process.resident, resident);
    sa_human_bytes(bytes > 0 && bytes < 1e18 ? bytes : 0, used);
    printf("<tr><td>%d</td><td>%s</td><td>%s</td><td>%s</td><td>%llu</td><td>"
           "<a href=\"/flame?pid=%d\">flame graph</a> "
           "<a href=\"/stats?pid=%d\">stats</a> "
           "<a href=\"/debug/pprof/heap?pid=%d\">heap</a> "
           "<a href=\"/debug/pprof/allocs?pid=%d&amp;seconds=30\">allocations of 30 s</a>"
           "</td></tr>\n",
           pid, process.name, resident, used, (unsigned long long)samples, pid, pid, pid, pid);
}

static bool answer_index(struct sa_error *e)
{
    size_t count;
    pid_t *list = sa_processes_list(&count);
    struct sa_reading r;

    if (!list) {
        sa_error_set(e, SA_EXIT_FAILED, "/proc cannot be read");
        return false;
    }
    printf("%s", page_head);
    for (size_t i = 0; i < count; i++) {
        if (!open_process(list[i], &r))
            continue;
        put_row(&r);
        sa_reading_close(&r);
    }
    printf("%s", page_end);
    free(list);
    return true;
}

/* Adds the metrics of a process; one that ends meanwhile, or makes no sense, is left out. */
static bool add_metrics(struct sa_families *f, struct sa_reading *r, enum sa_report_kind kind)
{
    struct sa_error e = {SA_EXIT_DONE, ""};
    struct sa_buffer page = {NULL, 0, 0};
    struct sa_process process;
    char labels[96];
    bool fine = true;

    sa_process_read(r->target.pid, &process);
    snprintf(labels, sizeof(labels), "pid=\"%d\",name=\"%s\"", process.pid, process.name);
    if (sa_stats_page(&r->target, &r->table, kind, NULL, &page, NULL, &e))
        fine = sa_families_add(f, page.data, page.used, labels);
    sa_buffer_free(&page);
    return fine;
}

static bool answer_metrics(bool openmetrics, struct sa_error *e)
{
    enum sa_report_kind kind = openmetrics ? SA_REPORT_OPENMETRICS : SA_REPORT_PROMETHEUS;
    size_t count;
    pid_t *list = sa_processes_list(&count);
    struct sa_families families = {0};
    struct sa_buffer text = {NULL, 0, 0};
    struct sa_reading r;
    bool fine = list != NULL;

    for (size_t i = 0; fine && i < count; i++) {
        if (!open_process(list[i], &r))
            continue;
        fine = add_metrics(&families, &r, kind);
        sa_reading_close(&r);
    }
    fine = fine && sa_families_put(&families, &text) &&
           (!openmetrics || sa_text_put(&text, "# EOF\n", 6));
    if (fine)
        sa_output_bytes(text.data, text.used, false, NULL, e);
    else
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the metrics, or no /proc");
    sa_buffer_free(&text);
    sa_families_free(&families);
    free(list);
    return !e->code;
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

/* Of one process. */
static void answer_one(const struct sa_serve_request *request, struct sa_error *e)
{
    char number[16], title[64];
    struct sa_process process;
    struct sa_reading r;

    snprintf(number, sizeof(number), "%d", request->pid);
    if (request->kind == SA_SERVE_FLAME) {
        sa_process_read(request->pid, &process);
        snprintf(title, sizeof(title), "%s, process %d", process.name, request->pid);
        sa_flame_write(number, NULL, title, NULL, e);
        return;
    }
    if (!(request->kind == SA_SERVE_STATS ? sa_reading_open_numbers : sa_reading_open)(&r, number,
                                                                                       e))
        return;
    if (request->kind == SA_SERVE_STATS)
        answer_stats(&r, e);
    else
        answer_profile(&r, request, e);
    sa_reading_close(&r);
}

bool sa_serve_answer(const struct sa_serve_request *request, struct sa_error *e)
{
    if (request->kind == SA_SERVE_INDEX)
        answer_index(e);
    else if (request->kind == SA_SERVE_METRICS)
        answer_metrics(request->openmetrics, e);
    else
        answer_one(request, e);
    if (fflush(stdout) != 0)
        sa_error_set(e, SA_EXIT_FAILED, "the answer is too long");
    return !e->code;
}
