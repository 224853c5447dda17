/* SPDX-License-Identifier: Apache-2.0 */
/* Objects in the memory of a target; see objects.h. No state. */
#include "tool/layout/objects.h"

#include "alloc/base/layout.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#define HEADERS_MAX 64   /* program headers of an object */
#define FIRST_BYTES 4096 /* of an object, read at once; no mapping is smaller */
#define NOTES_BYTES 8192 /* of an object's notes, looked at */
#define COPIES_MAX  8    /* areas before the data of an object in which its headers may lie */
#define NOTE_NAME   "salloc"
#define DELETED     " (deleted)" /* as the kernel says it */

struct headers {
    uint64_t at; /* of the ELF header */
    unsigned count;
    Elf64_Phdr header[HEADERS_MAX];
    uint64_t table; /* address of the program headers */
    uint64_t base;  /* load address minus address in the file */
    /* The first page, which mostly has all of the headers and notes. */
    char first[FIRST_BYTES];
};

/* Reads what may be in the first page. */
static bool read_of_object(struct sa_target *t, const struct headers *h, uint64_t at, void *ret,
                           size_t bytes)
{
    if (at - h->at > FIRST_BYTES || bytes > FIRST_BYTES - (at - h->at))
        return sa_target_read(t, at, ret, bytes);
    memcpy(ret, h->first + (at - h->at), bytes);
    return true;
}

static bool read_headers(struct sa_target *t, uint64_t at, struct headers *ret)
{
    Elf64_Ehdr elf;
    const Elf64_Phdr *first = NULL;

    ret->at = at;
    if (!sa_target_read(t, at, ret->first, FIRST_BYTES))
        return false;
    memcpy(&elf, ret->first, sizeof(elf));
    if (memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_ident[EI_CLASS] != ELFCLASS64 ||
        elf.e_ident[EI_DATA] != ELFDATA2LSB || (elf.e_type != ET_EXEC && elf.e_type != ET_DYN) ||
        elf.e_phentsize != sizeof(Elf64_Phdr) || elf.e_phnum > HEADERS_MAX || elf.e_phoff > 65536)
        return false;
    ret->count = elf.e_phnum;
    ret->table = at + elf.e_phoff;
    if (!read_of_object(t, ret, ret->table, ret->header, ret->count * sizeof(Elf64_Phdr)))
        return false;
    for (unsigned i = 0; i < ret->count && !first; i++)
        if (ret->header[i].p_type == PT_LOAD)
            first = &ret->header[i];
    if (!first)
        return false;
    ret->base = at - (first->p_vaddr - first->p_offset);
    return true;
}

/* Whether a mapping is of a file, and has this place of it at this address. */
static bool is_of_file(const struct sa_row *row, uint64_t address, uint64_t offset,
                       const struct sa_target *t)
{
    return row && sa_target_path(t, row)[0] == '/' &&
           row->offset + (address - row->start) == offset;
}

/* The mapping of the file that the object was loaded from. Its code, and its headers with it, may
 * have been copied to other memory; that of its data is asked first. NULL: there is none. */
static const struct sa_row *find_file(const struct sa_target *t, const struct headers *h)
{
    const struct sa_row *found = NULL;
    unsigned loads = 0;

    for (unsigned i = 0; i < h->count; i++) {
        const Elf64_Phdr *load = &h->header[i];
        const struct sa_row *row;

        if (load->p_type != PT_LOAD || !load->p_filesz)
            continue;
        row = sa_target_row(t, h->base + load->p_vaddr);
        if (is_of_file(row, h->base + load->p_vaddr, load->p_offset, t)) {
            if (loads && !(load->p_flags & PF_X))
                return row;
            found = found ? found : row;
        }
        loads++;
    }
    return found;
}

/*
 * Whether the object is loaded here, rather than only mapped as a file: where its headers say that
 * its code is, code is, of the file itself or a copy of it. A copy counts only if the data is the
 * file's. ret_row: a mapping of the file.
 */
