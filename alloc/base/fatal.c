/* SPDX-License-Identifier: Apache-2.0 */
/* Fatal errors and warnings; see fatal.h. Buffers are on the stack. The only shared words
 * are sa_fatal_report and sa_fatal_warn, which start-up sets. */
#include "alloc/base/fatal.h"

#include "alloc/base/fmt.h"
#include "alloc/base/syscall.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

SA_START_DATA sa_fatal_report_fn *sa_fatal_report;
SA_START_DATA sa_fatal_warn_fn *sa_fatal_warn;

void sa_fatal_write(const char *line, size_t bytes)
{
    /* The system call instead of write(), which is a cancellation point: a thread could end in the
     * middle of a report or of a signal handler. The result is ignored, because nothing can be done
     * about a closed stderr. */
    sa_syscall(SYS_write, STDERR_FILENO, line, bytes);
}

/* Replaces control characters by '?', but for the newline at the end. File names and the
 * environment may hold any bytes, and control characters would move a terminal's cursor or begin
 * another line. */
static void fatal_clean(struct sa_fmt *f)
{
    for (size_t i = 0; i + 1 < f->len; i++)
        if ((unsigned char)f->buf[i] < ' ' || f->buf[i] == 0x7f)
            f->buf[i] = '?';
}

/* Writes the line and what is known beside it, and aborts. */
SA_NORETURN static void fatal_end(const char *what, const void *pointer, struct sa_fmt *f)
{
    fatal_clean(f);
    if (sa_fatal_report)
        sa_fatal_report(what, pointer, f->buf);
    else
        sa_fatal_write(f->buf, f->len);
    abort();
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
    fatal_end(what, pointer, &f);
}

void sa_fatal_internal(const char *file, int line, const char *condition)
{
    char buf[400];
    struct sa_fmt f;

    sa_fmt_init(&f, buf, sizeof(buf));
    sa_fmt_add(&f, "salloc: internal error: %s:%d: %s\n", file, line, condition);
    fatal_end("internal error", NULL, &f);
}

size_t sa_fatal_format(char *buf, size_t cap, const char *format, va_list ap)
{
    struct sa_fmt f;

    sa_fmt_init(&f, buf, cap - 1); /* room for the newline even when truncated */
    sa_fmt_add(&f, "salloc: ");
    sa_fmt_addv(&f, format, ap);
    f.cap++;
    sa_fmt_add(&f, "\n");
    fatal_clean(&f);
    return f.len;
}

void sa_warn(const char *format, ...)
{
    char buf[400];
    size_t bytes;
    va_list ap;

    va_start(ap, format);
    bytes = sa_fatal_format(buf, sizeof(buf), format, ap);
    va_end(ap);
    if (sa_fatal_warn)
        sa_fatal_warn(buf, bytes);
    else
        sa_fatal_write(buf, bytes);
}
