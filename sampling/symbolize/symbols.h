/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the names of functions in the symbol tables of ELF files. The first table that exists is
 * used: .symtab of the object's file, .symtab of its separate debug file, .dynsym of its file.
 *
 * Files are read and not mapped, so a file that is truncated meanwhile does no harm. Nothing in a
 * file is trusted. Memory grows with the number of addresses, not with the size of the tables.
 */
#ifndef SA_SAMPLING_SYMBOLIZE_SYMBOLS_H
#define SA_SAMPLING_SYMBOLIZE_SYMBOLS_H

#include "sampling/symbolize/mappings.h"

/* An address and the function that it is in. The caller fills in the address, and zeros. */
struct sa_symbol {
    uint64_t address; /* as in the file: without the object's base */
    uint64_t value;   /* address of the function */
    uint64_t size;    /* bytes of the function; 0: not known */
    size_t name;      /* offset in names; 0: no function was found */
    /* During the search: */
    uint64_t name_at; /* offset of the name in the file; 0: no function so far */
    uint8_t rank;     /* of the function: rank_of */
};

/*
 * Finds the functions of `count` addresses of an object. Requires that the addresses are sorted,
 * and that `names` is not empty; names are added to it. Tables of a file that is not the loaded one
 * are not used. False: no table has any function.
 */
bool sa_symbols_find(const struct sa_mappings *mappings, const struct sa_object *object,
                     struct sa_symbol *symbols, size_t count, struct sa_buffer *names);

/* As sa_symbols_find, in one table of one open file: .dynsym, or .symtab. */
bool sa_symbols_find_in(int fd, bool dynamic, struct sa_symbol *symbols, size_t count,
                        struct sa_buffer *names);

#endif
