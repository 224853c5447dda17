/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the stats page that the option `stats` asks for. A page is a file that is complete or not
 * there (alloc/output/file.h). Nothing is torn down at exit: memory stays valid for code that runs
 * later.
 *
 * The lock `writing` of output.c guards the variables. The constructor and the handler of fork
 * write them, too: no other thread uses them then.
 */
#include "alloc/api/control/stats_output.h"

#include "alloc/api/init.h"
#include "alloc/api/options/options.h"
#include "alloc/api/replaced.h"
#include "alloc/base/bits.h"
#include "alloc/base/fmt.h"
#include "alloc/output/destination.h"
#include "alloc/os/vm.h"
#include "stats/report.h"

#include <errno.h>

static struct sa_destination destination; /* of `stats` */

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

void sa_stats_output_write(void)
{
    static struct sa_file file; /* 8 KiB */
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
    sa_destination_tell(&destination, "", path, -failed);
}

bool sa_stats_output_register(bool nested)
{
    if (!sa_options.stats.text[0])
        return false;
    if (sa_destination_keep(&destination, sa_options.stats.text, nested) != 0 &&
        !sa_replaced_serves_nobody())
        sa_destination_complain("", destination.pattern, destination.told);
    return true;
}

void sa_stats_output_after_fork(void)
{
    if (sa_options.stats.text[0])
        sa_destination_after_fork(&destination);
}
