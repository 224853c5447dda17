/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of the environment variable SALLOC_CONF="key:value,key:value". Their list is
 * options.def.
 *
 * A process with more rights than its user (setuid) ignores the variable. An item that is not
 * understood is skipped and reported in a line of its own on stderr. No string keeps the program
 * from running.
 */
#ifndef SA_API_OPTIONS_OPTIONS_H
#define SA_API_OPTIONS_OPTIONS_H

#include "alloc/middle/mixed_spans.h"
#include "alloc/page_heap/page_heap.h"
#include "include/salloc/profile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_OPTION_PATH_MAX 1024
#define SA_UNUSED_MAX_S    300 /* of intervals that are accepted without effect */

#define SA_PROFILES_MAX 8 /* paths that `profile` may have */

typedef struct {
    char text[SA_OPTION_PATH_MAX];
} sa_option_path;
typedef size_t sa_option_size;
typedef size_t sa_option_number;
typedef uint64_t sa_option_seconds;
typedef bool sa_option_flag;
/* The types of the profiles, in the order of their paths: enum salloc_profile_type. */
typedef struct {
    unsigned char of[SA_PROFILES_MAX];
} sa_option_types;
typedef int sa_option_signal;
typedef unsigned sa_option_percent;
typedef enum sa_hugepages sa_option_hugepages;
typedef enum sa_mixed_use sa_option_mixed;
/* ON is 1, so that the constant SA_HARDENED can be the default. */
typedef enum { SA_HARDENING_OFF, SA_HARDENING_ON, SA_HARDENING_SAMPLED } sa_option_hardening;
typedef enum { SA_THREAD_OFF, SA_THREAD_AUTO, SA_THREAD_ON } sa_option_thread;
typedef enum { SA_JUNK_NONE, SA_JUNK_ALLOC, SA_JUNK_FREE, SA_JUNK_BOTH } sa_option_junk;

/* 1 in a hardened build (-Dhardening=full), in which no hardening can be switched off. */
#ifndef SA_HARDENED
#define SA_HARDENED 0
#endif

/* The keys, in the order of the list. */
enum sa_option_key {
#define SA_OPTION(key, kind, value, min, max, help) SA_OPTION_KEY_##key,
#include "alloc/api/options/options.def"
#undef SA_OPTION
};

/* The value of each key, by its name. `profile` has all paths, with commas between them. */
struct sa_options {
#define SA_OPTION(key, kind, value, min, max, help) sa_option_##kind key;
#include "alloc/api/options/options.def"
#undef SA_OPTION
    uint64_t given; /* a bit for each key that the string names with a valid value */
};

/* Written under INIT, by sa_options_read or sa_options_default and then by init.c. Const
 * afterwards. */
extern struct sa_options sa_options;

/* Returns the value of a variable in the environment, or NULL. name: with "=" behind it. Callable
 * before libc has set `environ`. */
const char *sa_options_variable(const char *name);

/* Returns the value of the variable in the environment, or NULL. */
const char *sa_options_find(void);

/* Sets sa_options to the defaults and then parses the environment's string. quiet: prints no help
 * and no complaints. */
void sa_options_read(bool quiet);

#define SA_OPTION_COMPLAINTS       8 /* mistakes that get a line each; of the others the number */
#define SA_OPTION_COMPLAINTS_BYTES ((SA_OPTION_COMPLAINTS + 1) * 384)

/* Parses one string into the options. complaints: gets a line for each mistake, or is empty; cut
 * after `cap` bytes. Returns whether the string has the item "help". */
bool sa_options_parse(struct sa_options *options, const char *text, char *complaints, size_t cap);

/* Returns whether the string names a key, with its default or with another value. */
static inline bool sa_option_is_given(const struct sa_options *options, enum sa_option_key key)
{
    return options->given >> key & 1;
}

/* Sets every option to its default. */
void sa_options_default(struct sa_options *options);

#endif
