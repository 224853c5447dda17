/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports at exit. Nothing is torn down: memory stays valid for whatever runs later.
 *
 * The file is created anew, for its owner alone and never through a symbolic link, under a temporary
 * name, and renamed when it is complete.
 */
#include "alloc/api/at_exit.h"

#include "alloc/api/init.h"
#include "alloc/api/options.h"
#include "alloc/base/fatal.h"
#include "alloc/base/fmt.h"
#include "stats/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The path with %p replaced by the process number; other placeholders stay as they are. */
static void path_expand(const char *pattern, char *buf, size_t cap)
{
    struct sa_fmt f;

    sa_fmt_init(&f, buf, cap);
    for (; *pattern; pattern++) {
        if (pattern[0] == '%' && pattern[1] == 'p') {
            sa_fmt_add(&f, "%d", (int)getpid());
            pattern++;
        } else {
            sa_fmt_add(&f, "%c", *pattern);
        }
    }
}

static void at_exit_stats(void)
{
    char path[SA_OPTION_PATH_MAX + 16], temporary[sizeof(path) + 32];
    struct sa_fmt f;
    int fd, failed;

    sa_init();
    path_expand(sa_options.stats.text, path, sizeof(path));
    sa_fmt_init(&f, temporary, sizeof(temporary));
    sa_fmt_add(&f, "%s.%d.tmp", path, (int)getpid());
    unlink(temporary);
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        sa_warn("cannot create %s: error %d", temporary, errno);
        return;
    }
    failed = sa_report_write(fd) != 0;
    failed |= close(fd) != 0;
    if (failed || rename(temporary, path) != 0) {
        sa_warn("cannot write %s: error %d", path, errno);
        unlink(temporary);
    }
}

void sa_at_exit_register(void)
{
    if (sa_options.stats.text[0])
        atexit(at_exit_stats);
}
