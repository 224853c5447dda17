/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes collapsed stacks: one line for each stack, "root;...;leaf N". N is the main bytes of the
 * profile (values.h). The format has no escapes, so the separator in a name is replaced. Names have
 * no newlines (alloc/base/utf8.h).
 */
#include "sampling/export/write.h"

#include "sampling/export/values.h"
#include "sampling/symbolize/frames.h"

static void put_name(struct sa_sink *out, const char *name)
{
    for (; *name; name++) {
        char c = *name == ';' ? ':' : *name;

        sa_sink_put(out, &c, 1);
    }
}

int sa_write_collapsed(const struct sa_profile *profile, struct sa_sink *out)
{
    struct sa_buffer stacks = {NULL, 0, 0};
    struct sa_frames frames;
    const struct sa_by_stack *stack;
    int failed = sa_frames_collect(profile, &frames);

    if (failed)
        return failed;
    failed = sa_values_by_stack(profile, &stacks, NULL);
    stack = (const struct sa_by_stack *)stacks.data;
    for (size_t i = 0; i < stacks.used / sizeof(*stack); i++) {
        size_t depth = sa_frames_depth(stack[i].stack);

        if (!stack[i].bytes)
            continue;
        while (depth-- > 0) {
            put_name(out, sa_frames_name(&frames, sa_frames_pc(stack[i].stack, depth)));
            sa_sink_string(out, depth ? ";" : " ");
        }
        sa_sink_text(out, "%llu\n", (unsigned long long)stack[i].bytes);
    }
    sa_buffer_free(&stacks);
    sa_frames_free(&frames);
    return failed;
}
