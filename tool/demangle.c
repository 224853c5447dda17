/* SPDX-License-Identifier: Apache-2.0 */
/* Names as sources have them, by libiberty; see demangle.h. */
#include "tool/demangle.h"

#include <stddef.h>
#ifdef SA_DEMANGLE
#include <libiberty/demangle.h>
#endif

char *sa_demangle(const char *name)
{
#ifdef SA_DEMANGLE
    return cplus_demangle(name, DMGL_PARAMS | DMGL_ANSI | DMGL_AUTO);
#else
    (void)name;
    return NULL;
#endif
}
