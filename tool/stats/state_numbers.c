/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies what the library's own table (the section salloc_layout of this program) calls state, from
 * the place that the target's table tells; see state.h. All of the library that is linked into this
 * program has entries there. A field must have the same size on both sides.
 */
#include "tool/stats/state.h"

#include "alloc/base/attrs.h"
#include "alloc/base/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE_MAX (1u << 20) /* bytes of an array */
#define OWN_MAX      4096
#define PAGE         4096

extern const char __start_salloc_layout[] SA_HIDDEN, __stop_salloc_layout[] SA_HIDDEN;

/* This program's own entry at a place, or NULL; *at moves to the next one. */
static const struct sa_layout *own_next(const char **at)
{
    while (*at + sizeof(struct sa_layout) <= __stop_salloc_layout) {
        const struct sa_layout *entry = (const struct sa_layout *)*at;

        if (**at) {
            *at += sizeof(*entry);
            return entry;
        }
        *at += 8; /* padding */
    }
    return NULL;
}

/* This program's own entries, in the order of names. */
struct own {
    const struct sa_layout *of[OWN_MAX];
    size_t count;
};

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct sa_layout *const *)a)->name,
                  (*(const struct sa_layout *const *)b)->name);
}

static void collect_own(struct own *ret)
{
    const char *at = __start_salloc_layout;

    ret->count = 0;
    while (ret->count < OWN_MAX && (ret->of[ret->count] = own_next(&at)))
        ret->count++;
    qsort(ret->of, ret->count, sizeof(*ret->of), by_name);
}

