/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of keys; see intern.h. */
#include "tool/base/intern.h"

#include "tool/base/array.h"

#define SLOTS_FIRST 1024

static uint64_t hash_of(const uint8_t *key, size_t bytes)
{
    uint64_t hash = bytes;

    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ key[i]) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static bool make_room(struct sa_intern *set)
{
    size_t count = set->slot_count ? 2 * set->slot_count : SLOTS_FIRST;
    uint32_t *slots;

    if (2 * (set->count + 1) <= set->slot_count)
        return true;
    slots = malloc(count * sizeof(*slots));
    if (!slots)
        return false;
    memset(slots, 0xff, count * sizeof(*slots));
    for (size_t i = 0; i < set->count; i++) {
        size_t at = set->keys[i].hash & (count - 1);

        while (slots[at] != SA_INTERN_NONE)
            at = (at + 1) & (count - 1);
        slots[at] = (uint32_t)i;
    }
    free(set->slots);
    set->slots = slots;
    set->slot_count = count;
    return true;
}

static bool is_key(const struct sa_intern *set, uint32_t number, uint64_t hash, const void *key,
                   size_t bytes)
{
    const struct sa_intern_key *k = &set->keys[number];

    return k->hash == hash && k->bytes == bytes &&
           (!bytes || memcmp(set->bytes + k->at, key, bytes) == 0);
}

uint32_t sa_intern(struct sa_intern *set, const void *key, size_t bytes)
{
    uint64_t hash = hash_of(key, bytes);
    size_t slot, at = set->bytes_used;

    if (set->count >= SA_INTERN_NONE || !make_room(set) ||
        !sa_array_room(&set->keys, &set->cap, set->count + 1, sizeof(*set->keys), 256))
        return SA_INTERN_NONE;
    for (slot = hash & (set->slot_count - 1); set->slots[slot] != SA_INTERN_NONE;
         slot = (slot + 1) & (set->slot_count - 1))
        if (is_key(set, set->slots[slot], hash, key, bytes))
            return set->slots[slot];
    if (!sa_array_room(&set->bytes, &set->bytes_cap, at + bytes, 1, 4096))
        return SA_INTERN_NONE;
    if (bytes)
        memcpy(set->bytes + at, key, bytes);
    set->bytes_used += bytes;
    set->keys[set->count] = (struct sa_intern_key){hash, at, bytes};
    set->slots[slot] = (uint32_t)set->count;
    return (uint32_t)set->count++;
}

const void *sa_intern_key(const struct sa_intern *set, uint32_t number, size_t *bytes)
{
    *bytes = set->keys[number].bytes;
    return set->bytes + set->keys[number].at;
}

void sa_intern_free(struct sa_intern *set)
{
    free(set->bytes);
    free(set->keys);
    free(set->slots);
    memset(set, 0, sizeof(*set));
}
