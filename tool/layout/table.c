/* SPDX-License-Identifier: Apache-2.0 */
/* The library's description of itself, read from a target; see table.h. No state. */
#include "tool/layout/table.h"

#include "alloc/base/layout.h"

#include <stdlib.h>
#include <string.h>

#define SECTION_MAX (1u << 20)

struct note {
    uint32_t version, entry_bytes;
    int64_t begin, end; /* distances from their own places */
};

static bool add_entry(struct sa_table *table, const struct sa_layout *layout, uint64_t place)
{
    struct sa_table_entry *entry = &table->entries[table->count];
    const char *name = layout->name;
    bool variable = *name == '&';

    if (memchr(layout->name, '\0', sizeof(layout->name)) == NULL)
        return false;
    strcpy(entry->name, name);
    entry->value = (uint64_t)layout->value;
    if (variable)
        entry->value += place + offsetof(struct sa_layout, value);
    table->count++;
    return true;
}

/* Places that hold 0 between entries are padding. */
static bool parse(struct sa_table *table, const char *section, size_t bytes, uint64_t address)
{
    struct sa_layout layout;

    table->entries = calloc(bytes / sizeof(layout) + 1, sizeof(*table->entries));
    if (!table->entries)
        return false;
    for (size_t at = 0; at + sizeof(layout) <= bytes;) {
        if (!section[at]) {
            at += 8;
            continue;
        }
        memcpy(&layout, section + at, sizeof(layout));
        if (!add_entry(table, &layout, address + at))
            return false;
        at += sizeof(layout);
    }
    return true;
}

/* Says why the description cannot be read: of a core, it lies in the library's file. */
static void explain_unread(struct sa_target *t, uint64_t at, struct sa_error *e)
{
    const struct sa_row *row = sa_target_row(t, at);

    if (t->live || !row)
        sa_error_set(e, SA_EXIT_DAMAGED, "the description of the library cannot be read");
    else
        sa_error_set(e, SA_EXIT_DAMAGED,
                     "the description of the library cannot be read: the file of the library, "
                     "%s, must be where it was, and the same; --sysroot looks for it elsewhere",
                     sa_target_path(t, row));
}

static bool read_section(struct sa_target *t, uint64_t at, struct sa_table *ret, struct sa_error *e)
{
    struct note note;
    uint64_t begin, end;
    char *section;
    bool fine;

    if (!sa_target_read(t, at, &note, sizeof(note))) {
        sa_error_set(e, SA_EXIT_DAMAGED, "the note of the library cannot be read");
        return false;
    }
    if (note.version != SA_TABLE_VERSION || note.entry_bytes != sizeof(struct sa_layout)) {
        sa_error_set(e, SA_EXIT_VERSION,
                     "its library has a layout of version %u, and this sallocctl reads version %u: "
                     "use the one that comes with the library",
                     note.version, SA_TABLE_VERSION);
        return false;
    }
    begin = at + offsetof(struct note, begin) + (uint64_t)note.begin;
    end = at + offsetof(struct note, end) + (uint64_t)note.end;
    if (begin >= end || end - begin > SECTION_MAX) {
        sa_error_set(e, SA_EXIT_DAMAGED, "the note of the library makes no sense");
        return false;
    }
    section = malloc(end - begin);
    fine = section && sa_target_read(t, begin, section, end - begin) &&
           parse(ret, section, end - begin, begin);
    free(section);
    if (!fine)
        explain_unread(t, at, e);
    return fine;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct sa_table_entry *)a)->name,
                  ((const struct sa_table_entry *)b)->name);
}

/* Whether this copy of the library has served an allocation. */
static bool has_started(struct sa_target *t, const struct sa_table *table)
{
    struct sa_error none = {SA_EXIT_DONE, ""};
    struct sa_field limit = sa_table_field(table, "struct sa_hot", "mid_limit", &none);
    uint64_t hot = sa_table_variable(table, "sa_hot", &none), value;

    return !none.code && sa_field_read(t, hot, limit, &value) && value;
}

bool sa_table_read(struct sa_target *t, const struct sa_objects *o, struct sa_table *ret,
                   struct sa_error *e)
{
    if (!o->note_count)
        sa_error_set(e, SA_EXIT_NOT_ON_IT,
                     "it does not run on salloc: no library in it has salloc's note");
    for (unsigned i = 0; i < o->note_count; i++) {
        struct sa_error one = {SA_EXIT_DONE, ""};

        memset(ret, 0, sizeof(*ret));
        if (read_section(t, o->notes[i], ret, &one)) {
            qsort(ret->entries, ret->count, sizeof(*ret->entries), by_name);
            if (has_started(t, ret))
                return true;
        }
        sa_table_free(ret);
        if (one.code)
            sa_error_set(e, one.code, "%s", one.text);
    }
    sa_error_set(e, SA_EXIT_NOT_ON_IT, "salloc is in it, but has served no allocation yet");
    return false;
}