static bool is_loaded(struct sa_target *t, const struct headers *h, const struct sa_row **ret_row)
{
    const struct sa_row *file = find_file(t, h);

    *ret_row = file;
    for (unsigned i = 0; file && i < h->count; i++) {
        const Elf64_Phdr *load = &h->header[i];
        uint64_t start = h->base + load->p_vaddr;
        const struct sa_row *row;
        struct sa_area area;

        if (load->p_type != PT_LOAD || !(load->p_flags & PF_X))
            continue;
        row = sa_target_row(t, start);
        if (row && (row->access & SA_ACCESS_EXECUTE) && is_of_file(row, start, load->p_offset, t) &&
            strcmp(sa_target_path(t, row), sa_target_path(t, file)) == 0)
            return true;
        return file->start > start &&
               t->kind->area(t, sa_target_area_behind(t, start, &area), &area) &&
               area.start <= start && (area.access & SA_ACCESS_EXECUTE);
    }
    return false;
}

/* Looks for the headers of an object, whose data a mapping is, in the memory before it. */
static bool find_copied(struct sa_target *t, size_t i, struct headers *ret)
{
    const struct sa_row *row = &t->rows[i], *found;
    const char *path = sa_target_path(t, row);
    struct sa_area area;
    size_t at = sa_target_area_behind(t, row->start, &area);

    for (size_t left = COPIES_MAX; left && at && t->kind->area(t, at - 1, &area); left--, at--) {
        if (strcmp(area.path, path) == 0)
            return false;
        if (read_headers(t, area.start, ret) && is_loaded(t, ret, &found) &&
            strcmp(sa_target_path(t, found), path) == 0)
            return true;
    }
    return false;
}

/*
 * The next object whose first mapping of its file is number *i or a later one; *i becomes that of
 * the mapping behind. ret_row: a mapping of its file. False: there is none.
 */
static bool next_object(struct sa_target *t, size_t *i, struct headers *ret,
                        const struct sa_row **ret_row)
{
    while (*i < t->row_count) {
        size_t at = (*i)++;
        const struct sa_row *row = &t->rows[at];
        const char *path = sa_target_path(t, row);

        if (path[0] != '/')
            continue;
        if (!row->offset && read_headers(t, row->start, ret) && is_loaded(t, ret, ret_row) &&
            strcmp(sa_target_path(t, *ret_row), path) == 0)
            return true;
        *ret_row = row;
        if ((!at || strcmp(sa_target_path(t, row - 1), path) != 0) && find_copied(t, at, ret))
            return true;
    }
    return false;
}

static bool find_note(const uint8_t *notes, size_t bytes, size_t *ret)
{
    for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= bytes;) {
        Elf64_Nhdr note;
        size_t name = at + sizeof(note), body, next;

        memcpy(&note, notes + at, sizeof(note));
        if (note.n_namesz > bytes || note.n_descsz > bytes)
            return false;
        body = name + ((note.n_namesz + 3u) & ~3u);
        next = body + ((note.n_descsz + 3u) & ~3u);
        if (next > bytes)
            return false;
        if (note.n_type == SA_LAYOUT_NOTE && note.n_namesz == sizeof(NOTE_NAME) &&
            memcmp(notes + name, NOTE_NAME, sizeof(NOTE_NAME)) == 0) {
            *ret = body;
            return true;
        }
        at = next;
    }
    return false;
}

static void read_notes(struct sa_target *t, const struct headers *h, struct sa_objects *o,
                       struct sa_object *object)
{
    uint8_t notes[NOTES_BYTES];
    size_t found;

    for (unsigned i = 0; i < h->count; i++) {
        const Elf64_Phdr *part = &h->header[i];

        if (part->p_type != PT_NOTE || part->p_memsz > sizeof(notes) ||
            !read_of_object(t, h, h->base + part->p_vaddr, notes, part->p_memsz))
            continue;
        if (!object->build_id_bytes)
            object->build_id_bytes =
                (uint8_t)sa_build_id(notes, part->p_memsz, part->p_align, object->build_id);
        if (find_note(notes, part->p_memsz, &found) && o->note_count < SA_NOTES_MAX)
            o->notes[o->note_count++] = h->base + part->p_vaddr + found;
    }
}

static bool add_name(struct sa_mappings *m, const char *name, size_t length, size_t *ret)
{
    char *copy = sa_buffer_add(&m->names, length + 1);

    if (!copy)
        return false;
    memcpy(copy, name, length);
    *ret = m->names.used - length - 1;
    return true;
}

