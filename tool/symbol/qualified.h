/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of functions with the namespaces, classes and functions around them, for those whose debug
 * information lacks a mangled name: inlined functions of anonymous namespaces, and lambdas. Without
 * their scopes, all lambdas of a program would be "operator()".
 */
#ifndef SA_TOOL_SYMBOL_QUALIFIED_H
#define SA_TOOL_SYMBOL_QUALIFIED_H

#include "tool/base/intern.h"

#include <elfutils/libdw.h>

/* What is known of entries of debug information. All zero: nothing yet. */
struct sa_qualified {
    struct sa_intern units;     /* addresses of those that were read */
    struct sa_intern functions; /* addresses of those without a mangled name */
    struct sa_intern scopes;    /* texts */
    uint32_t *scope_of;         /* of each function */
    char **names;               /* of each function; NULL: not asked for yet */
    size_t scope_cap, name_cap;
};

/* The name of a function, or of an inlined call of one, as "space::class::name". It lives until
 * sa_qualified_free. NULL: it has no name, or there is no memory. */
const char *sa_qualified_name(struct sa_qualified *q, Dwarf_Die *function);

void sa_qualified_free(struct sa_qualified *q);

#endif
