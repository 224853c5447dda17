/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The headers of a core file: its segments, however many, and its notes. What is wrong with a file
 * has its own words: it is cut, compressed, a program, of another machine.
 */
#ifndef SA_TOOL_TARGET_CORE_HEADERS_H
#define SA_TOOL_TARGET_CORE_HEADERS_H

#include "tool/base/error.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sa_core_headers {
    Elf64_Phdr *of;
    size_t count;
    uint64_t bytes, wanted; /* of the file, as it is, and as its headers say */
};

/* Exactly so many bytes of a file, or false. */
bool sa_core_read_at(int fd, void *buffer, size_t bytes, uint64_t offset);

/* Reads the headers of a file; path: its name for errors. False: *e says what it is. */
bool sa_core_headers_read(int fd, const char *path, struct sa_core_headers *ret,
                          struct sa_error *e);
void sa_core_headers_free(struct sa_core_headers *h);

/* Calls back for each note, whose body is `bytes` long. False: the callback returned false, there
 * is no memory, or the notes make no sense, which *e says. */
bool sa_core_notes(int fd, const char *path, const struct sa_core_headers *h,
                   bool (*note)(void *arg, uint32_t type, const char *body, size_t bytes),
                   void *arg, struct sa_error *e);

#endif
