/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports at exit. Nothing is torn down: memory stays valid for whatever runs later. A report is a file that
 * is complete or not there (alloc/os/file.h).
 */
#include "alloc/api/at_exit.h"

#include "alloc/api/init.h"
#include "alloc/api/options.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/fmt.h"
#include "alloc/os/file.h"
#include "alloc/os/vm.h"
#include "stats/report.h"

#include <errno.h>
#include <stdlib.h>

/* In the format that the path asks for. On failure a negative errno. */
static int write_stats(struct sa_file *file, const char *path)
{
    size_t cap = sa_align_up(sa_report_size(), 65536);
    char *buf = sa_vm_map(NULL, cap, "salloc report");
    struct sa_fmt f;
    int failed;

    if (!buf)
        return -ENOMEM;
    sa_fmt_init(&f, buf, cap);
    sa_report_format_file(path, &f);
    failed = sa_file_write(file, buf, f.len);
    sa_vm_unmap(buf, cap);
    return failed;
}

static void at_exit_stats(void)
{
    static struct sa_file file; /* 8 KiB; written by one thread, once */
    char path[SA_FILE_PATH_MAX];
    int failed;

    sa_init();
    failed = sa_file_expand(sa_options.stats.text, path, sizeof(path));
    if (failed) {
        sa_warn("cannot write %s: error %d", sa_options.stats.text, -failed);
        return;
    }
    failed = sa_file_begin_as(&file, path, sa_report_file_mode(path));
    if (!failed) {
        failed = write_stats(&file, path);
        if (failed)
            sa_file_abandon(&file);
        else
            failed = sa_file_commit(&file);
    }
    if (failed)
        sa_warn("cannot write %s: error %d", path, -failed);
}

void sa_at_exit_register(void)
{
    if (sa_options.stats.text[0])
        atexit(at_exit_stats);
}
