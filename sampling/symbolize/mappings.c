/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects loaded objects (mappings.h).
 *
 * The loader lists its objects under a lock. Another thread may hold that lock during fork; the
 * child's copy is then never released. A child of fork therefore walks the loader's list without
 * the lock: no other thread changes the child's copy, and every single change leaves the list
 * whole.
 */
#include "sampling/symbolize/mappings.h"

#include "alloc/base/attrs.h"
#include "alloc/base/fmt.h"
#include "alloc/os/filter.h"
#include "alloc/os/own_proc.h"
#include "alloc/os/sys.h"
#include "sampling/stack/loaded_object.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#define PATH_BYTES   4096
#define HEADER_BYTES 4096 /* bytes behind the ELF header that are mapped with it: one page */

static SA_START_DATA bool
    in_child; /* see sa_mappings_after_fork; written while there is one thread */

extern struct r_debug _r_debug SA_WEAK;

size_t sa_build_id(const uint8_t *notes, size_t bytes, size_t align, uint8_t ret[SA_BUILD_ID_MAX])
{
    ElfW(Nhdr) note;

    align = align == 8 ? 8 : 4;
    for (size_t at = 0; at <= bytes && bytes - at >= sizeof(note);) {
        size_t name, content;

        memcpy(&note, notes + at, sizeof(note));
        name = at + sizeof(note);
        content = name + ((note.n_namesz + align - 1) & ~(align - 1));
        if (content > bytes || note.n_descsz > bytes - content)
            return 0;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && note.n_descsz > 0 &&
            note.n_descsz <= SA_BUILD_ID_MAX && memcmp(notes + name, "GNU", 4) == 0) {
            memcpy(ret, notes + content, note.n_descsz);
            return note.n_descsz;
        }
        at = content + ((note.n_descsz + align - 1) & ~(align - 1));
    }
    return 0;
}

/* Returns whether a segment of an object lies in a loaded segment that can be read. */
static bool is_readable(const struct dl_phdr_info *info, const ElfW(Phdr) * part)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *load = &info->dlpi_phdr[i];

        if (load->p_type == PT_LOAD && load->p_flags & PF_R && part->p_vaddr >= load->p_vaddr &&
            part->p_memsz <= load->p_memsz &&
            part->p_vaddr - load->p_vaddr <= load->p_memsz - part->p_memsz)
            return true;
    }
    return false;
}

/* Stores the build id of an object, from its notes in memory. */
static void find_build_id(const struct dl_phdr_info *info, struct sa_object *object)
{
    for (unsigned i = 0; i < info->dlpi_phnum && !object->build_id_bytes; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];

        if (part->p_type == PT_NOTE && is_readable(info, part))
            object->build_id_bytes =
                (uint8_t)sa_build_id((const uint8_t *)info->dlpi_addr + part->p_vaddr,
                                     part->p_memsz, part->p_align, object->build_id);
    }
}

/* Copies a name, and stores its offset in *ret. False: no memory. */
static bool add_name(struct sa_mappings *m, const char *name, size_t *ret)
{
    size_t bytes = strlen(name) + 1;
    char *copy = sa_buffer_add(&m->names, bytes);

    if (!copy)
        return false;
    memcpy(copy, name, bytes);
    *ret = m->names.used - bytes;
    return true;
}

bool sa_mappings_add_segments(struct sa_mappings *m, struct sa_object *object, uint32_t index,
                              const ElfW(Phdr) * header, size_t count)
{
    object->segment = (uint32_t)sa_mappings_segments(m);
    object->segments = 0;
    for (size_t i = 0; i < count; i++) {
        const ElfW(Phdr) *load = &header[i];
        struct sa_segment *segment;

        if (load->p_type != PT_LOAD)
            continue;
        segment = sa_buffer_add(&m->segments, sizeof(*segment));
        if (!segment)
            return false;
        segment->start = object->base + load->p_vaddr;
        segment->limit = segment->start + load->p_memsz;
        segment->offset = load->p_offset;
        segment->vaddr = load->p_vaddr;
        segment->file_bytes = load->p_filesz;
        segment->object = index;
        object->segments++;
    }
    return true;
}

