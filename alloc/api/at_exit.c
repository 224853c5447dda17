/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stats page that the option `stats` asks for, written when the process exits. A report is a
 * file that is complete or not there (alloc/os/file.h). Nothing is torn down at exit: memory stays
 * valid for code that runs later.
 *
 * No lock: the constructor, the exit handler and the handler of fork run on one thread each, one
 * after the other.
 */
#include "alloc/api/at_exit.h"

#include "alloc/api/init.h"
#include "alloc/api/options.h"
#include "alloc/api/replaced.h"
#include "alloc/base/bits.h"
#include "alloc/base/fmt.h"
#include "alloc/os/destination.h"
#include "alloc/os/vm.h"
#include "stats/report.h"

#include <errno.h>
#include <stdlib.h>

static struct sa_destination destination; /* of `stats`; written by the constructor, the exit
                                             handler and, in a child, the handler of fork */

/* Formats the page and writes it to the file. Returns 0 or a negative errno. */
static int write_stats(struct sa_file *file, enum sa_report_kind kind, const char *path)
{
    size_t cap = sa_align_up(sa_report_size(), 65536);
    char *buf = sa_vm_map(NULL, cap, "salloc report");
    struct sa_fmt f;
    int failed;

    if (!buf)
        return -ENOMEM;
    sa_fmt_init(&f, buf, cap);
    sa_report_format_file(kind, path, &f);
    failed = sa_file_write(file, buf, f.len);
    sa_vm_unmap(buf, cap);
    return failed;
}

static void at_exit_stats(void)
{
    static struct sa_file file; /* 8 KiB; used once, by the thread that exits */
    char path[SA_FILE_PATH_MAX];
    /* The format follows from the ending that the user wrote. The folder that may stand before it
     * in the destination does not change the ending. */
    enum sa_report_kind kind = sa_report_kind_of_path(sa_options.stats.text);
    int failed;

    if (sa_replaced_serves_nobody())
        return;
    sa_init();
    destination.mode = sa_report_file_mode(kind);
    failed = sa_destination_begin(&destination, &file, path, kind == SA_REPORT_TEXT);
    if (!failed) {
        failed = write_stats(&file, kind, path);
        if (failed)
            sa_file_abandon(&file);
        else
            failed = sa_file_commit(&file);
    }
    if (failed && -failed != destination.told)
        sa_destination_complain("", path, -failed);
}

void sa_at_exit_register(void)
{
    if (!sa_options.stats.text[0])
        return;
    if (sa_destination_keep(&destination, sa_options.stats.text) != 0 &&
        !sa_replaced_serves_nobody())
        sa_destination_complain("", destination.pattern, destination.told);
    atexit(at_exit_stats);
}

void sa_at_exit_after_fork(void)
{
    if (sa_options.stats.text[0])
        sa_destination_after_fork(&destination);
}
