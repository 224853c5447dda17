/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment string SALLOC_CONF="key:value,key:value". Ignored where the process runs with
 * privileges that its user does not have. An item that is not understood is skipped, and each is
 * reported in a line of its own; nothing in the string can keep the program from running.
 */
#ifndef SA_API_OPTIONS_H
#define SA_API_OPTIONS_H

#include "alloc/page_heap/page_heap.h"
#include "include/salloc/profile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_OPTION_PATH_MAX 1024

typedef struct {
    char text[SA_OPTION_PATH_MAX];
} sa_option_path;
typedef size_t sa_option_size;
typedef size_t sa_option_number;
typedef uint64_t sa_option_seconds;
typedef bool sa_option_flag;
typedef enum salloc_profile_type sa_option_type;
typedef int sa_option_signal;
typedef unsigned sa_option_part;
typedef enum sa_hugepages sa_option_hugepages;
/* ON is 1, as SA_HARDENED is. */
typedef enum { SA_HARDENING_OFF, SA_HARDENING_ON, SA_HARDENING_SAMPLED } sa_option_hardening;
typedef enum { SA_JUNK_NONE, SA_JUNK_ALLOC, SA_JUNK_FREE, SA_JUNK_BOTH } sa_option_junk;

/* Whether this is a hardened build, in which nothing can be switched off. */
#ifndef SA_HARDENED
#define SA_HARDENED 0
#endif

struct sa_options {
#define SA_OPTION(key, kind, value, least, most, help) sa_option_##kind key;
#include "alloc/api/options.def"
#undef SA_OPTION
};

/* Const after sa_options_read. */
extern struct sa_options sa_options;

/* Whether the environment has the string. */
bool sa_options_given(void);

/* Reads the process's environment. quiet: says nothing of what is wrong. */
void sa_options_read(bool quiet);

#define SA_OPTION_COMPLAINTS       8 /* reported one by one; of those that follow only the number */
#define SA_OPTION_COMPLAINTS_BYTES ((SA_OPTION_COMPLAINTS + 1) * 384)

/*
 * Parses one string into the options; what was wrong goes to complaints, each with a newline (empty
 * if nothing). Whether there was an item "help".
 */
bool sa_options_parse(struct sa_options *options, const char *text, char *complaints, size_t cap);

/* The text of the default of every option. */
void sa_options_default(struct sa_options *options);

#endif
