/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command reads: a live process, or a core file. There is one way to its memory,
 * sa_target_read; nothing is written to it, nothing runs in it, and it is not stopped.
 *
 * The target is not trusted. Whatever is read from it may be garbage: callers bound each length and
 * check each number before they use it.
 */
#ifndef SA_TOOL_TARGET_TARGET_H
#define SA_TOOL_TARGET_TARGET_H

#include "tool/base/error.h"
#include "tool/target/threads.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SA_TARGET_ROWS_MAX (1u << 20) /* mappings that are looked at */

/* What the process may do with a mapping, and whether it shares it. */
enum sa_access {
    SA_ACCESS_READ = 1,
    SA_ACCESS_WRITE = 2,
    SA_ACCESS_EXECUTE = 4,
    SA_ACCESS_SHARED = 8, /* a core does not tell */
};

/* A mapping. Of a core: a mapping of a file. */
struct sa_row {
    uint64_t start, end, offset;
    size_t path;     /* where its name begins in names; that of names[0] is empty */
    unsigned access; /* SA_ACCESS_... */
};

/* Memory that can be read; of a core, that the core itself holds. */
struct sa_area {
    uint64_t start, end;
    unsigned access;  /* SA_ACCESS_... */
    const char *path; /* the file's; "": none, or one of the kernel's names in brackets */
    bool guarded;     /* memory that nobody may access lies right before it */
};

struct sa_target;

/* Memory to be read, and where to. */
struct sa_piece {
    uint64_t address;
    void *buffer;
    size_t bytes;
};

/* The kind of a target. */
struct sa_target_kind {
    /* Exactly so many bytes, or false. */
    bool (*read)(struct sa_target *t, uint64_t address, void *buffer, size_t bytes);
    /* Reads pieces, each exactly, until one cannot be read; returns how many. NULL: each is read by
     * itself. */
    size_t (*read_many)(struct sa_target *t, const struct sa_piece *pieces, size_t count);
    /* Where the file of a mapping can be opened now, other than by its name; false: nowhere else.
     */
    bool (*file)(struct sa_target *t, const struct sa_row *row, char *ret, size_t cap);
    /* Area number i, in the order of addresses; false: there are not so many. */
    bool (*area)(struct sa_target *t, size_t i, struct sa_area *ret);
    void (*close)(struct sa_target *t);
};

struct sa_target {
    const struct sa_target_kind *kind;
    pid_t pid;       /* of the process, as its reader knows it; 0: not known */
    pid_t thread;    /* of a process: the thread through which it is read (sa_io_living) */
    bool live;       /* a process */
    int64_t time_ns; /* when the memory was as it is, since 1970 */
    struct sa_row *rows;
    size_t row_count, row_cap;
    char *names;
    size_t names_used, names_cap;
    /* From the auxiliary vector; 0: not known. Addresses of the program's headers and its path. */
    uint64_t program_headers, program_name, vdso, page_bytes;
    unsigned program_header_count;
    struct sa_threads threads; /* of a core */
    char lack[96];             /* what a core lacks; "": nothing that is known */
    void *data;                /* the kind's */
};

/* What a command is to read. */
struct sa_source {
    pid_t pid;        /* of a process; 0: a file */
    const char *name; /* as the user gave it; of a process, NULL: it was found otherwise */
};

/* Parses an argument: digits are a PID, all else is the name of a file. False: there cannot be a
 * process of that number. */
bool sa_source_parse(const char *what, struct sa_source *ret, struct sa_error *e);

/* Opens a process, or else the core file of that name. */
bool sa_target_open(struct sa_target *t, struct sa_source source, struct sa_error *e);
bool sa_target_open_process(struct sa_target *t, pid_t pid, struct sa_error *e);
bool sa_target_open_core(struct sa_target *t, const char *path, struct sa_error *e);
void sa_target_close(struct sa_target *t);

/* Looks for the files of cores below a folder first; NULL: no more. */
void sa_target_set_sysroot(const char *folder);
const char *sa_target_sysroot(void);

static inline bool sa_target_read(struct sa_target *t, uint64_t address, void *buffer, size_t bytes)
{
    return bytes == 0 ||
           (address && address + bytes > address && t->kind->read(t, address, buffer, bytes));
}

#define SA_PIECES_MAX 256

/* Reads up to SA_PIECES_MAX pieces; returns how many, up to the first that cannot be read. */
size_t sa_target_read_many(struct sa_target *t, const struct sa_piece *pieces, size_t count);

/* The number of the first area that ends behind an address, if there is one. *ret gets what was
 * looked at last. */
size_t sa_target_area_behind(struct sa_target *t, uint64_t address, struct sa_area *ret);

/* Adds a mapping; rows come in the order of addresses. False: no memory, or too many. */
bool sa_target_add_row(struct sa_target *t, uint64_t start, uint64_t end, uint64_t offset,
                       unsigned access, const char *path);

/* The mapping with an address, or NULL. */
const struct sa_row *sa_target_row(const struct sa_target *t, uint64_t address);

static inline const char *sa_target_path(const struct sa_target *t, const struct sa_row *row)
{
    return t->names + row->path;
}

/* What the auxiliary vector tells, which is `bytes` long. */
void sa_target_set_auxiliary(struct sa_target *t, const void *vector, size_t bytes);

#endif
