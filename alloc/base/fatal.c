/* SPDX-License-Identifier: Apache-2.0 */
/* Fatal errors and warnings; see fatal.h. The only writer to stderr in the library. */
#include "alloc/base/fatal.h"

#include "alloc/base/fmt.h"
#include "alloc/base/syscall.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

/* One line. File names and the environment may hold anything: what would move a terminal's cursor does not get there. */
static void fatal_write(struct sa_fmt *f)
{
    for (size_t i = 0; i + 1 < f->len; i++)
        if ((unsigned char)f->buf[i] < ' ' || f->buf[i] == 0x7f)
            f->buf[i] = '?';
    /* Not write(), in which a thread can be cancelled, in the middle of a report and of a signal handler. Nothing
     * can be done about a closed stderr. */
    sa_syscall(SYS_write, STDERR_FILENO, f->buf, f->len);
}

void sa_fatal(const char *what, const void *pointer, const char *detail, ...)
{
    char buf[400];
    struct sa_fmt f;
    va_list ap;

    sa_fmt_init(&f, buf, sizeof(buf) - 1); /* room for the newline even when truncated */
    sa_fmt_add(&f, "salloc: %s: %p ", what, pointer);
    va_start(ap, detail);
    sa_fmt_addv(&f, detail, ap);
    va_end(ap);
    f.cap++;
    sa_fmt_add(&f, "\n");
    fatal_write(&f);
    abort();
}

void sa_fatal_internal(const char *file, int line, const char *condition)
{
    char buf[400];
    struct sa_fmt f;

    sa_fmt_init(&f, buf, sizeof(buf));
    sa_fmt_add(&f, "salloc: internal error: %s:%d: %s\n", file, line, condition);
    fatal_write(&f);
    abort();
}

void sa_warn(const char *format, ...)
{
    char buf[400];
    struct sa_fmt f;
    va_list ap;

    sa_fmt_init(&f, buf, sizeof(buf) - 1);
    sa_fmt_add(&f, "salloc: ");
    va_start(ap, format);
    sa_fmt_addv(&f, format, ap);
    va_end(ap);
    f.cap++;
    sa_fmt_add(&f, "\n");
    fatal_write(&f);
}
