/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names with scopes; see qualified.h. Debug information has no way from an entry to the one around
 * it, so a unit is read as a whole when the first of its functions is asked for. As in lines.c,
 * entries are visited at growing offsets only.
 */
#include "tool/symbol/qualified.h"

#include "tool/base/array.h"
#include "tool/symbol/demangle.h"

#include <dwarf.h>
#include <stdio.h>

#define DEPTH_MAX      200  /* of entries in each other */
#define SCOPE_BYTES    4096 /* a longer scope is cut */
#define REFERENCES_MAX 16   /* from an entry to the one that it is a copy of */

/* A scope, with the text that names in it begin with. */
struct scope {
    char text[SCOPE_BYTES];
    size_t used;
};

/* The mangled name of a function, which may be that of its declaration. */
static const char *mangled_name(Dwarf_Die *die)
{
    Dwarf_Attribute attribute;

    return dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute));
}

/* Replaces an entry by the one that an attribute refers to. */
static bool follow(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    Dwarf_Die to;

    if (!dwarf_formref_die(dwarf_attr(die, name, &attribute), &to))
        return false;
    *die = to;
    return true;
}

static void append(struct scope *scope, const char *name)
{
    size_t room = sizeof(scope->text) - scope->used;
    int n = snprintf(scope->text + scope->used, room, "%s::", name);

    scope->used += n > 0 && (size_t)n < room ? (size_t)n : 0;
    scope->text[scope->used] = '\0';
}

/* Enters a scope, whose name is that of its entry. */
static void enter(struct scope *scope, Dwarf_Die *die, int tag)
{
    const char *name = dwarf_diename(die);
    const char *mangled = tag == DW_TAG_subprogram ? mangled_name(die) : NULL;
    char *plain = mangled ? sa_demangle(mangled) : NULL, unnamed[40];
    int line = 0;

    if (plain)
        scope->used = 0; /* it has all scopes itself */
    if (plain || name) {
        append(scope, plain ? plain : name);
    } else if (tag == DW_TAG_namespace) {
        append(scope, "(anonymous namespace)");
    } else { /* a lambda, mostly */
        dwarf_decl_line(die, &line);
        snprintf(unnamed, sizeof(unnamed), "(unnamed at line %d)", line);
        append(scope, unnamed);
    }
    free(plain);
}

/* Adds a function, unless it is there, and returns its number. */
static uint32_t add_function(struct sa_qualified *q, const Dwarf_Die *die,
                             const struct scope *scope)
{
    size_t before = q->functions.count;
    uint32_t number, text;

    if (!sa_array_room(&q->scope_of, &q->scope_cap, before + 1, sizeof(*q->scope_of), 64) ||
        !sa_array_room(&q->names, &q->name_cap, before + 1, sizeof(*q->names), 64))
        return SA_INTERN_NONE;
    text = sa_intern(&q->scopes, scope->text, scope->used + 1);
    if (text == SA_INTERN_NONE)
        return SA_INTERN_NONE;
    number = sa_intern(&q->functions, &die->addr, sizeof(die->addr));
    if (number == before) {
        q->scope_of[number] = text;
        q->names[number] = NULL;
    }
    return number;
}

/* Adds the functions below an entry. *last: the largest offset so far. */
static void read_scope(struct sa_qualified *q, Dwarf_Die *parent, struct scope *scope,
                       Dwarf_Off *last, int depth)
{
    Dwarf_Die die;
    int more;

    if (depth > DEPTH_MAX)
        return;
    for (more = dwarf_child(parent, &die); more == 0; more = dwarf_siblingof(&die, &die)) {
        Dwarf_Off offset = dwarf_dieoffset(&die);
        int tag = dwarf_tag(&die);
        bool is_scope = tag == DW_TAG_namespace || tag == DW_TAG_class_type ||
                        tag == DW_TAG_structure_type || tag == DW_TAG_union_type ||
                        tag == DW_TAG_subprogram;

        if (offset <= *last)
            return;
        *last = offset;
        /* What refers to another entry is a copy of it, in which no scope begins. */
        if ((!is_scope && tag != DW_TAG_lexical_block) ||
            dwarf_hasattr(&die, DW_AT_abstract_origin))
            continue;
        if (tag == DW_TAG_subprogram && !dwarf_hasattr(&die, DW_AT_linkage_name) &&
            !dwarf_hasattr(&die, DW_AT_specification))
            add_function(q, &die, scope);
        if (dwarf_haschildren(&die) <= 0)
            continue;
        if (is_scope) {
            struct scope inner = {.used = scope->used};

            memcpy(inner.text, scope->text, scope->used + 1);
            enter(&inner, &die, tag);
            read_scope(q, &die, &inner, last, depth + 1);
        } else {
            read_scope(q, &die, scope, last, depth + 1);
        }
    }
}

static void read_unit(struct sa_qualified *q, Dwarf_Die *function)
{
    size_t before = q->units.count;
    struct scope scope = {"", 0};
    Dwarf_Off last;
    Dwarf_Die unit;

    if (!dwarf_diecu(function, &unit, NULL, NULL) ||
        sa_intern(&q->units, &unit.addr, sizeof(unit.addr)) < before)
        return;
    last = dwarf_dieoffset(&unit);
    read_scope(q, &unit, &scope, &last, 0);
}

const char *sa_qualified_name(struct sa_qualified *q, Dwarf_Die *function)
{
    static const struct scope none = {"", 0};
    const char *name = dwarf_diename(function);
    Dwarf_Die die = *function;
    uint32_t number;
    size_t bytes;

    if (!name)
        return NULL;
    for (int i = 0; i < REFERENCES_MAX && follow(&die, DW_AT_abstract_origin); i++)
        ;
    for (int i = 0; i < REFERENCES_MAX && follow(&die, DW_AT_specification); i++)
        ;
    read_unit(q, &die);
    number = add_function(q, &die, &none); /* if it is not there */
    if (number == SA_INTERN_NONE)
        return name;
    if (!q->names[number] &&
        asprintf(&q->names[number], "%s%s",
                 (const char *)sa_intern_key(&q->scopes, q->scope_of[number], &bytes), name) < 0)
        q->names[number] = NULL;
    return q->names[number] ? q->names[number] : name;
}

void sa_qualified_free(struct sa_qualified *q)
{
    for (size_t i = 0; i < q->functions.count; i++)
        free(q->names[i]);
    free(q->names);
    free(q->scope_of);
    sa_intern_free(&q->units);
    sa_intern_free(&q->functions);
    sa_intern_free(&q->scopes);
    memset(q, 0, sizeof(*q));
}
