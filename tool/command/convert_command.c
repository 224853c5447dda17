/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl convert: profile files in other formats. */
#include "tool/command/command.h"

#include "tool/command/report_options.h"
#include "tool/file/convert.h"
#include "tool/reading/output.h"
#include "tool/symbol/add_lines.h"

#include <stddef.h>

extern const struct sa_command sa_command_convert;

struct options {
    const char *metric;
    const struct sa_file_format *format; /* NULL: by the ending of the name */
    int lines;
};

#define NO_FORMAT "the format is none of pb.gz, pb, collapsed, folded, heap"

static const char *take_format(const char *argument, void *field)
{
    const struct sa_file_format *format = sa_file_format_of(argument);

    if (!format)
        return NO_FORMAT;
    *(const struct sa_file_format **)field = format;
    return NULL;
}

/* `names`: of the file, and of the one to write. */
static void convert(const struct sa_profile_file *file, const struct sa_file_format *format,
                    const char *metric_name, char **names, struct sa_error *e)
{
    struct sa_buffer out = {NULL, 0, 0};
    uint32_t metric = sa_file_find_metric(file, metric_name, names[0], e);

    if (e->code)
        return;
    if (format->put(file, metric, &out))
        sa_output_bytes(out.data, out.used, format->gzip, names[1], e);
    else
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for %s", names[1]);
    sa_buffer_free(&out);
}

static bool add_lines(struct sa_profile_file *file, struct sa_error *e)
{
#ifdef SA_LINES
    return sa_add_lines(file, NULL, e);
#else
    (void)file;
    sa_error_set(e, SA_EXIT_FAILED, "--lines: this sallocctl was built without elfutils' libdw");
    return false;
#endif
}

static int run(const void *options, const struct sa_operands *operands, struct sa_error *e)
{
    const struct options *o = options;
    const struct sa_file_format *format =
        o->format ? o->format : sa_file_format_of(operands->of[1]);
    struct sa_profile_file file;

    if (!format)
        return sa_command_misused(&sa_command_convert, NO_FORMAT);
    if (o->metric && !format->one_metric)
        return sa_command_misused(&sa_command_convert, "this format has all metrics");
    if (sa_profile_file_read(&file, operands->of[0], e)) {
        if (!o->lines || add_lines(&file, e))
            convert(&file, format, o->metric, operands->of, e);
        sa_profile_file_free(&file);
    }
    return (int)e->code;
}

static const struct sa_command_option table[] = {
    {'f', "format", "FORMAT",
     "else the format follows from the ending of OUT: pb.gz, pb;\n"
     "collapsed, folded (for flame graphs); heap (gperftools' text)\n",
     offsetof(struct options, format), take_format},
    {'m', "metric", "NAME",
     "what a format with a single metric has, as inuse_objects; else\n"
     "the one that the profile shows first\n",
     offsetof(struct options, metric), sa_take_text},
    {'l', "lines", NULL,
     "add source files, lines and inlined functions, from the debug\n"
     "information of the programs, and demangle names\n",
     offsetof(struct options, lines), sa_take_flag},
    SA_OPTION_DEBUGINFOD,
};

const struct sa_command sa_command_convert = {
    .name = "convert",
    .what = "write a profile file in another format",
    .synopsis = "[OPTION...] IN OUT\n",
    .text =
        "Writes a profile in another format, with the same numbers to the byte. IN is a .pb.gz or\n"
        ".pb: of the library, of 'sallocctl profile', or of any program that writes\n"
        "profile.proto. OUT '-' is stdout.\n",
    .exit_codes = "0 done, 1 a file cannot be read or written, 2 usage, 3 there is no such file,\n"
                  "7 it is no profile, or damaged.\n",
    SA_COMMAND_OPTIONS(table, struct options),
    .first = 2,
    .last = 2,
    .operands = "name a profile and the file to write",
    .run = run,
};
