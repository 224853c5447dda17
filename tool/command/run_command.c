/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl run: a program on salloc. */
#include "tool/command/command.h"

#include "alloc/output/destination.h"
#include "tool/base/budget.h"
#include "tool/base/error.h"
#include "tool/run/program_kind.h"
#include "tool/run/run_page.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY   "libsalloc.so"
#define NOT_RUN   126 /* as a shell says it */
#define NOT_FOUND 127
#define CONF_MAX  4096

extern const struct sa_command sa_command_run;

struct options {
    const char *library, *profile, *page, *type, *stats, *conf;
    double every; /* seconds between the moments of a time line; 0: none */
};

/*
 * The library beside this program: in the same folder, above it (a build), or where it is
 * installed. Packages of a system often have the link without a version apart, for those who
 * compile: the name that programs are bound to comes first.
 */
static bool find_library(char *ret, size_t cap)
{
    static const char *const places[] = {"", "../", "../" SA_LIBDIR "/", "../lib/", "../lib64/"};
    static const char *const names[] = {LIBRARY ".0", LIBRARY};
    char self[4096], *slash;
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (n <= 0)
        return false;
    self[n] = '\0';
    slash = strrchr(self, '/');
    if (!slash)
        return false;
    slash[1] = '\0';
    for (size_t i = 0; i < sizeof(places) / sizeof(*places) * 2; i++) {
        char path[4096 + 256], *whole;

        snprintf(path, sizeof(path), "%s%s%s", self, places[i / 2], names[i % 2]);
        whole = realpath(path, NULL);
        if (whole && access(whole, R_OK) == 0 && strlen(whole) < cap) {
            strcpy(ret, whole);
            free(whole);
            return true;
        }
        free(whole);
    }
    return false;
}

/* Adds "key:value" to a list with commas. False: it is too long. */
static bool add_conf(char *conf, const char *key, const char *value)
{
    size_t used = strlen(conf);
    int n;

    if (!value || !*value)
        return true;
    n = snprintf(conf + used, CONF_MAX - used, "%s%s%s", used ? "," : "", key, value);
    return n >= 0 && (size_t)n < CONF_MAX - used;
}

/* Adds "key:value" to a list, where the value is an output: a path counts from this folder,
 * whatever the program does with its own. A comma would end the value. */
static bool add_output(char *conf, const char *key, const char *value)
{
    char folder[PATH_MAX], text[CONF_MAX];
    const char *parts[] = {"", "", value}, *ending;
    bool relative = value && *value && *value != '/' && sa_destination_number(value, &ending) < 0;
    size_t used = 0;

    if (relative && getcwd(folder, sizeof(folder)) && folder[0] == '/') {
        parts[0] = folder;
        parts[1] = "/";
    }
    for (size_t i = 0; value && i < sizeof(parts) / sizeof(*parts); i++) {
        for (const char *p = parts[i]; *p; p++) {
            if (used + 3 > sizeof(text))
                return false;
            if (*p == ',' || (*p == '%' && i == 0))
                text[used++] = '%';
            text[used++] = *p == ',' ? 'c' : *p;
        }
    }
    text[used] = '\0';
    return add_conf(conf, key, text);
}

/* Adds options as in SALLOC_CONF, of which some are outputs. */
static bool add_options(char *conf, const char *options)
{
    static const char *const outputs[] = {"profile:", "stats:", "report:"};
    char item[CONF_MAX];

    for (; options && *options; options += *options == ',') {
        size_t n = strcspn(options, ",");
        const char *key = "";

        if (n >= sizeof(item))
            return false;
        memcpy(item, options, n);
        item[n] = '\0';
        options += n;
        for (size_t i = 0; i < sizeof(outputs) / sizeof(*outputs); i++)
            if (strncmp(item, outputs[i], strlen(outputs[i])) == 0)
                key = outputs[i];
        if (*key ? !add_output(conf, key, item + strlen(key)) : !add_conf(conf, "", item))
            return false;
    }
    return true;
}

/* Later options win, so those of the command line come last. A type counts for the profile before
 * it. */
static bool set_conf(const struct options *o)
{
    char conf[CONF_MAX] = "";

    return add_conf(conf, "", getenv("SALLOC_CONF")) && add_options(conf, o->conf) &&
           add_output(conf, "profile:", o->profile) && add_conf(conf, "profile_type:", o->type) &&
           add_output(conf, "stats:", o->stats) && (!*conf || setenv("SALLOC_CONF", conf, 1) == 0);
}

