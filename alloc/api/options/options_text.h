/* SPDX-License-Identifier: Apache-2.0 */
/* The table of SALLOC_CONF's keys, and their values as text: for the parser, for SALLOC_CONF=help,
 * and for reports. The table is constant, and no function here allocates or keeps state. */
#ifndef SA_API_OPTIONS_OPTIONS_TEXT_H
#define SA_API_OPTIONS_OPTIONS_TEXT_H

#include "alloc/api/options/options.h"
#include "alloc/base/fmt.h"

enum sa_option_kind {
    SA_OPTION_size,
    SA_OPTION_number,
    SA_OPTION_seconds,
    SA_OPTION_flag,
    SA_OPTION_path,
    SA_OPTION_types,
    SA_OPTION_signal,
    SA_OPTION_percent,
    SA_OPTION_hugepages,
    SA_OPTION_mixed,
    SA_OPTION_hardening,
    SA_OPTION_thread,
    SA_OPTION_junk,
};

/* An entry of the table. Arrays, because the loader would have to relocate pointers in every
 * process. */
struct sa_option_info {
    enum sa_option_kind kind;
    unsigned offset; /* in struct sa_options */
    uint64_t min, max;
    char key[32];
    char help[104];
};

#define SA_OPTION(key, kind, value, min, max, help) +1
enum {
    SA_OPTIONS = 0
#include "alloc/api/options/options.def"
};
#undef SA_OPTION

extern const struct sa_option_info sa_option_infos[SA_OPTIONS] SA_HIDDEN;

/* Returns the value of a kind that a word stands for, or -1. The word has `len` bytes, without a
 * zero. */
int sa_option_word(enum sa_option_kind kind, const char *word, size_t len);

/* Reads and writes an option of any kind but path. */
uint64_t sa_option_load(const struct sa_option_info *info, const struct sa_options *options);
void sa_option_store(const struct sa_option_info *info, struct sa_options *options, uint64_t value);

/* Adds which values a key may have. */
void sa_option_add_allowed(struct sa_fmt *f, const struct sa_option_info *info);

/* Adds a value of any kind but path, as SALLOC_CONF takes it. */
void sa_option_add_value(struct sa_fmt *f, const struct sa_option_info *info, uint64_t value);

/* Returns the entry of the key that was probably meant, or NULL if none is similar. */
const struct sa_option_info *sa_option_nearest(const char *key, size_t len);

/* Prints a line on stderr for each key: its help, the allowed values and the default. */
void sa_options_help(void);

/* Adds the options in effect, also those that functions have changed since the start: as lines of
 * the stats page or as a JSON object. In options_report.c. */
void sa_options_report(struct sa_fmt *f, bool json);

/* Adds the value in effect of one option, as a line of the stats page has it. In
 * options_report.c. */
void sa_options_report_one(struct sa_fmt *f, const struct sa_option_info *info);

#endif
