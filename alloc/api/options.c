/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing SALLOC_CONF; see options.h. Runs once, before the first allocation is served: no libc
 * function that allocates, and getenv only by hand, because libc may not be initialised yet. */
#include "alloc/api/options.h"

#include "alloc/base/attrs.h"
#include "alloc/base/fatal.h"
#include "alloc/base/fmt.h"

#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Of the dynamic loader, set before any library's code runs; environ is set later. */
extern void *__libc_stack_end SA_WEAK;

struct sa_options sa_options;

/* Percent that "on" stands for, and the least. */
#define PART_ON    90
#define PART_LEAST 10

struct piece {
    const char *at;
    size_t len;
};

static bool piece_is(struct piece p, const char *word)
{
    return strlen(word) == p.len && memcmp(p.at, word, p.len) == 0;
}

static bool parse_size(struct piece p, sa_option_size *ret)
{
    size_t v = 0, i = 0;
    unsigned shift = 0;

    for (; i < p.len && p.at[i] >= '0' && p.at[i] <= '9'; i++) {
        size_t digit = (size_t)(p.at[i] - '0');

        if (v > (SIZE_MAX - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    if (i == 0)
        return false;
    if (i < p.len) {
        switch (p.at[i++] | 0x20) {
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
            return false;
        }
    }
    if (i != p.len || v > SIZE_MAX >> shift)
        return false;
    *ret = v << shift;
    return true;
}

/* A number, with or without an "s". */
static bool parse_seconds(struct piece p, sa_option_seconds *ret)
{
    size_t v;

    p.len -= p.len && p.at[p.len - 1] == 's';
    if (!parse_size(p, &v) || p.at[p.len - 1] > '9') /* no k, m or g */
        return false;
    *ret = v;
    return true;
}

static bool parse_flag(struct piece p, sa_option_flag *ret)
{
    bool on = piece_is(p, "on") || piece_is(p, "true") || piece_is(p, "1");

    if (!on && !piece_is(p, "off") && !piece_is(p, "false") && !piece_is(p, "0"))
        return false;
    *ret = on;
    return true;
}

static bool parse_path(struct piece p, sa_option_path *ret)
{
    if (p.len == 0 || p.len >= sizeof(ret->text))
        return false;
    memcpy(ret->text, p.at, p.len);
    ret->text[p.len] = '\0';
    return true;
}

static bool parse_type(struct piece p, sa_option_type *ret)
{
    static const struct {
        const char *name;
        enum salloc_profile_type type;
    } types[] = {
        {"heap", SALLOC_PROFILE_HEAP},          {"fragmentation", SALLOC_PROFILE_FRAGMENTATION},
        {"peak", SALLOC_PROFILE_PEAK_HEAP},     {"allocation", SALLOC_PROFILE_ALLOCATIONS},
        {"lifetime", SALLOC_PROFILE_LIFETIMES},
    };

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (piece_is(p, types[i].name)) {
            *ret = types[i].type;
            return true;
        }
    }
    return false;
}

static bool parse_hugepages(struct piece p, sa_option_hugepages *ret)
{
    if (piece_is(p, "auto"))
        *ret = SA_HUGEPAGES_AUTO;
    else if (piece_is(p, "off"))
        *ret = SA_HUGEPAGES_OFF;
    else if (piece_is(p, "always"))
        *ret = SA_HUGEPAGES_ALWAYS;
    else
        return false;
    return true;
}

static bool parse_junk(struct piece p, sa_option_junk *ret)
{
    bool flag;

    if (piece_is(p, "alloc") || piece_is(p, "free")) {
        *ret = piece_is(p, "free") ? SA_JUNK_FREE : SA_JUNK_ALLOC;
        return true;
    }
    if (!parse_flag(p, &flag))
        return false;
    *ret = flag ? SA_JUNK_BOTH : SA_JUNK_NONE;
    return true;
}

/* With or without "SIG"; only signals that a program may well leave to this. */
static bool parse_signal(struct piece p, sa_option_signal *ret)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = {
        {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP},     {"PROF", SIGPROF},
        {"ALRM", SIGALRM}, {"QUIT", SIGQUIT}, {"WINCH", SIGWINCH}, {"URG", SIGURG},
    };
    /* The code that causes these would be started again, for ever. */
    static const int caused[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    size_t number;

    if (parse_size(p, &number)) {
        for (size_t i = 0; i < sizeof(caused) / sizeof(caused[0]); i++)
            if ((int)number == caused[i])
                return false;
        if (number == 0 || number >= NSIG || number == SIGKILL || number == SIGSTOP)
            return false;
        *ret = (int)number;
        return true;
    }
    if (p.len > 3 && memcmp(p.at, "SIG", 3) == 0)
        p = (struct piece){p.at + 3, p.len - 3};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        if (piece_is(p, signals[i].name)) {
            *ret = signals[i].number;
            return true;
        }
    }
    return false;
}

/* Percent, if not on or off. Less than a tenth is a mistake. */
static bool parse_part(struct piece p, sa_option_part *ret)
{
    size_t percent;
    bool on;

    if (!piece_is(p, "1") && parse_flag(p, &on)) {
        *ret = on ? PART_ON : 0;
        return true;
    }
    if (p.len && p.at[p.len - 1] == '%')
        p.len--;
    if (!parse_size(p, &percent) || percent < PART_LEAST || percent > 100)
        return false;
    *ret = (unsigned)percent;
    return true;
}

static void default_size(sa_option_size *o, size_t v)
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

static void default_type(sa_option_type *o, enum salloc_profile_type v)
{
    *o = v;
}

static void default_part(sa_option_part *o, unsigned v)
{
    *o = v;
}

static void default_hugepages(sa_option_hugepages *o, enum sa_hugepages v)
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
#define SA_OPTION(key, kind, value, help) default_##kind(&options->key, value);
#include "alloc/api/options.def"
#undef SA_OPTION
}

