/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl stats: the stats page of a process or a core, from outside. */
#include "tool/command/command.h"

#include "tool/base/time.h"
#include "tool/reading/output.h"
#include "tool/reading/ticker.h"
#include "tool/reading/reading.h"
#include "tool/stats/stats_page.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

extern const struct sa_command sa_command_stats;

#define AGAIN_SECONDS 0.1

struct options {
    const char *file;
    double every; /* seconds; 0: once */
    int json, openmetrics, prometheus;
};

static enum sa_report_kind kind_of(const struct options *o)
{
    if (o->json)
        return SA_REPORT_JSON;
    if (o->openmetrics)
        return SA_REPORT_OPENMETRICS;
    if (o->prometheus)
        return SA_REPORT_PROMETHEUS;
    return o->file ? sa_report_kind_of_path(o->file) : SA_REPORT_TEXT;
}

static void read_and_write(struct sa_source source, const struct options *o, struct sa_error *e)
{
    enum sa_report_kind kind = kind_of(o);
    struct sa_buffer page = {NULL, 0, 0};
    uint64_t dropped = 0;
    struct sa_reading r;

    if (!sa_reading_open_numbers(&r, source, e))
        return;
    if (sa_stats_page(&r.target, &r.table, kind, o->file, &page, &dropped, e))
        sa_output_text(page.data, page.used, (unsigned)sa_report_file_mode(kind), o->file, e);
    if (dropped)
        fprintf(stderr, "sallocctl: left out %llu records, which changed meanwhile\n",
                (unsigned long long)dropped);
    sa_buffer_free(&page);
    sa_reading_close(&r);
}

static int run(const void *options, const struct sa_operands *operands, struct sa_error *e)
{
    const struct options *o = options;
    struct sa_ticker ticker;

    if (o->json + o->openmetrics + o->prometheus > 1)
        return sa_command_misused(&sa_command_stats, "name one format");
    if (o->every > 0 && (!o->file || !operands->sources[0].pid))
        return sa_command_misused(&sa_command_stats, "--every needs -o, and a process");
    ticker = sa_ticker_begin(o->every);
    read_and_write(operands->sources[0], o, e);
    while (!e->code && o->every > 0) {
        struct sa_error once = {SA_EXIT_DONE, ""};

        sa_ticker_wait(&ticker);
        read_and_write(operands->sources[0], o, &once);
        if (once.code) { /* of a process that ends meanwhile, the second reading says so */
            sa_time_wait(AGAIN_SECONDS);
            read_and_write(operands->sources[0], o, e);
        }
    }
    return (int)e->code;
}

static const struct sa_command_option table[] = {
    {'o', "output", "FILE",
     "write the page to FILE, as a whole; endings .json, .openmetrics and\n"
     ".prom are formats\n",
     offsetof(struct options, file), sa_take_text},
    {0, "every", "TIME", "write it anew after each such time, until the process ends\n",
     offsetof(struct options, every), sa_take_seconds},
    {0, "json", NULL, "as JSON\n", offsetof(struct options, json), sa_take_flag},
    {0, "openmetrics", NULL, "as OpenMetrics\n", offsetof(struct options, openmetrics),
     sa_take_flag},
    {0, "prometheus", NULL,
     "in the format of Prometheus; in a file, with its name as a label,\n"
     "as the textfile collector of node_exporter reads it\n",
     offsetof(struct options, prometheus), sa_take_flag},
    SA_OPTION_SYSROOT,
};

const struct sa_command sa_command_stats = {
    .name = "stats",
    .what = "write the stats page of a process or a core",
    .synopsis = "[OPTION...] PID|CORE\n",
    .text = "Writes the stats page (doc/stats.md) of a process that runs on salloc, or of its\n"
            "core: the page that the process itself would write. The process needs no\n"
            "preparation. It is neither stopped nor changed.\n",
    SA_COMMAND_OPTIONS(table, struct options),
    .sources = 1,
    .first = 1,
    .last = 1,
    .operands = "name one process or core",
    .run = run,
};