static bool set_preload(const char *library)
{
    const char *before = getenv("LD_PRELOAD");
    char *value;
    bool fine;

    if (!before || !*before)
        return setenv("LD_PRELOAD", library, 1) == 0;
    if (asprintf(&value, "%s:%s", library, before) < 0)
        return false;
    fine = setenv("LD_PRELOAD", value, 1) == 0;
    free(value);
    return fine;
}

static int run(const void *options, const struct sa_operands *operands, struct sa_error *e)
{
    char library[4096], profile[SA_RUN_PROFILE_MAX];
    struct options o = *(const struct options *)options;
    const char *unfit;
    int code, error;

    (void)e;
    if (o.profile && o.page)
        return sa_command_misused(&sa_command_run, "-o and --html exclude each other");
    if (o.every > 0 && (!o.page || o.type))
        return sa_command_misused(&sa_command_run, "--every needs --html, and excludes -t");
    if (o.type && !o.profile && !o.page)
        return sa_command_misused(&sa_command_run, "-t needs -o or --html");
    if (o.library ? !realpath(o.library, library) : !find_library(library, sizeof(library))) {
        fprintf(stderr, "sallocctl: %s is not to be found; name it with --library\n",
                o.library ? o.library : LIBRARY ".0");
        return NOT_RUN;
    }
    error = o.page ? sa_run_page_prepare(profile) : 0;
    if (error) {
        fprintf(stderr, "sallocctl: a folder in /tmp: %s\n", strerror(error));
        return NOT_RUN;
    }
    if (o.page)
        o.profile = profile;
    if (!set_conf(&o) || !set_preload(library)) {
        fprintf(stderr, "sallocctl: the options are too long, or there is no memory\n");
        return NOT_RUN;
    }
    unfit = sa_program_kind_unfit(operands->of[0]);
    if (o.page) {
        code = sa_run_page(operands->of, profile, o.page, o.every, unfit, &error);
        if (!error)
            return code;
    } else {
        if (unfit)
            fprintf(stderr, "sallocctl: %s does not run on salloc: %s; %s\n", operands->of[0],
                    unfit, o.profile || o.stats ? "it writes nothing" : "it has its own malloc");
        sa_budget_end();
        execvp(operands->of[0], operands->of);
        error = errno;
    }
    fprintf(stderr, "sallocctl: %s: %s\n", operands->of[0], strerror(error));
    return error == ENOENT ? NOT_FOUND : NOT_RUN;
}

static const struct sa_command_option table[] = {
    {'o', "output", "FILE",
     "write a profile at exit; the ending is the format, and %p in the\n"
     "name the PID (doc/profiles.md)\n",
     offsetof(struct options, profile), sa_take_text},
    {0, "html", "PAGE", "write a page with a flame graph of the profile at exit\n",
     offsetof(struct options, page), sa_take_text},
    {0, "every", "TIME", "with --html: a page with a time line, read after each such time\n",
     offsetof(struct options, every), sa_take_seconds},
    {'t', "type", "TYPE", "of that profile: heap, peak, fragmentation, allocation, lifetime\n",
     offsetof(struct options, type), sa_take_text},
    {'s', "stats", "FILE", "write a stats page at exit (doc/stats.md)\n",
     offsetof(struct options, stats), sa_take_text},
    {'c', "conf", "OPTIONS", "options as in SALLOC_CONF (doc/tuning.md)\n",
     offsetof(struct options, conf), sa_take_text},
    {'l', "library", "FILE", "the library; else the one beside this program\n",
     offsetof(struct options, library), sa_take_text},
};

const struct sa_command sa_command_run = {
    .name = "run",
    .what = "run a program on salloc",
    .synopsis = "[OPTION...] [--] PROGRAM [ARGUMENT...]\n",
    .text = "Runs a program on salloc, and all that it starts. The exit status is the program's.\n"
            "Options in the variable SALLOC_CONF hold, too; those named here win. Names of files "
            "count\n"
            "from this folder, also if the program leaves it. Without effect on static programs "
            "and, as\n"
            "all of LD_PRELOAD, on those that gain privileges; stderr says so.\n",
    .exit_codes = "the program's; 2 usage, 126 it cannot be run, 127 there is no such program.\n",
    SA_COMMAND_OPTIONS(table, struct options),
    .starts_program = 1,
    .first = 1,
    .last = -1,
    .operands = "name a program",
    .run = run,
};