static const struct sa_layout *own_find(const struct own *own, const char *name)
{
    size_t low = 0, high = own->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(own->of[middle]->name, name);

        if (order == 0)
            return own->of[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static char *own_place(const struct own *own, const char *variable)
{
    char name[SA_LAYOUT_NAME + 1] = "&";
    const struct sa_layout *entry = own_find(own, strcat(name, variable));

    return entry ? (char *)(uintptr_t)&entry->value + entry->value : NULL;
}

/* Reads through a copy of the page that was read last: most variables have neighbours. */
struct page {
    uint64_t address; /* 0: none */
    char bytes[PAGE];
};

static bool read_near(struct sa_target *t, struct page *p, uint64_t address, void *to, size_t bytes)
{
    uint64_t page = address & ~(uint64_t)(PAGE - 1);

    if (bytes > PAGE || address - page > PAGE - bytes)
        return sa_target_read(t, address, to, bytes);
    if (p->address != page) {
        p->address = 0;
        if (!page || !sa_target_read(t, page, p->bytes, PAGE))
            return sa_target_read(t, address, to, bytes);
        p->address = page;
    }
    memcpy(to, p->bytes + (address - page), bytes);
    return true;
}

/* What an entry is about: "=VARIABLE", "=VARIABLE.FIELD", "=VARIABLE[]", "=VARIABLE[].FIELD". The
 * longest part in front of a dot that is the name of a variable. */
struct part {
    char variable[SA_LAYOUT_NAME];
    bool each, array;
    char *own;
    uint64_t theirs;
};

static bool find_part(struct sa_state *s, const struct own *own, const char *name, struct part *ret)
{
    const char *bracket = strstr(name, "[]");
    char *dot;

    memset(ret, 0, sizeof(*ret));
    memcpy(ret->variable, name + 1, strlen(name + 1) + 1);
    ret->array = bracket && !bracket[2];
    ret->each = bracket && bracket[2];
    if (bracket)
        ret->variable[bracket - name - 1] = '\0';
    while (!(ret->own = own_place(own, ret->variable)) && (dot = strrchr(ret->variable, '.')))
        *dot = '\0';
    if (!ret->own)
        return false; /* this program has not got the variable */
    ret->theirs = sa_table_variable(s->table, ret->variable, s->e);
    return !s->e->code;
}

static bool read_part(struct sa_state *s, struct page *page, const struct part *part,
                      const struct sa_layout *entry, uint64_t value)
{
    uint32_t from = (uint32_t)value, to = (uint32_t)entry->value;
    uint32_t bytes = (uint32_t)((uint64_t)entry->value >> 32);

    if ((uint32_t)(value >> 32) != bytes)
        sa_error_set(s->e, SA_EXIT_VERSION,
                     "%s of its library is not what this sallocctl knows: use the one that comes "
                     "with the library",
                     entry->name + 1);
    else if (!read_near(s->target, page, part->theirs + from, part->own + to, bytes))
        sa_error_set(s->e, SA_EXIT_DAMAGED, "%s of its library cannot be read", entry->name + 1);
    return !s->e->code;
}

/* A field of all elements of an array. */
static bool read_each(struct sa_state *s, const struct own *all_own, const struct part *part,
                      const struct sa_layout *entry, uint64_t value)
{
    char name[SA_LAYOUT_NAME + 4];
    uint32_t from = (uint32_t)value, to = (uint32_t)entry->value;
    uint32_t bytes = (uint32_t)((uint64_t)entry->value >> 32);
    struct sa_error none = {SA_EXIT_DONE, ""};
    const struct sa_layout *array;
    uint64_t theirs, own;
    uint32_t step, count;
    char *all;

    snprintf(name, sizeof(name), "=%s[]", part->variable);
    array = own_find(all_own, name);
    own = array ? (uint64_t)array->value : 0;
    theirs = sa_table_constant(s->table, name, &none);
    step = (uint32_t)theirs;
    count = (uint32_t)(theirs >> 32);
    if (!own || none.code || count != (uint32_t)(own >> 32) || (uint32_t)(value >> 32) != bytes ||
        step > VARIABLE_MAX || from > step || bytes > step - from ||
        (uint64_t)step * count > VARIABLE_MAX) {
        sa_error_set(s->e, SA_EXIT_VERSION,
                     "%s of its library is not what this sallocctl knows: use the one that comes "
                     "with the library",
                     entry->name + 1);
        return false;
    }
    all = malloc((size_t)step * count);
    if (!all || !sa_target_read(s->target, part->theirs, all, (size_t)step * count))
        sa_error_set(s->e, SA_EXIT_DAMAGED, "%s of its library cannot be read", part->variable);
    for (uint32_t i = 0; !s->e->code && i < count; i++)
        memcpy(part->own + (size_t)i * (uint32_t)own + to, all + (size_t)i * step + from, bytes);
    free(all);
    return !s->e->code;
}

bool sa_state_take_numbers(struct sa_state *s)
{
    static struct own own;
    static struct page page;
    const char *at = __start_salloc_layout;
    const struct sa_layout *entry;

    collect_own(&own);
    page.address = 0;
    while (!s->e->code && (entry = own_next(&at))) { /* neighbours after each other */
        struct part part;
        uint64_t value;

        if (entry->name[0] != '=' || !find_part(s, &own, entry->name, &part) || part.array)
            continue;
        value = sa_table_constant(s->table, entry->name, s->e);
        if (s->e->code)
            break;
        if (part.each)
            read_each(s, &own, &part, entry, value);
        else
            read_part(s, &page, &part, entry, value);
    }
    return !s->e->code;
}

uint64_t sa_state_place(struct sa_state *s, const char *variable, const char *record,
                        const char *field)
{
    uint64_t place = sa_table_variable(s->table, variable, s->e);
    struct sa_field at = sa_table_field(s->table, record, field, s->e);

    return s->e->code ? 0 : place + at.offset;
}

uint64_t sa_state_word(struct sa_state *s, uint64_t address)
{
    uint64_t word = 0;

    return sa_target_read(s->target, address, &word, sizeof(word)) ? word : 0;
}

bool sa_state_damaged(struct sa_state *s, const char *what)
{
    sa_error_set(s->e, SA_EXIT_DAMAGED, "%s of its library makes no sense", what);
    return false;
}
