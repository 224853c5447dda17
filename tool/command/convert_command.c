/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl convert: profile files in other formats. */
#include "tool/command/command.h"

#include "tool/file/convert.h"
#include "tool/reading/output.h"
#include "tool/symbol/add_lines.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct options {
    const char *in, *out, *metric;
    const struct sa_file_format *format;
    bool lines;
};

static int parse(int argc, char **argv, struct options *ret)
{
    static const struct option names[] = {{"format", required_argument, NULL, 'f'},
                                          {"metric", required_argument, NULL, 'm'},
                                          {"lines", no_argument, NULL, 'l'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    const char *format = NULL;
    int c;

    memset(ret, 0, sizeof(*ret));
    opterr = 0;
    while ((c = getopt_long(argc, argv, "f:m:lh", names, NULL)) != -1) {
        if (c == 'h')
            return sa_command_help(&sa_command_convert);
        if (c == 'f')
            format = optarg;
        else if (c == 'm')
            ret->metric = optarg;
        else if (c == 'l')
            ret->lines = true;
        else
            return sa_command_misused(&sa_command_convert, "there is no such option");
    }
    if (optind + 2 != argc)
        return sa_command_misused(&sa_command_convert, "name a profile and the file to write");
    ret->in = argv[optind];
    ret->out = argv[optind + 1];
    ret->format = sa_file_format_of(format ? format : ret->out);
    if (!ret->format)
        return sa_command_misused(&sa_command_convert,
                                  "the format is none of pb.gz, pb, collapsed, folded, heap");
    if (ret->metric && !ret->format->one_metric)
        return sa_command_misused(&sa_command_convert, "this format has all metrics");
    return -1;
}

static void convert(const struct sa_profile_file *file, const struct options *o, struct sa_error *e)
{
    struct sa_buffer out = {NULL, 0, 0};
    uint32_t metric = sa_file_metric(file, o->metric);
    char has[512] = "";

    if (metric == SA_FILE_NONE) {
        for (uint32_t i = 0; i < file->type_count; i++) {
            size_t used = strlen(has);

            snprintf(has + used, sizeof(has) - used, " %s", file->types[i].name);
        }
        sa_error_set(e, SA_EXIT_USAGE, "%s has no metric '%s', but%s", o->in, o->metric, has);
        return;
    }
    if (o->format->put(file, metric, &out))
        sa_output_bytes(out.data, out.used, o->format->gzip,
                        strcmp(o->out, "-") == 0 ? NULL : o->out, e);
    else
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for %s", o->out);
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

static int run(int argc, char **argv)
{
    struct sa_error e = {SA_EXIT_DONE, ""};
    struct sa_profile_file file;
    struct options o;
    int code = parse(argc, argv, &o);

    if (code >= 0)
        return code;
    if (sa_profile_file_read(&file, o.in, &e)) {
        if (!o.lines || add_lines(&file, &e))
            convert(&file, &o, &e);
        sa_profile_file_free(&file);
    }
    return sa_error_print(&e);
}

const struct sa_command sa_command_convert = {
    .name = "convert",
    .run = run,
    .what = "write a profile file in another format",
    .usage =
        "usage: sallocctl convert [--format FORMAT] [--metric NAME] [--lines] IN OUT\n"
        "\n"
        "Writes a profile in another format, with the same numbers to the byte. IN is a .pb.gz or\n"
        ".pb: of the library, of 'sallocctl profile', or of any program that writes\n"
        "profile.proto. OUT '-' is stdout.\n"
        "\n"
        "  -f, --format FORMAT  else the format follows from the ending of OUT: pb.gz, pb;\n"
        "                       collapsed, folded (for flame graphs); heap (gperftools' text)\n"
        "  -m, --metric NAME    what a format with a single metric has, as inuse_objects; else "
        "the\n"
        "                       one that the profile shows first\n"
        "  -l, --lines          add source files, lines and inlined functions, from the debug\n"
        "                       information of the programs, and demangle names\n"
        "\n"
        "Exit code: 0 done, 1 a file cannot be read or written, 2 usage, 3 there is no such file,\n"
        "7 it is no profile, or damaged.\n"};