/* Adds an object and its segments. dl_iterate_phdr calls this for each object, the program first.
 */
static int add_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct sa_mappings *m = arg;
    uint32_t index = (uint32_t)sa_mappings_objects(m);
    struct sa_object *object = sa_buffer_add(&m->objects, sizeof(*object));

    (void)size;
    if (!object || !add_name(m, info->dlpi_name ? info->dlpi_name : "", &object->name))
        return -ENOMEM;
    object->base = info->dlpi_addr;
    object->main = index == 0;
    object->vdso = info->dlpi_addr && info->dlpi_addr == getauxval(AT_SYSINFO_EHDR);
    if (!sa_mappings_add_segments(m, object, index, info->dlpi_phdr, info->dlpi_phnum))
        return -ENOMEM;
    find_build_id(info, object);
    return 0;
}

/* Stores what dl_iterate_phdr would say of the program, from the kernel's auxiliary vector. A
 * static program has no other object but the vDSO. False: the kernel does not say. */
static bool program_info(struct dl_phdr_info *ret)
{
    *ret = (struct dl_phdr_info){.dlpi_name = ""};
    ret->dlpi_phdr = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    ret->dlpi_phnum = (ElfW(Half))getauxval(AT_PHNUM);
    for (unsigned i = 0; ret->dlpi_phdr && i < ret->dlpi_phnum; i++)
        if (ret->dlpi_phdr[i].p_type == PT_PHDR)
            ret->dlpi_addr = (uintptr_t)ret->dlpi_phdr - ret->dlpi_phdr[i].p_vaddr;
    return ret->dlpi_phdr != NULL;
}

/* Returns whether a segment of the object contains the address. */
static bool info_has(const struct dl_phdr_info *info, uintptr_t address)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD &&
            address - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz)
            return true;
    return false;
}

/* Returns the ELF header of the object, or NULL: the mapping that contains the address does not
 * begin with it. */
static const ElfW(Ehdr) * object_header(const struct link_map *map, uintptr_t address)
{
    struct sa_loaded_object found;
    const ElfW(Ehdr) * header;

    if (!sa_loaded_object_find(address, &found) || found.map != map)
        return NULL;
    header = (const ElfW(Ehdr) *)found.start;
    /* An object that is being unloaded is unmapped before the loader forgets it. */
    if (!sa_sys_is_readable(header) || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_phentsize != sizeof(ElfW(Phdr)) || header->e_phoff > HEADER_BYTES ||
        header->e_phoff + header->e_phnum * sizeof(ElfW(Phdr)) > HEADER_BYTES)
        return NULL;
    return header;
}

/*
 * Stores what dl_iterate_phdr would say of an object, from the object itself. False: the object is
 * not mapped, or not yet.
 *
 * Linkers for large pages leave gaps between segments. The loader's index then has one part for
 * each segment, and the ELF header is in the first. The dynamic section (l_ld) may be in another
 * part, so the load address is tried as well.
 */
static bool object_info(const struct link_map *map, struct dl_phdr_info *ret)
{
    const ElfW(Ehdr) *header = object_header(map, (uintptr_t)map->l_ld);

    if (program_info(ret) && !map->l_prev && map->l_addr == ret->dlpi_addr)
        return true;
    if (!header)
        header = object_header(map, map->l_addr);
    if (!header)
        return false;
    *ret = (struct dl_phdr_info){.dlpi_addr = map->l_addr, .dlpi_name = map->l_name};
    ret->dlpi_phdr = (const ElfW(Phdr) *)((uintptr_t)header + header->e_phoff);
    ret->dlpi_phnum = header->e_phnum;
    return true;
}

int sa_mappings_each(int (*f)(struct dl_phdr_info *info, size_t bytes, void *arg), void *arg)
{
    int ended = 0;

    if (!in_child || &_r_debug == NULL || !_r_debug.r_map)
        return dl_iterate_phdr(f, arg);
    for (const struct link_map *map = _r_debug.r_map; map && !ended; map = map->l_next) {
        struct dl_phdr_info info;

        if (object_info(map, &info))
            ended = f(&info, sizeof(info), arg);
    }
    return ended;
}

