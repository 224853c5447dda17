/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Different keys, numbered from 0 in the order in which they come. A key is bytes. All zero is an
 * empty set. Open addressing, at most half full.
 */
#ifndef SA_TOOL_BASE_INTERN_H
#define SA_TOOL_BASE_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_INTERN_NONE UINT32_MAX

struct sa_intern {
    char *bytes; /* the keys, one behind the other */
    size_t bytes_used, bytes_cap;
    struct sa_intern_key {
        uint64_t hash;
        size_t at, bytes;
    } * keys;
    size_t count, cap;
    uint32_t *slots; /* number of a key, or SA_INTERN_NONE */
    size_t slot_count;
};

/* The number of a key, which is added if it is new. SA_INTERN_NONE: there is no memory. */
uint32_t sa_intern(struct sa_intern *set, const void *key, size_t bytes);

/* The bytes of a key, until another is added. */
const void *sa_intern_key(const struct sa_intern *set, uint32_t number, size_t *bytes);

void sa_intern_free(struct sa_intern *set);

#endif
