/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fatal errors and warnings. A fatal error writes one line to stderr in one write, if that still is
 * stderr, then the stacks that belong to it (sa_fatal_report), and aborts. It uses no malloc, no
 * stdio and no lock.
 *
 * The callers of sa_fatal release every lock first and then call, so that a handler of SIGABRT that
 * allocates works. sa_fatal_internal may be called with locks held.
 *
 * The only shared words are sa_fatal_report and sa_fatal_warn, which start-up sets once.
 */
#ifndef SA_BASE_FATAL_H
#define SA_BASE_FATAL_H

#include "alloc/base/attrs.h"

#include <stdarg.h>
#include <stddef.h>

/* Reports an error of the program, and aborts: "salloc: <what>: <pointer> <detail>". `detail` is a
 * format for sa_fmt_add. */
SA_NORETURN SA_COLD void sa_fatal(const char *what, const void *pointer, const char *detail, ...);

/* Reports an invariant of the allocator that does not hold, and aborts. SA_CHECK calls this in
 * every build. */
SA_NORETURN SA_COLD void sa_fatal_internal(const char *file, int line, const char *condition);

/* Writes one line to stderr, if that still is stderr, and returns; for example for an error in the
 * options. */
SA_COLD void sa_warn(const char *format, ...);

/*
 * Writes the line of a fatal error, which ends with a newline, and what a higher layer knows beside
 * it. Start-up sets the function before the first allocation. Before that it is NULL, and the line
 * alone is written. pointer: the address that the line is about; NULL: none.
 */
typedef void sa_fatal_report_fn(const char *what, const void *pointer, const char *line);
extern sa_fatal_report_fn *sa_fatal_report SA_HIDDEN;

/* Writes a line of sa_warn where one may be written that the program survives. Start-up sets the
 * function. Before that it is NULL, and the line goes to stderr. */
typedef void sa_fatal_warn_fn(const char *line, size_t bytes);
extern sa_fatal_warn_fn *sa_fatal_warn SA_HIDDEN;

/* Formats a line as sa_warn writes it: "salloc: ", the text, a newline. Returns its bytes. */
SA_COLD size_t sa_fatal_format(char *buf, size_t cap, const char *format, va_list ap);

/* Writes a line to stderr in one write. */
SA_COLD void sa_fatal_write(const char *line, size_t bytes);

/* Checks an invariant in every build. */
#define SA_CHECK(c)                                                                                \
    do {                                                                                           \
        if (SA_UNLIKELY(!(c)))                                                                     \
            sa_fatal_internal(__FILE__, __LINE__, #c);                                             \
    } while (0)

/* Checks an invariant in debug builds (-Ddebug_checks=true). Other builds compile the condition but
 * do not evaluate it. For locks, see SA_DCHECK_HELD in alloc/os/lock.h. */
#ifdef SA_DEBUG
#define SA_DCHECK(c) SA_CHECK(c)
#else
#define SA_DCHECK(c) ((void)sizeof(!(c)))
#endif

/* Calls a function sa_..._validate, which checks a whole structure, in debug builds only. */
#ifdef SA_DEBUG
#define SA_VALIDATE(call) call
#else
#define SA_VALIDATE(call) ((void)0)
#endif

#endif
