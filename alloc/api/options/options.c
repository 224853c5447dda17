/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser of SALLOC_CONF; see options.h. The first allocation or the constructor runs it, once,
 * under INIT. libc may not be initialised by then: the parser calls no function of libc that
 * allocates, and finds the variable without getenv.
 */
#include "alloc/api/options/options.h"

#include "alloc/api/options/options_text.h"
#include "alloc/base/layout.h"
#include "alloc/base/attrs.h"
#include "alloc/base/fatal.h"
#include "alloc/base/fmt.h"
#include "alloc/os/scratch.h"

#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* A variable of the dynamic loader: the process's stack at its start. The loader sets it before any
 * code of a library runs; `environ` is set later. */
extern void *__libc_stack_end SA_WEAK;

SA_LAYOUT_USED struct sa_options sa_options;

/* The percentage that the value "on" of limit_from_cgroup stands for. */
#define PERCENT_ON 90

/* The most characters of an item that a complaint shows. */
#define SHOWN 100

/* A part of the string, which does not end with a zero. */
struct piece {
    const char *at;
    size_t len;
};

static bool piece_is(struct piece p, const char *word)
{
    return strlen(word) == p.len && memcmp(p.at, word, p.len) == 0;
}

static struct piece piece_from(struct piece p, size_t n)
{
    return (struct piece){p.at + n, p.len - n};
}

/* Parses decimal digits. False if there is none, any other character, or a number above 2^64 -
 * 1. */
