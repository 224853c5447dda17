/* SPDX-License-Identifier: Apache-2.0 */
/* Reports: the sections of the page in order, the other formats, their size; see report.h. */
#include "stats/report.h"

#include "alloc/base/bits.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/os/vm.h"
#include "stats/json.h"
#include "stats/openmetrics.h"
#include "stats/report_internal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Enough for the longest figures, in each format. */
#define PAGE_BYTES 524288 /* of what does not grow with the number of CPUs */
#define CPU_BYTES  1024   /* of all that is said of a CPU */

void (*sa_report_options)(struct sa_fmt *f, bool json);

static void format_sections(struct sa_fmt *f, const struct sa_report_input *r)
{
    sa_report_summary(f, &r->s);
    sa_report_metadata(f, &r->s);
    sa_report_peak(f, &r->s);
    sa_report_page_sizes(f);
    sa_report_experiments(f, &r->s);
    sa_report_sampled_profiles(f, &r->s);
    sa_report_caches(f, &r->s);
    sa_report_sampling(f, &r->s);
    sa_report_process(f, &r->s);
    sa_report_classes(f, &r->s);
    sa_report_utilization(f, r);
    sa_report_transfer(f, r);
    sa_report_cpus(f, &r->s);
    sa_report_capacities(f, r);
    sa_report_misses(f);
    sa_report_lengths(f, "PageHeap", &r->sampled_ages);
    sa_report_ages(f, "PageHeap", &r->sampled_ages);
    sa_report_allocation_sizes(f, "PageHeap", &r->sampled_sizes);
    sa_report_size_info(f, "PageHeap", &r->sampled_sizes, r->seconds);
    sa_report_guarded(f, &r->s);
    sa_report_limits(f, &r->s);
    sa_report_system(f, &r->s);
    sa_report_huge(f, r);
    if (sa_report_options)
        sa_report_options(f, false);
}

void sa_report_format(struct sa_fmt *f)
{
    struct sa_report_input *r = sa_report_input_take();

    if (r) {
        format_sections(f, r);
        sa_report_input_release(r);
    } else {
        sa_fmt_add(f, "salloc: no memory for a stats page\n");
    }
}

static void format_prometheus(struct sa_fmt *f)
{
    sa_prometheus_format(f, "");
}

void sa_report_format_as(enum sa_report_kind kind, struct sa_fmt *f)
{
    static void (*const formats[])(struct sa_fmt *) = {
        [SA_REPORT_TEXT] = sa_report_format,
        [SA_REPORT_JSON] = sa_json_format,
        [SA_REPORT_OPENMETRICS] = sa_openmetrics_format,
        [SA_REPORT_PROMETHEUS] = format_prometheus,
    };

    formats[kind](f);
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

    if (kind == SA_REPORT_PROMETHEUS)
        sa_prometheus_format(f, slash ? slash + 1 : path);
    else
        sa_report_format_as(kind, f);
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

    if (!buf) {
        errno = ENOMEM;
        return -1;
    }
    sa_fmt_init(&f, buf, cap);
    sa_report_format(&f);
    while (!failed && done < f.len) {
        ssize_t n = write(fd, buf + done, f.len - done);

        if (n < 0 && errno != EINTR)
            failed = errno;
        if (n > 0)
            done += (size_t)n;
    }
    sa_vm_unmap(buf, cap);
    errno = failed ? failed : errno;
    return failed ? -1 : 0;
}
