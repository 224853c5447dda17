/* SPDX-License-Identifier: Apache-2.0 */
/* Puts mappings, locations and functions into a file of profile.proto (proto_file.h). No state. */
#include "sampling/export/proto_file.h"

#include "alloc/base/fmt.h"
#include "alloc/base/utf8.h"

/* Returns whether names were found in an object. Readers then look for none. */
static bool has_functions(const struct sa_frames *f, uint32_t object)
{
    for (size_t i = 0; i < sa_frames_count(f); i++) {
        const struct sa_frame *frame = sa_frames_frame(f, i);

        if (frame->segment && !frame->guess &&
            sa_mappings_segment(&f->mappings, frame->segment - 1)->object == object)
            return true;
    }
    return false;
}

void sa_proto_file_mappings(struct sa_proto_file *w)
{
    const struct sa_mappings *maps = &w->frames.mappings;
    uint64_t file = 0, id = 0;
    bool functions = false;

    for (size_t i = 0; i < sa_mappings_segments(maps); i++) {
        const struct sa_segment *segment = sa_mappings_segment(maps, i);
        const struct sa_object *object = sa_mappings_object(maps, segment->object);
        struct sa_proto m;

        if (i == object->segment) { /* the object's first */
            char hex[2 * SA_BUILD_ID_MAX + 1], *path;
            struct sa_fmt f;

            /* All strings have to be UTF-8. The path is not used to open the file from here on. */
            path = w->frames.mappings.names.data + object->name;
            sa_utf8_clean(path, strlen(path));
            file = sa_proto_file_string(w, path);
            sa_fmt_init(&f, hex, sizeof(hex));
            for (size_t k = 0; k < object->build_id_bytes; k++)
                sa_fmt_add(&f, "%02x", object->build_id[k]);
            id = object->build_id_bytes ? sa_proto_file_string(w, hex) : 0;
            functions = has_functions(&w->frames, segment->object);
        }
        m.used = 0;
        sa_proto_number(&m, MAPPING_ID, i + 1);
        sa_proto_number(&m, MAPPING_START, segment->start);
        sa_proto_number(&m, MAPPING_LIMIT, segment->limit);
        sa_proto_number(&m, MAPPING_OFFSET, segment->offset);
        sa_proto_number(&m, MAPPING_FILE, file);
        sa_proto_number(&m, MAPPING_BUILD_ID, id);
        sa_proto_number(&m, MAPPING_HAS_FUNCTIONS, functions);
        sa_proto_file_message(w, PROFILE_MAPPING, &m);
    }
}

/* Puts locations and functions. Locations in objects without symbols have no function, so that a
 * reader looks for the name itself. */
void sa_proto_file_locations(struct sa_proto_file *w)
{
    uint32_t last = 0, named = 0; /* frame->function before; functions put */

    for (size_t i = 0; i < sa_frames_count(&w->frames); i++) {
        const struct sa_frame *frame = sa_frames_frame(&w->frames, i);
        struct sa_proto m, line;

        if (!frame->guess && frame->function != last) {
            uint64_t name = sa_proto_file_string(w, w->frames.names.data + frame->name);

            last = frame->function;
            m.used = 0;
            sa_proto_number(&m, FUNCTION_ID, ++named);
            sa_proto_number(&m, FUNCTION_NAME, name);
            sa_proto_number(&m, FUNCTION_SYSTEM_NAME, name);
            sa_proto_file_message(w, PROFILE_FUNCTION, &m);
        }
        m.used = line.used = 0;
        sa_proto_number(&m, LOCATION_ID, i + 1);
        sa_proto_number(&m, LOCATION_MAPPING, frame->segment);
        sa_proto_number(&m, LOCATION_ADDRESS, frame->pc - 1);
        if (!frame->guess) {
            sa_proto_number(&line, LINE_FUNCTION, named);
            sa_proto_message(&m, LOCATION_LINE, &line);
        }
        sa_proto_file_message(w, PROFILE_LOCATION, &m);
    }
}
