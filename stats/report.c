/* SPDX-License-Identifier: Apache-2.0 */
/* Reports: a report input, its format, its size and where it goes; see report.h. */
#include "stats/report.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/os/sys.h"
#include "alloc/os/vm.h"
#include "stats/json.h"
#include "stats/openmetrics.h"
#include "stats/text.h"

#include <errno.h>
#include <string.h>

/* Enough for the longest numbers, in each format. */
#define PAGE_BYTES 524288 /* all parts that do not grow with the number of CPUs */
#define CPU_BYTES  1024   /* all rows and samples of one CPU */

void (*sa_report_options)(struct sa_fmt *f, bool json);

/* file: for sa_prometheus_format. */
static void format(enum sa_report_kind kind, const char *file, struct sa_fmt *f)
{
    struct sa_report_input *r = sa_report_input_take();

    SA_DCHECK(kind < SA_REPORT_KINDS);
    switch (kind) {
    case SA_REPORT_JSON:
        sa_json_format(f, r);
        break;
    case SA_REPORT_OPENMETRICS:
        sa_openmetrics_format(f, r);
        break;
    case SA_REPORT_PROMETHEUS:
        sa_prometheus_format(f, r, file);
        break;
    default:
        sa_text_format(f, r);
    }
    if (r)
        sa_report_input_release(r);
}

void sa_report_format(struct sa_fmt *f)
{
    format(SA_REPORT_TEXT, "", f);
}

void sa_report_format_as(enum sa_report_kind kind, struct sa_fmt *f)
{
    format(kind, "", f);
}

enum sa_report_kind sa_report_kind_of_path(const char *path)
{
    static const struct {
        char ending[16]; /* no pointer: nothing to relocate at start */
        enum sa_report_kind kind;
    } endings[] = {{".json", SA_REPORT_JSON},
                   {".openmetrics", SA_REPORT_OPENMETRICS},
                   {".prom", SA_REPORT_PROMETHEUS}};
    size_t len = strlen(path);

    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        size_t n = strlen(endings[i].ending);

        if (len > n && strcmp(path + len - n, endings[i].ending) == 0)
            return endings[i].kind;
    }
    return SA_REPORT_TEXT;
}

void sa_report_format_file(enum sa_report_kind kind, const char *path, struct sa_fmt *f)
{
    const char *slash = strrchr(path, '/');

    format(kind, slash ? slash + 1 : path, f);
}

int sa_report_file_mode(enum sa_report_kind kind)
{
    return kind == SA_REPORT_PROMETHEUS ? 0644 : 0600;
}

size_t sa_report_size(void)
{
    return PAGE_BYTES + (size_t)sa_cpu_cache_count() * CPU_BYTES;
}

int sa_report_write(int fd)
{
    size_t cap = sa_align_up(sa_report_size(), 65536), done = 0;
    char *buf = sa_vm_map(NULL, cap, "salloc report");
    struct sa_fmt f;
    int failed = 0;

    if (!buf)
        return -ENOMEM;
    sa_fmt_init(&f, buf, cap);
    sa_report_format(&f);
    SA_DCHECK(!f.truncated); /* sa_report_size holds any report */
    while (!failed && done < f.len) {
        long n = sa_sys_write(fd, buf + done, f.len - done);

        if (n < 0 && n != -EINTR)
            failed = (int)n;
        if (n > 0)
            done += (size_t)n;
    }
    sa_vm_unmap(buf, cap);
    return failed;
}
