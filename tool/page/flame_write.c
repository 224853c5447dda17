/* SPDX-License-Identifier: Apache-2.0 */
/* Pages into files, of what a command is given; see flame.h. */
#include "tool/page/flame.h"

#include "tool/base/note.h"
#include "tool/page/flame_events.h"
#include "tool/reading/output.h"

#include <stdio.h>
#include <stdlib.h>

/* An event trace as a time line. */
static void put_events(const struct sa_profile_file *file, const char *metric, const char *title,
                       struct sa_buffer *out, struct sa_error *e)
{
    struct sa_flame_events *t = calloc(1, sizeof(*t));
    uint32_t shown;

    if (!t || !sa_flame_events_make(t, file, e)) {
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the time line");
        free(t);
        return;
    }
    shown = sa_file_find_metric(&t->rows, metric, title, e);
    if (!t->moments.count)
        sa_error_set(e, SA_EXIT_FAILED, "the trace has no allocation");
    if (!e->code)
        sa_flame_put_line(&t->rows, &t->moments, true, shown, title, out, e);
    sa_flame_events_free(t);
    free(t);
}

bool sa_flame_write(const struct sa_profile_file *file, const char *metric, const char *title,
                    const char *page, struct sa_error *e)
{
    struct sa_buffer out = {NULL, 0, 0};
    uint32_t shown;

    if (sa_flame_is_events(file))
        put_events(file, metric, title, &out, e);
    else if ((shown = sa_file_find_metric(file, metric, title, e)) != SA_FILE_NONE)
        sa_flame_put(file, shown, title, &out, e);
    if (!e->code)
        sa_output_bytes(out.data, out.used, false, page, e);
    sa_buffer_free(&out);
    return !e->code;
}

bool sa_flame_write_moments(struct sa_moments *m, const char *root, const char *metric,
                            const char *title, const char *page, struct sa_error *e)
{
    struct sa_buffer out = {NULL, 0, 0};
    struct sa_profile_file file;
    uint32_t shown;

    if (!sa_moments_file(m, root, &file, e))
        return false;
    if (m->left_out)
        sa_note("%llu readings are left out, since the process allocated too fast",
                (unsigned long long)m->left_out);
    shown = sa_file_find_metric(&file, metric, title, e);
    if (!e->code && !sa_file_is_sampled(&file, shown))
        sa_error_set(e, SA_EXIT_USAGE, "a time line has inuse_space and inuse_objects");
    if (!e->code && sa_flame_put_line(&file, m, false, shown, title, &out, e))
        sa_output_bytes(out.data, out.used, false, page, e);
    sa_buffer_free(&out);
    sa_profile_file_free(&file);
    return !e->code;
}

bool sa_flame_write_diff(const struct sa_profile_file *before, const struct sa_profile_file *after,
                         const char *metric, const char *const titles[2], const char *page,
                         struct sa_error *e)
{
    struct sa_buffer out = {NULL, 0, 0};
    struct sa_flame_diff diff;
    uint32_t shown;

    if (!sa_flame_diff_make(&diff, before, after, metric, &shown, e))
        return false;
    if (sa_flame_put_diff(&diff, shown, titles[0], titles[1], &out, e))
        sa_output_bytes(out.data, out.used, false, page, e);
    sa_buffer_free(&out);
    sa_flame_diff_free(&diff);
    return !e->code;
}