static bool add_names(struct sa_target *t, const struct sa_row *row, struct sa_mappings *m,
                      struct sa_object *object)
{
    const char *path = row ? sa_target_path(t, row) : "[vdso]";
    size_t length = strlen(path), tail = sizeof(DELETED) - 1;
    char file[4200];

    if (length > tail && strcmp(path + length - tail, DELETED) == 0)
        length -= tail;
    if (!add_name(m, path, length, &object->name))
        return false;
    object->file = object->name;
    return !row || !t->kind->file(t, row, file, sizeof(file)) ||
           add_name(m, file, strlen(file), &object->file);
}

static bool add_object(struct sa_target *t, const struct sa_row *row, const struct headers *h,
                       struct sa_objects *o)
{
    struct sa_mappings *m = &o->mappings;
    struct sa_object *place, object = {.base = h->base};
    uint32_t index = (uint32_t)sa_mappings_objects(m);

    object.main = h->table == t->program_headers;
    object.vdso = !row;
    read_notes(t, h, o, &object);
    if (!add_names(t, row, m, &object) ||
        !sa_mappings_add_segments(m, &object, index, h->header, h->count))
        return false;
    place = sa_buffer_add(&m->objects, sizeof(*place));
    if (place)
        *place = object;
    return place != NULL;
}

/* The objects of one kind: the program, or all others. */
static bool add_objects(struct sa_target *t, bool program, struct sa_objects *o)
{
    const struct sa_row *row;
    struct headers h;

    for (size_t i = 0; next_object(t, &i, &h, &row);)
        if ((h.table == t->program_headers) == program && !add_object(t, row, &h, o))
            return false;
    if (!program && t->vdso && read_headers(t, t->vdso, &h))
        return add_object(t, NULL, &h, o);
    return true;
}

bool sa_objects_collect(struct sa_target *t, struct sa_objects *ret, struct sa_error *e)
{
    size_t unused;

    memset(ret, 0, sizeof(*ret));
    if (add_name(&ret->mappings, "", 0, &unused) && add_objects(t, true, ret) &&
        add_objects(t, false, ret))
        return true;
    sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the list of libraries");
    sa_objects_free(ret);
    return false;
}

void sa_objects_collect_notes(struct sa_target *t, struct sa_objects *ret)
{
    struct sa_object unused = {.base = 0};
    const struct sa_row *row;
    struct headers h;

    memset(ret, 0, sizeof(*ret));
    for (size_t i = 0; next_object(t, &i, &h, &row);)
        read_notes(t, &h, ret, &unused);
}

/* Whether any mapping of the path of a row is of code, from that row on. */
static bool has_code(const struct sa_target *t, size_t i)
{
    for (size_t path = t->rows[i].path; i < t->row_count && t->rows[i].path == path; i++)
        if (t->rows[i].access & SA_ACCESS_EXECUTE)
            return true;
    return false;
}

const char *sa_objects_headless(struct sa_target *t)
{
    for (size_t i = 0; i < t->row_count; i++) {
        const char *path = sa_target_path(t, &t->rows[i]);
        char magic[SELFMAG];

        if (t->rows[i].offset || path[0] != '/' || strncmp(path, "/memfd:", 7) == 0 ||
            strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/SYSV", 5) == 0 || !has_code(t, i))
            continue;
        if (!sa_target_read(t, t->rows[i].start, magic, sizeof(magic)) ||
            memcmp(magic, ELFMAG, SELFMAG) != 0)
            return path;
    }
    return NULL;
}

void sa_objects_free(struct sa_objects *o)
{
    sa_mappings_free(&o->mappings);
}

static bool copy_buffer(const struct sa_buffer *from, struct sa_buffer *to)
{
    void *p = from->used ? sa_buffer_add(to, from->used) : to;

    if (p && from->used)
        memcpy(p, from->data, from->used);
    return p != NULL;
}

int sa_objects_copy(const struct sa_mappings *from, struct sa_mappings *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (copy_buffer(&from->objects, &ret->objects) &&
        copy_buffer(&from->segments, &ret->segments) && copy_buffer(&from->names, &ret->names))
        return 0;
    sa_mappings_free(ret);
    return -ENOMEM;
}
