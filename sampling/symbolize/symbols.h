/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of functions, from the symbol tables of ELF files: .symtab, of the file itself or of its
 * separate debug file, else .dynsym. Files are read, not mapped, so that one that is cut short
 * meanwhile does no harm; nothing in them is trusted. Memory grows with the addresses asked for,
 * not with the tables.
 */
#ifndef SA_SAMPLING_SYMBOLIZE_SYMBOLS_H
#define SA_SAMPLING_SYMBOLIZE_SYMBOLS_H

#include "sampling/symbolize/mappings.h"

/* A question and its answer. */
struct sa_symbol {
    uint64_t address; /* asked for: as in the file, without the load address */
    uint64_t value;   /* where the function begins */
    uint64_t size;    /* 0: not known */
    size_t name;      /* where the name begins in names; 0: none was found */
    /* While looking: */
    uint64_t name_at; /* offset of the name in the file */
    uint8_t rank;
};

/*
 * Finds the functions of sorted addresses of an object, whose file must be the one that is loaded.
 * Names are added to `names`, which must not be empty. False: no table of functions is to be had.
 */
bool sa_symbols_find(const struct sa_mappings *mappings, const struct sa_object *object,
                     struct sa_symbol *symbols, size_t count, struct sa_buffer *names);

/* The same for one file: from its .symtab, or its .dynsym. */
bool sa_symbols_find_in(int fd, bool dynamic, struct sa_symbol *symbols, size_t count,
                        struct sa_buffer *names);

#endif