static bool parse_digits(struct piece p, uint64_t *ret)
{
    uint64_t v = 0;

    for (size_t i = 0; i < p.len; i++) {
        uint64_t digit = (uint64_t)(p.at[i] - '0');

        if (p.at[i] < '0' || p.at[i] > '9' || v > (UINT64_MAX - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    *ret = v;
    return p.len != 0;
}

/* Parses digits with a suffix k, m or g (2^10, 2^20, 2^30), or none. */
static bool parse_size(struct piece p, uint64_t *ret)
{
    unsigned shift = 0;

    switch (p.len ? p.at[p.len - 1] | 0x20 : 0) {
    case 'k':
        shift = 10;
        break;
    case 'm':
        shift = 20;
        break;
    case 'g':
        shift = 30;
        break;
    default:
        break;
    }
    p.len -= shift != 0;
    if (!parse_digits(p, ret) || *ret > UINT64_MAX >> shift)
        return false;
    *ret <<= shift;
    return true;
}

/* Whether profile_signal may be this signal. libc uses those between SIGSYS and SIGRTMIN itself. */
static bool signal_is_free(uint64_t number)
{
    /* A handler cannot catch the last two. After a handler of the others, the instruction that
     * caused the signal would run again, without end. */
    static const unsigned char others[] = {SIGSEGV, SIGBUS, SIGFPE,  SIGILL,
                                           SIGTRAP, SIGSYS, SIGKILL, SIGSTOP};

    for (size_t i = 0; i < sizeof(others); i++)
        if (number == others[i])
            return false;
    return number && number <= (uint64_t)SIGRTMAX &&
           (number <= SIGSYS || number >= (uint64_t)SIGRTMIN);
}

/* Parses a number, or a name with or without "SIG". Names of real-time signals are RTMIN+N and
 * RTMAX-N. */
static bool parse_signal(struct piece p, uint64_t *ret)
{
    uint64_t offset = 0, range = (uint64_t)(SIGRTMAX - SIGRTMIN);
    bool from_end;
    int known;

    if (parse_digits(p, ret))
        return signal_is_free(*ret);
    if (p.len > 3 && memcmp(p.at, "SIG", 3) == 0)
        p = piece_from(p, 3);
    known = sa_option_word(SA_OPTION_signal, p.at, p.len);
    *ret = (uint64_t)known;
    if (known >= 0)
        return true;
    from_end = p.len >= 5 && memcmp(p.at, "RTMAX", 5) == 0;
    if (!from_end && (p.len < 5 || memcmp(p.at, "RTMIN", 5) != 0))
        return false;
    if (p.len > 5 &&
        (p.at[5] != (from_end ? '-' : '+') || !parse_digits(piece_from(p, 6), &offset)))
        return false;
    *ret = from_end ? (uint64_t)SIGRTMAX - offset : (uint64_t)SIGRTMIN + offset;
    return offset <= range;
}

/* Parses on, off, or a percentage with or without "%". 0 is off. */
static bool parse_percent(struct piece p, uint64_t *ret)
{
    int flag = p.len > 1 ? sa_option_word(SA_OPTION_flag, p.at, p.len) : -1;

    if (flag >= 0 || piece_is(p, "0")) {
        *ret = flag > 0 ? PERCENT_ON : 0;
        return true;
    }
    p.len -= p.len && p.at[p.len - 1] == '%';
    return parse_digits(p, ret);
}

/* Parses a value of a kind other than path. False: not understood. */
static bool parse_value(enum sa_option_kind kind, struct piece p, uint64_t *ret)
{
    int word;

    switch (kind) {
    case SA_OPTION_size:
    case SA_OPTION_number:
        return parse_size(p, ret);
    case SA_OPTION_seconds:
        p.len -= p.len && p.at[p.len - 1] == 's';
        return parse_digits(p, ret);
    case SA_OPTION_signal:
        return parse_signal(p, ret);
    case SA_OPTION_percent:
        return parse_percent(p, ret);
    default:
        word = sa_option_word(kind, p.at, p.len);
        *ret = (uint64_t)word;
        return word >= 0;
    }
}

/* The result of an item; complaint_add has the words for it. */
enum verdict { FINE, AGAIN, NO_VALUE, NOT_UNDERSTOOD, OUT_OF_RANGE, TOO_MANY, UNKNOWN };

/* What is known in the middle of the string. */
struct parse {
    struct sa_options *options;
    uint64_t seen;         /* a bit for each key so far */
    unsigned profiles;     /* paths so far */
    bool type_first;       /* a profile_type came before all paths: types stand before their path */
    bool type_again;       /* a type came since the last path; it counts for that path */
    unsigned char type;    /* type_first: of the next path */
    unsigned char of_last; /* type_first and type_again: of the last path, if one more path comes */
    struct piece type_item; /* the item of the last type */
};

static void default_size(sa_option_size *o, size_t v)
{
    *o = v;
}

static void default_number(sa_option_number *o, size_t v)
{
    *o = v;
}

static void default_seconds(sa_option_seconds *o, uint64_t v)
{
    *o = v;
}

static void default_flag(sa_option_flag *o, bool v)
{
    *o = v;
}

static void default_path(sa_option_path *o, const char *v)
{
    strcpy(o->text, v);
}

static void default_types(sa_option_types *o, enum salloc_profile_type v)
{
    memset(o->of, v, sizeof(o->of));
}

static void default_percent(sa_option_percent *o, unsigned v)
{
    *o = v;
}

static void default_mixed(sa_option_mixed *o, enum sa_mixed_use v)
{
    *o = v;
}

static void default_hugepages(sa_option_hugepages *o, enum sa_hugepages v)
{
    *o = v;
}

static void default_hardening(sa_option_hardening *o, sa_option_hardening v)
{
    *o = v;
}

static void default_thread(sa_option_thread *o, sa_option_thread v)
{
    *o = v;
}

static void default_junk(sa_option_junk *o, sa_option_junk v)
{
    *o = v;
}

static void default_signal(sa_option_signal *o, int v)
{
    *o = v;
}

void sa_options_default(struct sa_options *options)
{
#define SA_OPTION(key, kind, value, min, max, help) default_##kind(&options->key, value);
#include "alloc/api/options/options.def"
#undef SA_OPTION
    options->given = 0;
}

/* Sets an option that is a path. An empty or too long one leaves the option as it was. */
static enum verdict set_path(const struct sa_option_info *info, struct sa_options *options,
                             struct piece value, bool again)
{
    sa_option_path *path = (sa_option_path *)((char *)options + info->offset);

    if (value.len == 0 || value.len >= sizeof(path->text))
        return NOT_UNDERSTOOD;
    again = again && !piece_is(value, path->text);
    memcpy(path->text, value.at, value.len);
    memset(path->text + value.len, 0, sizeof(path->text) - value.len);
    return again ? AGAIN : FINE;
}

/* Adds a path to those of `profile`. The same path twice is one. */
static enum verdict add_profile(struct parse *parse, struct piece value)
{
    sa_option_path *all = &parse->options->profile;
    sa_option_types *types = &parse->options->profile_type;
    size_t used = strlen(all->text), comma = used != 0;

    for (const char *p = all->text; *p; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == value.len && memcmp(p, value.at, value.len) == 0)
            return FINE;
    if (value.len == 0 || value.len >= sizeof(all->text))
        return NOT_UNDERSTOOD;
    if (parse->profiles == SA_PROFILES_MAX || used + comma + value.len >= sizeof(all->text))
        return TOO_MANY;
    if (comma)
        all->text[used] = ',';
    memcpy(all->text + used + comma, value.at, value.len);
    all->text[used + comma + value.len] = '\0';
    if (parse->type_first && parse->type_again)
        types->of[parse->profiles - 1] = parse->of_last;
    types->of[parse->profiles++] = parse->type_first ? parse->type : SALLOC_PROFILE_HEAP;
    parse->type_again = false;
    return FINE;
}

/*
 * Sets the type of a profile. Types stand behind the paths that they count for, or before them if
 * the first type does. A type that is the last one counts for the last path in any case.
 */
static enum verdict set_profile_type(struct parse *parse, struct piece item, unsigned char type,
                                     bool again)
{
    unsigned char *types = parse->options->profile_type.of;
    unsigned char *at = parse->profiles ? &types[parse->profiles - 1] : types;

    again = (parse->profiles ? parse->type_again && !parse->type_first : again) && *at != type;
    if (!parse->profiles) {
        parse->type_first = true;
    } else if (!parse->type_again) {
        parse->of_last = *at;
        parse->type_again = true;
    }
    parse->type_item = item;
    parse->type = *at = type;
    return again ? AGAIN : FINE;
}

/* Whether the string ends with a type that replaces another one. */
static bool type_is_left(const struct parse *parse)
{
    return parse->type_first && parse->type_again && parse->type != parse->of_last;
}

/* Sets one option. again: the key came before. The same value twice is no mistake. */
static enum verdict set_value(const struct sa_option_info *info, struct parse *parse,
                              struct piece item, struct piece value, bool again)
{
    struct sa_options *options = parse->options;
    uint64_t parsed;

    if (info->offset == offsetof(struct sa_options, profile))
        return add_profile(parse, value);
    if (info->kind == SA_OPTION_path)
        return set_path(info, options, value, again);
    if (!parse_value(info->kind, value, &parsed))
        return NOT_UNDERSTOOD;
    if (info->max && (parsed < info->min || parsed > info->max) &&
        !(info->kind == SA_OPTION_percent && !parsed))
        return OUT_OF_RANGE;
    if (info->kind == SA_OPTION_types)
        return set_profile_type(parse, item, (unsigned char)parsed, again);
    again = again && sa_option_load(info, options) != parsed;
    sa_option_store(info, options, parsed);
    return again ? AGAIN : FINE;
}

/* Adds a line: what is wrong with the item, and what would be right. info: the entry of its key, or
 * of the nearest key, or NULL. */
static void complaint_add(struct sa_fmt *f, enum verdict verdict, struct piece item,
                          const struct sa_option_info *info)
{
    static const char what[][24] = {
        [AGAIN] = "key given again",
        [NO_VALUE] = "no value",
        [NOT_UNDERSTOOD] = "value not understood",
        [OUT_OF_RANGE] = "value out of range",
        [TOO_MANY] = "too many",
        [UNKNOWN] = "unknown key",
    };

    sa_fmt_add(f, "%s: ", what[verdict]);
    for (size_t i = 0; i < item.len && i < SHOWN; i++)
        sa_fmt_add(f, "%c", item.at[i] >= ' ' && item.at[i] < 127 ? item.at[i] : '?');
    sa_fmt_add(f, item.len > SHOWN ? "...; " : "; ");
    if (verdict == AGAIN)
        sa_fmt_add(f, "the last value counts");
    else if (verdict == UNKNOWN && info)
        sa_fmt_add(f, "did you mean %s?", info->key);
    else if (verdict == UNKNOWN)
        sa_fmt_add(f, "SALLOC_CONF=help lists all");
    else if (verdict == TOO_MANY)
        sa_fmt_add(f, "at most %d, with %d characters in all", SA_PROFILES_MAX,
                   SA_OPTION_PATH_MAX - SA_PROFILES_MAX);
    else
        sa_fmt_add(f, "allowed: ");
    if (verdict != AGAIN && verdict != TOO_MANY && verdict != UNKNOWN)
        sa_option_add_allowed(f, info);
    sa_fmt_add(f, "\n");
}

/* Returns the entry of a key, or NULL. */
static const struct sa_option_info *find_key(struct piece key)
{
    for (size_t i = 0; i < SA_OPTIONS; i++)
        if (piece_is(key, sa_option_infos[i].key))
            return &sa_option_infos[i];
    return NULL;
}

/* Parses one item "key:value" and returns the verdict. *ret_info becomes the entry that
 * complaint_add takes. */
static SA_COLD enum verdict parse_item(struct parse *parse, struct piece item,
                                       const struct sa_option_info **ret_info)
{
    const char *colon = memchr(item.at, ':', item.len);
    struct piece key = {item.at, colon ? (size_t)(colon - item.at) : item.len};
    const struct sa_option_info *info = find_key(key);
    uint64_t bit;
    enum verdict verdict;
    bool again;

    *ret_info = info ? info : sa_option_nearest(key.at, key.len);
    if (!info)
        return UNKNOWN;
    if (!colon)
        return NO_VALUE;
    bit = 1ull << (info - sa_option_infos);
    again = parse->seen & bit;
    parse->seen |= bit;
    verdict = set_value(info, parse, item, piece_from(item, key.len + 1), again);
    if (verdict == FINE || verdict == AGAIN)
        parse->options->given |= bit;
    return verdict;
}

SA_COLD bool sa_options_parse(struct sa_options *options, const char *text, char *complaints,
                              size_t cap)
{
    struct parse parse = {.options = options};
    size_t wrong = 0;
    bool help = false;
    struct sa_fmt f;

    sa_fmt_init(&f, complaints, cap);
    while (*text) {
        struct piece item = {text, strcspn(text, ",")};
        const struct sa_option_info *info;
        enum verdict verdict;

        text += item.len + (text[item.len] == ',');
        if (item.len == 0)
            continue;
        if (piece_is(item, "help")) {
            help = true;
            continue;
        }
        verdict = parse_item(&parse, item, &info);
        if (verdict != FINE && ++wrong <= SA_OPTION_COMPLAINTS)
            complaint_add(&f, verdict, item, info);
    }
    if (type_is_left(&parse) && ++wrong <= SA_OPTION_COMPLAINTS)
        complaint_add(&f, AGAIN, parse.type_item, NULL);
    if (wrong > SA_OPTION_COMPLAINTS)
        sa_fmt_add(&f, "%zu more are not right\n", wrong - SA_OPTION_COMPLAINTS);
    return help;
}

/* Returns the environment, also before libc has set `environ`. NULL: not found. */
static SA_START_CODE char **options_environment(void)
{
    uintptr_t *stack;

    if (environ || &__libc_stack_end == NULL || !__libc_stack_end)
        return environ;
    /* The kernel leaves there: argc, argv[0 .. argc], envp. */
    stack = __libc_stack_end;
    return (char **)(stack + 1 + *stack + 1);
}

SA_START_CODE const char *sa_options_variable(const char *name)
{
    for (char **env = options_environment(); env && *env; env++)
        /* Compares the first letters here, so that most processes do not touch the page of
         * strncmp. */
        if ((*env)[0] == name[0] && (*env)[1] == name[1] && strncmp(*env, name, strlen(name)) == 0)
            return *env + strlen(name);
    return NULL;
}

SA_START_CODE const char *sa_options_find(void)
{
    static SA_START_DATA char name[] = "SALLOC_CONF="; /* on a page that the loader has touched */
    return sa_options_variable(name);
}

/* Parses the string into sa_options, and prints help and complaints unless `quiet` is set. */
static SA_COLD void options_read(const char *text, bool quiet)
{
    char none[1], *block = sa_scratch_take(), *complaints = block ? block : none;
    bool help = sa_options_parse(&sa_options, text, complaints,
                                 block ? SA_OPTION_COMPLAINTS_BYTES : sizeof(none));

    if (help && !quiet)
        sa_options_help();
    for (char *line = complaints; *line && !quiet; line += strlen(line) + 1) {
        line[strcspn(line, "\n")] = '\0';
        sa_warn("SALLOC_CONF: %s", line);
    }
    sa_scratch_give(block);
}

SA_STATIC_ASSERT(SA_OPTION_COMPLAINTS_BYTES <= SA_SCRATCH_BYTES, "they fit");

SA_RARE void sa_options_read(bool quiet)
{
    const char *text = getauxval(AT_SECURE) ? NULL : sa_options_find();

    sa_options_default(&sa_options);
    if (text)
        options_read(text, quiet);
}
