/* SPDX-License-Identifier: Apache-2.0 */
/* The stats page: its sections in order, its size, its way to a file; see report.h. */
#include "stats/report.h"

#include "alloc/base/bits.h"
#include "alloc/front/cpu_cache.h"
#include "alloc/os/vm.h"
#include "stats/report_internal.h"

#include <errno.h>
#include <unistd.h>

#define PAGE_BYTES 262144 /* of the sections that do not grow with the number of CPUs */
#define CPU_BYTES  256    /* of both lines of a CPU */

void sa_report_format(struct sa_fmt *f)
{
    struct sa_snapshot s;

    sa_snapshot_take(&s);
    sa_report_summary(f, &s);
    sa_report_metadata(f, &s);
    sa_report_peak(f, &s);
    sa_report_page_sizes(f);
    sa_report_experiments(f, &s);
    sa_report_caches(f, &s);
    sa_report_sampling(f, &s);
    sa_report_process(f, &s);
    sa_report_classes(f, &s);
    sa_report_utilization(f, &s);
    sa_report_transfer(f, &s);
    sa_report_cpus(f, &s);
    sa_report_capacities(f, &s);
    sa_report_misses(f);
    sa_report_guarded(f, &s);
    sa_report_system(f, &s);
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