SA_FORK void sa_mappings_after_fork(void)
{
    in_child = true;
}

/* Stores the absolute path without links of a file, as the kernel knows it. False: the file does
 * not exist now. */
static bool canonical_path(const char *path, char *buf, size_t cap)
{
    char link[24];
    struct sa_fmt f;
    long n;
    int fd = sa_sys_open(path, O_PATH, 0);

    if (fd < 0)
        return false;
    sa_fmt_init(&f, link, sizeof(link));
    sa_fmt_add(&f, "fd/%d", fd);
    n = sa_own_proc_link(link, buf, cap);
    sa_sys_close(fd);
    return n > 0 && buf[0] == '/';
}

/* Stores the absolute path of the program's file, also if the file was deleted. */
static bool program_path(char *buf, size_t cap)
{
    static const char deleted[] = " (deleted)"; /* the kernel appends this */
    long n = sa_own_proc_link("exe", buf, cap);
    size_t tail = sizeof(deleted) - 1;

    if (n <= 0)
        return false;
    if ((size_t)n > tail && strcmp(buf + (size_t)n - tail, deleted) == 0)
        buf[(size_t)n - tail] = '\0';
    return true;
}

/* Replaces the loader's names by absolute paths. Returns 0 or -ENOMEM. */
static int resolve_names(struct sa_mappings *m)
{
    char path[PATH_BYTES];

    for (size_t i = 0; i < sa_mappings_objects(m); i++) {
        struct sa_object *object = (struct sa_object *)m->objects.data + i;
        bool found = object->vdso ? strcpy(path, "[vdso]") != NULL
                     : object->main
                         ? program_path(path, sizeof(path))
                         : canonical_path(sa_mappings_name(m, object), path, sizeof(path));

        if (found && !add_name(m, path, &object->name))
            return -ENOMEM;
    }
    return 0;
}

int sa_mappings_collect(struct sa_mappings *ret)
{
    int failed;

    memset(ret, 0, sizeof(*ret));
    failed = sa_mappings_each(add_object, ret);
    if (!failed)
        failed = resolve_names(ret);
    if (failed)
        sa_mappings_free(ret);
    return failed;
}

/* As sa_mappings_info. *ret_program: the object is the program. */
static bool find_info(uintptr_t address, struct dl_phdr_info *ret, bool *ret_program)
{
    struct sa_loaded_object found;

    *ret_program = program_info(ret) && info_has(ret, address);
    return *ret_program ||
           (sa_loaded_object_find(address, &found) && found.map && object_info(found.map, ret));
}

bool sa_mappings_info(uintptr_t address, struct dl_phdr_info *ret)
{
    bool program;

    return find_info(address, ret, &program);
}

int sa_mappings_of(uintptr_t address, struct sa_mappings *ret)
{
    struct dl_phdr_info info;
    bool program;
    int failed;

    memset(ret, 0, sizeof(*ret));
    if (!find_info(address, &info, &program))
        return -ENOENT;
    if (program && sa_filtered())
        info.dlpi_name = (const char *)getauxval(AT_EXECFN);
    failed = add_object(&info, sizeof(info), ret);
    if (!failed) {
        ((struct sa_object *)ret->objects.data)->main = program;
        failed = sa_filtered() ? 0 : resolve_names(ret);
    }
    if (failed)
        sa_mappings_free(ret);
    return failed;
}

void sa_mappings_free(struct sa_mappings *mappings)
{
    sa_buffer_free(&mappings->objects);
    sa_buffer_free(&mappings->segments);
    sa_buffer_free(&mappings->names);
}

const struct sa_segment *sa_mappings_find(const struct sa_mappings *m, uintptr_t address)
{
    for (size_t i = 0; i < sa_mappings_segments(m); i++) {
        const struct sa_segment *segment = sa_mappings_segment(m, i);

        if (address - segment->start < segment->limit - segment->start)
            return segment;
    }
    return NULL;
}
