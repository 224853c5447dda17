/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of the line: one line on stderr in one write, the stacks that belong to it
 * (sa_fatal_report), then abort. No malloc, no stdio, no lock. Callers drop every allocator lock
 * first, so that a SIGABRT handler that allocates still works.
 */
#ifndef SA_BASE_FATAL_H
#define SA_BASE_FATAL_H

#include "alloc/base/attrs.h"

#include <stdarg.h>
#include <stddef.h>

/* "salloc: <what>: <pointer> <detail>"; detail is a format for sa_fmt_add. */
SA_NORETURN SA_COLD void sa_fatal(const char *what, const void *pointer, const char *detail, ...);

/* An invariant of the allocator itself that does not hold; on in every build. */
SA_NORETURN SA_COLD void sa_fatal_internal(const char *file, int line, const char *condition);

/* One line on stderr that does not end the process (used for option errors). */
SA_COLD void sa_warn(const char *format, ...);

/*
 * Writes the line of a fatal error, which ends with a newline, and what is known beside it. Set by
 * the initialisation to a function of a higher layer. NULL before: the line alone is written.
 * pointer: what the line is about; NULL: nothing in particular.
 */
typedef void sa_fatal_report_fn(const char *what, const void *pointer, const char *line);
extern sa_fatal_report_fn *sa_fatal_report SA_HIDDEN;

/* A line as sa_warn writes it, with "salloc: " and a newline; its bytes. */
SA_COLD size_t sa_fatal_format(char *buf, size_t cap, const char *format, va_list ap);

/* Writes a line to stderr in one write. */
SA_COLD void sa_fatal_write(const char *line, size_t bytes);

#define SA_CHECK(c)                                                                                \
    do {                                                                                           \
        if (SA_UNLIKELY(!(c)))                                                                     \
            sa_fatal_internal(__FILE__, __LINE__, #c);                                             \
    } while (0)

/* An invariant that debug builds check (-Ddebug_checks=true). Other builds compile the condition
 * and do not evaluate it. For locks: SA_DCHECK_HELD of alloc/os/lock.h. */
#ifdef SA_DEBUG
#define SA_DCHECK(c) SA_CHECK(c)
#else
#define SA_DCHECK(c) ((void)sizeof(!(c)))
#endif

/* A call of sa_..._validate, which checks a whole structure: part of debug builds only. */
#ifdef SA_DEBUG
#define SA_VALIDATE(call) call
#else
#define SA_VALIDATE(call) ((void)0)
#endif

#endif
