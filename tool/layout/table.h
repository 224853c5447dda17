/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a library in a target says of itself (alloc/base/layout.h): constants, places of variables,
 * and fields of records. A command of another version reads what it knows by these, and says so
 * where something is missing; it never guesses.
 */
#ifndef SA_TOOL_LAYOUT_TABLE_H
#define SA_TOOL_LAYOUT_TABLE_H

#include "tool/layout/objects.h"

/* The layout version that this command understands. */
#define SA_TABLE_VERSION 1

struct sa_table_entry {
    char name[48];
    uint64_t value; /* a variable's address; a constant; a field's offset and size */
};

struct sa_table {
    struct sa_table_entry *entries; /* in the order of names */
    size_t count;
};

/* Reads the table of the copy of the library that serves the target. */
bool sa_table_read(struct sa_target *t, const struct sa_objects *o, struct sa_table *ret,
                   struct sa_error *e);
void sa_table_free(struct sa_table *table);

/* Each sets an error if there is none of the name. */
uint64_t sa_table_variable(const struct sa_table *table, const char *name, struct sa_error *e);
uint64_t sa_table_constant(const struct sa_table *table, const char *name, struct sa_error *e);

struct sa_field {
    uint32_t offset, bytes;
};

struct sa_field sa_table_field(const struct sa_table *table, const char *record, const char *field,
                               struct sa_error *e);

/* One of a record's fields, as they are in this command's own record of the same name. */
struct sa_own_field {
    const char *name;
    uint32_t offset, bytes;
};

#define SA_OWN_FIELD(type, field)                                                                  \
    {                                                                                              \
#field, offsetof(type, field), sizeof(((type *)0)->field)                                  \
    }

/* How a record of the target becomes one of ours. */
#define SA_PLAN_FIELDS 24

struct sa_plan {
    unsigned count;
    uint32_t span; /* bytes of the target's record, as far as they are needed */
    struct {
        uint32_t from, to, bytes;
    } field[SA_PLAN_FIELDS];
};

#define SA_PLAN_SPAN_MAX 4096

bool sa_plan_make(const struct sa_table *table, const char *record,
                  const struct sa_own_field *fields, unsigned count, struct sa_plan *ret,
                  struct sa_error *e);

/* Fills in those fields of our record from the target's bytes, or from its memory. */
void sa_plan_apply(const struct sa_plan *plan, const void *theirs, void *ours);
bool sa_plan_read(struct sa_target *t, const struct sa_plan *plan, uint64_t address, void *ours);

/* A number of up to 8 bytes; false: it cannot be read. */
bool sa_field_read(struct sa_target *t, uint64_t record, struct sa_field field, uint64_t *ret);

#endif
