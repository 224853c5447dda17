/* SPDX-License-Identifier: Apache-2.0 */
/* The report in memory; see abort_message.h. State: the text; it belongs to the thread that
 * reports. */
#include "sampling/guard/abort_message.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/os/sys.h"
#include "alloc/os/vm.h"
#include "sampling/stack/loaded_object.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_BYTES (64 * 1024) /* mapped; three stacks of 64 frames with long names fit */
#define FEW_BYTES     512         /* the first line and the process fit */

/* The layout of libc, in a mapping of its own: libc unmaps it when it gets another message. */
struct message {
    unsigned bytes; /* of the mapping */
    char text[];
};

static struct message *message; /* NULL: there is none */
static char *text;              /* of the message, or `few` */
static size_t room;             /* bytes of the text that fit, with the terminator */
static size_t used;             /* bytes of the text, without the terminator */
static bool is_libcs;           /* libc knows the message, and owns its mapping */
static char few[FEW_BYTES];     /* the text without memory for a message */

const char *salloc_abort_message;

/* The tables of a loaded object in which the loader finds symbols. */
struct tables {
    const ElfW(Sym) * symbols;
    const char *names;
    const uint32_t *hash; /* DT_GNU_HASH */
};

/* An address in a dynamic section, which most loaders relocate in place. */
static uintptr_t dynamic_address(const struct link_map *map, uintptr_t p)
{
    return p < map->l_addr ? map->l_addr + p : p;
}

/* Finds the tables of an object; false: one is missing. */
static bool find_tables(const struct link_map *map, struct tables *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++) {
        uintptr_t p = dynamic_address(map, d->d_un.d_ptr);

        if (d->d_tag == DT_SYMTAB)
            ret->symbols = (const ElfW(Sym) *)p;
        else if (d->d_tag == DT_STRTAB)
            ret->names = (const char *)p;
        else if (d->d_tag == DT_GNU_HASH)
            ret->hash = (const uint32_t *)p;
    }
    return ret->symbols && ret->names && ret->hash;
}

/* Finds a symbol by name; NULL: there is none. DT_GNU_HASH has four words (number of buckets, index
 * of the first symbol, words of the filter, its shift), then filter, buckets and chains. */
static const ElfW(Sym) * find_symbol(const struct tables *t, const char *name)
{
    uint32_t buckets = t->hash[0], first = t->hash[1], hash = 5381;
    const uint32_t *bucket = t->hash + 4 + t->hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    uint32_t i;

    for (const char *c = name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    i = buckets ? bucket[hash % buckets] : 0;
    for (; i >= first && i; i++) {
        if ((chain[i - first] | 1) == (hash | 1) &&
            strcmp(t->names + t->symbols[i].st_name, name) == 0)
            return &t->symbols[i];
        if (chain[i - first] & 1)
            break;
    }
    return NULL;
}

/* The address of libc's __abort_msg, in the object that has abort; NULL: it has none. */
static struct message **find_variable(void)
{
    struct sa_loaded_object found;
    const ElfW(Sym) *symbol = NULL;
    struct tables tables;

    if (!sa_loaded_object_find((uintptr_t)abort, &found) || !found.map)
        return NULL;
    if (find_tables(found.map, &tables))
        symbol = find_symbol(&tables, "__abort_msg");
    if (!symbol || symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT ||
        symbol->st_size != sizeof(struct message *))
        return NULL;
    return (struct message **)(found.map->l_addr + symbol->st_value);
}

void sa_abort_message_begin(bool aborts)
{
    struct message **variable = aborts ? find_variable() : NULL;

    /* A message that libc knows belongs to libc, and may be unmapped already. */
    if (message && !is_libcs)
        sa_vm_unmap(message, MESSAGE_BYTES);
    message = sa_vm_map(NULL, MESSAGE_BYTES, "salloc:report");
    is_libcs = variable != NULL;
    used = 0;
    text = message ? message->text : few;
    room = message ? MESSAGE_BYTES - sizeof(*message) : FEW_BYTES;
    text[0] = '\0';
    salloc_abort_message = text;
    if (!message)
        return;
    message->bytes = MESSAGE_BYTES;
    if (variable)
        *variable = message;
}

void sa_abort_message_add(const char *line, size_t bytes)
{
    SA_DCHECK(used < room);
    bytes = sa_min(bytes, room - 1 - used);
    memcpy(text + used, line, bytes);
    used += bytes;
    text[used] = '\0';
}
