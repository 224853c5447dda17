/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the keys of SALLOC_CONF are: for the parser, for SALLOC_CONF=help, and for reports, which
 * show the options that are in effect. All of it is const; nothing here allocates.
 */
#ifndef SA_API_OPTIONS_TEXT_H
#define SA_API_OPTIONS_TEXT_H

#include "alloc/api/options.h"
#include "alloc/base/fmt.h"

enum sa_option_kind {
    SA_OPTION_size,
    SA_OPTION_number,
    SA_OPTION_seconds,
    SA_OPTION_flag,
    SA_OPTION_path,
    SA_OPTION_type,
    SA_OPTION_signal,
    SA_OPTION_part,
    SA_OPTION_hugepages,
    SA_OPTION_hardening,
    SA_OPTION_junk,
};

/* Arrays, not pointers: those would be relocated in every process. */
struct sa_option_info {
    enum sa_option_kind kind;
    unsigned offset; /* in struct sa_options */
    uint64_t least, most;
    char key[32];
    char help[104];
};

#define SA_OPTION(key, kind, value, least, most, help) +1
enum {
    SA_OPTIONS = 0
#include "alloc/api/options.def"
};
#undef SA_OPTION

extern const struct sa_option_info sa_option_infos[SA_OPTIONS] SA_HIDDEN;

/* Words that stand for a value of a kind; -1: none of them. The word need not end with a zero. */
int sa_option_word(enum sa_option_kind kind, const char *word, size_t len);

/* The value of a field that is no path. */
uint64_t sa_option_load(const struct sa_option_info *info, const struct sa_options *options);
void sa_option_store(const struct sa_option_info *info, struct sa_options *options, uint64_t value);

/* What values a key may have. */
void sa_option_add_allowed(struct sa_fmt *f, const struct sa_option_info *info);

/* A value of a key that is no path, as SALLOC_CONF takes it. */
void sa_option_add_value(struct sa_fmt *f, const struct sa_option_info *info, uint64_t value);

/* The key that was probably meant; NULL: none is like it. */
const struct sa_option_info *sa_option_nearest(const char *key, size_t len);

/* A line on stderr for each key. */
void sa_options_help(void);

/* In options_report.c. The options that are in effect, where functions have changed some: as lines
 * of the stats page, or as a JSON object. */
void sa_options_report(struct sa_fmt *f, bool json);

#endif