void sa_table_free(struct sa_table *table)
{
    free(table->entries);
    memset(table, 0, sizeof(*table));
}

static const struct sa_table_entry *find(const struct sa_table *table, const char *name,
                                         struct sa_error *e)
{
    struct sa_table_entry key;
    const struct sa_table_entry *found = NULL;

    if (table->count && strlen(name) < sizeof(key.name)) {
        strcpy(key.name, name);
        found = bsearch(&key, table->entries, table->count, sizeof(key), by_name);
    }
    if (found)
        return found;
    sa_error_set(e, SA_EXIT_VERSION,
                 "its library does not tell about %s: use the sallocctl that comes with it", name);
    return NULL;
}

static const struct sa_table_entry *find_joined(const struct sa_table *table, const char *first,
                                                const char *second, struct sa_error *e)
{
    char name[sizeof(table->entries->name)] = "";

    if (strlen(first) + strlen(second) >= sizeof(name)) {
        sa_error_set(e, SA_EXIT_VERSION, "%s%s is too long a name", first, second);
        return NULL;
    }
    strcat(strcpy(name, first), second);
    return find(table, name, e);
}

uint64_t sa_table_variable(const struct sa_table *table, const char *name, struct sa_error *e)
{
    const struct sa_table_entry *entry = find_joined(table, "&", name, e);

    return entry ? entry->value : 0;
}

uint64_t sa_table_constant(const struct sa_table *table, const char *name, struct sa_error *e)
{
    const struct sa_table_entry *entry = find(table, name, e);

    return entry ? entry->value : 0;
}

struct sa_field sa_table_field(const struct sa_table *table, const char *record, const char *field,
                               struct sa_error *e)
{
    char dotted[sizeof(table->entries->name)] = ".";
    const struct sa_table_entry *entry = NULL;

    if (strlen(field) + 2 <= sizeof(dotted))
        entry = find_joined(table, record, strcat(dotted, field), e);
    if (!entry)
        return (struct sa_field){0, 0};
    return (struct sa_field){(uint32_t)entry->value, (uint32_t)(entry->value >> 32)};
}

bool sa_plan_make(const struct sa_table *table, const char *record,
                  const struct sa_own_field *fields, unsigned count, struct sa_plan *ret,
                  struct sa_error *e)
{
    memset(ret, 0, sizeof(*ret));
    for (unsigned i = 0; i < count && i < SA_PLAN_FIELDS && !e->code; i++) {
        struct sa_field theirs = sa_table_field(table, record, fields[i].name, e);

        if (e->code)
            break;
        if (theirs.bytes != fields[i].bytes || theirs.offset > SA_PLAN_SPAN_MAX - theirs.bytes)
            sa_error_set(e, SA_EXIT_VERSION,
                         "%s.%s of its library is not what this sallocctl knows: use the one that "
                         "comes with the library",
                         record, fields[i].name);
        ret->field[ret->count].from = theirs.offset;
        ret->field[ret->count].to = fields[i].offset;
        ret->field[ret->count++].bytes = theirs.bytes;
        if (ret->span < theirs.offset + theirs.bytes)
            ret->span = theirs.offset + theirs.bytes;
    }
    return !e->code;
}

void sa_plan_apply(const struct sa_plan *plan, const void *theirs, void *ours)
{
    for (unsigned i = 0; i < plan->count; i++)
        memcpy((char *)ours + plan->field[i].to, (const char *)theirs + plan->field[i].from,
               plan->field[i].bytes);
}

bool sa_plan_read(struct sa_target *t, const struct sa_plan *plan, uint64_t address, void *ours)
{
    char bytes[SA_PLAN_SPAN_MAX];

    if (!sa_target_read(t, address, bytes, plan->span))
        return false;
    sa_plan_apply(plan, bytes, ours);
    return true;
}

bool sa_field_read(struct sa_target *t, uint64_t record, struct sa_field field, uint64_t *ret)
{
    *ret = 0; /* little-endian, as all of the library's machines */
    return field.bytes && field.bytes <= sizeof(*ret) &&
           sa_target_read(t, record + field.offset, ret, field.bytes);
}