/* Sets one option; NULL, or what is wrong. */
static const char *options_set(struct sa_options *options, struct piece key, struct piece value)
{
#define SA_OPTION(name, kind, initial, help)                                                       \
    if (piece_is(key, #name))                                                                      \
        return parse_##kind(value, &options->name) ? NULL : "value not understood";
#include "alloc/api/options.def"
#undef SA_OPTION
    return "unknown key";
}

SA_COLD void sa_options_parse(struct sa_options *options, const char *text, char *complaint,
                              size_t cap)
{
    struct sa_fmt f;

    sa_fmt_init(&f, complaint, cap);
    while (*text) {
        size_t len = strcspn(text, ",");
        const char *colon = memchr(text, ':', len), *wrong = "no value";
        struct piece key = {text, colon ? (size_t)(colon - text) : len};

        if (colon)
            wrong = options_set(options, key,
                                (struct piece){colon + 1, len - (size_t)(colon + 1 - text)});
        if (len && wrong && f.len == 0) {
            sa_fmt_add(&f, "%s: ", wrong);
            for (size_t i = 0; i < len; i++)
                sa_fmt_add(&f, "%c", text[i] >= ' ' && text[i] < 127 ? text[i] : '?');
        }
        text += len + (text[len] == ',');
    }
}

static SA_START_CODE char **options_environment(void)
{
    uintptr_t *stack;

    if (environ || &__libc_stack_end == NULL || !__libc_stack_end)
        return environ;
    /* argc, argv[0 .. argc], envp: the process's stack as the kernel leaves it. */
    stack = __libc_stack_end;
    return (char **)(stack + 1 + *stack + 1);
}

/* What follows the "=", or NULL. */
static SA_START_CODE const char *options_find(void)
{
    static const char name[] = "SALLOC_CONF=";

    for (char **env = options_environment(); env && *env; env++)
        /* The first letters here, so that the page of the name is rarely touched. */
        if ((*env)[0] == name[0] && (*env)[1] == name[1] &&
            strncmp(*env, name, sizeof(name) - 1) == 0)
            return *env + sizeof(name) - 1;
    return NULL;
}

SA_START_CODE bool sa_options_given(void)
{
    return options_find() != NULL;
}

void sa_options_read(void)
{
    const char *text = getauxval(AT_SECURE) ? NULL : options_find();
    char complaint[200];

    sa_options_default(&sa_options);
    if (!text)
        return;
    sa_options_parse(&sa_options, text, complaint, sizeof(complaint));
    if (complaint[0])
        sa_warn("SALLOC_CONF: %s", complaint);
}
