/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of core files; see core_headers.h. No state. */
#include "tool/target/core_headers.h"

#include "tool/base/foreign_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENTS_MAX (1u << 21)
#define NOTES_MAX    (256u << 20) /* bytes of a segment of notes */

bool sa_core_read_at(int fd, void *buffer, size_t bytes, uint64_t offset)
{
    char *to = buffer;

    while (bytes) {
        ssize_t n = offset <= INT64_MAX ? pread(fd, to, bytes, (off_t)offset) : -1;

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        to += n;
        bytes -= (size_t)n;
        offset += (uint64_t)n;
    }
    return true;
}

/* Whether it is a file with something in it. */
static bool check_file(int fd, const char *path, uint64_t *ret_bytes, struct sa_error *e)
{
    struct stat s;

    if (fstat(fd, &s) != 0)
        sa_error_set(e, SA_EXIT_FAILED, "%s: %s", path, strerror(errno));
    else if (S_ISDIR(s.st_mode))
        sa_error_set(e, SA_EXIT_NONE, "%s: this is a folder, and no core file", path);
    else if (!S_ISREG(s.st_mode))
        sa_error_set(e, SA_EXIT_NONE,
                     "%s: this is no regular file: a core is read at any place, not from a pipe",
                     path);
    else if (!s.st_size)
        sa_error_set(e, SA_EXIT_DAMAGED, "%s: it is empty: nothing of a core was written", path);
    *ret_bytes = (uint64_t)s.st_size;
    return !e->code;
}

/* Reads the header of the file and says what it is if that is not of a core. */
static bool read_header(int fd, const char *path, uint64_t bytes, Elf64_Ehdr *ret,
                        struct sa_error *e)
{
    unsigned char first[SA_FOREIGN_FILE_BYTES] = {0};
    size_t count = bytes < sizeof(first) ? bytes : sizeof(first);

    memset(ret, 0, sizeof(*ret));
    (void)sa_core_read_at(fd, first, count, 0);
    if (sa_foreign_file_tell_gzip(path, first, count, e) ||
        sa_foreign_file_tell(path, first, count, e))
        return false;
    if (memcmp(first, ELFMAG, bytes < SELFMAG ? bytes : SELFMAG) != 0)
        sa_error_set(e, SA_EXIT_NONE, "%s: this is no core file of a 64-bit process", path);
    else if (!sa_core_read_at(fd, ret, sizeof(*ret), 0))
        sa_error_set(e, SA_EXIT_DAMAGED, "%s: it is cut: %llu bytes are less than a header", path,
                     (unsigned long long)bytes);
    else if (ret->e_ident[EI_CLASS] != ELFCLASS64 || ret->e_ident[EI_DATA] != ELFDATA2LSB)
        sa_error_set(e, SA_EXIT_NONE,
                     "%s: this is no core file of a 64-bit process, but of a %s one", path,
                     ret->e_ident[EI_CLASS] == ELFCLASS32 ? "32-bit" : "big-endian");
    else if (ret->e_type != ET_CORE)
        sa_error_set(e, SA_EXIT_NONE, "%s: this is no core file, but %s", path,
                     ret->e_type == ET_REL ? "an object file" : "a program or library");
    else if (ret->e_phentsize != sizeof(Elf64_Phdr) || !ret->e_phnum)
        sa_error_set(e, SA_EXIT_DAMAGED,
                     "%s: its header makes no sense: %u segments, with headers of %u bytes", path,
                     ret->e_phnum, ret->e_phentsize);
    return !e->code;
}

/* How many segments there are. A number that is too large for the header is in the first section's;
 * the kernel writes that at the end of the file. */
static bool count_segments(int fd, const char *path, const Elf64_Ehdr *header, size_t *ret,
                           struct sa_error *e)
{
    Elf64_Shdr section;

    *ret = header->e_phnum;
    if (header->e_phnum == PN_XNUM) {
        if (!header->e_shoff || !sa_core_read_at(fd, &section, sizeof(section), header->e_shoff)) {
            sa_error_set(e, SA_EXIT_DAMAGED,
                         "%s: it is cut: it has 65,535 segments or more, and lacks its end, which "
                         "has their number",
                         path);
            return false;
        }
        *ret = section.sh_info;
    }
    if (*ret > SEGMENTS_MAX)
        sa_error_set(e, SA_EXIT_DAMAGED, "%s: it has %zu segments: more than %u are not read", path,
                     *ret, SEGMENTS_MAX);
    return !e->code;
}

/* The bytes that the file should have. */
static bool add_up(const char *path, struct sa_core_headers *h, struct sa_error *e)
{
    for (size_t i = 0; i < h->count; i++) {
        const Elf64_Phdr *p = &h->of[i];
        uint64_t end = p->p_offset + p->p_filesz;

        if ((p->p_type != PT_LOAD && p->p_type != PT_NOTE) || !p->p_filesz)
            continue;
        if (end < p->p_offset || end > INT64_MAX || p->p_vaddr + p->p_memsz < p->p_vaddr) {
            sa_error_set(e, SA_EXIT_DAMAGED, "%s: the header of its segment %zu makes no sense",
                         path, i);
            return false;
        }
        h->wanted = h->wanted > end ? h->wanted : end;
    }
    return true;
}

bool sa_core_headers_read(int fd, const char *path, struct sa_core_headers *ret, struct sa_error *e)
{
    Elf64_Ehdr header;

    memset(ret, 0, sizeof(*ret));
    if (!check_file(fd, path, &ret->bytes, e) || !read_header(fd, path, ret->bytes, &header, e) ||
        !count_segments(fd, path, &header, &ret->count, e))
        return false;
    ret->of = calloc(ret->count + 1, sizeof(*ret->of));
    if (!ret->of)
        sa_error_set(e, SA_EXIT_FAILED, "%s: there is no memory for its segments", path);
    else if (!sa_core_read_at(fd, ret->of, ret->count * sizeof(*ret->of), header.e_phoff))
        sa_error_set(e, SA_EXIT_DAMAGED,
                     "%s: it is cut: it has %llu bytes, and not the headers of its %zu segments",
                     path, (unsigned long long)ret->bytes, ret->count);
    else
        add_up(path, ret, e);
    if (e->code)
        sa_core_headers_free(ret);
    return !e->code;
}

void sa_core_headers_free(struct sa_core_headers *h)
{
    free(h->of);
    memset(h, 0, sizeof(*h));
}

/* The notes of a segment; false: they make no sense, or the callback returned false. */
static bool walk(const char *notes, size_t bytes,
                 bool (*note)(void *arg, uint32_t type, const char *body, size_t bytes), void *arg)
{
    size_t at = 0;

    while (bytes - at >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr header;
        uint64_t body, end;

        memcpy(&header, notes + at, sizeof(header));
        body = at + sizeof(header) + (((uint64_t)header.n_namesz + 3) & ~3ull);
        end = body + (((uint64_t)header.n_descsz + 3) & ~3ull);
        if (body + header.n_descsz > bytes ||
            !note(arg, header.n_type, notes + body, header.n_descsz))
            return false;
        at = end < bytes ? end : bytes;
    }
    return true;
}

bool sa_core_notes(int fd, const char *path, const struct sa_core_headers *h,
                   bool (*note)(void *arg, uint32_t type, const char *body, size_t bytes),
                   void *arg, struct sa_error *e)
{
    for (size_t i = 0; i < h->count && !e->code; i++) {
        const Elf64_Phdr *p = &h->of[i];
        char *notes;

        if (p->p_type != PT_NOTE || !p->p_filesz)
            continue;
        if (p->p_filesz > NOTES_MAX) {
            sa_error_set(e, SA_EXIT_DAMAGED, "%s: it has more than %u MiB of notes", path,
                         NOTES_MAX >> 20);
            break;
        }
        notes = malloc(p->p_filesz);
        if (!notes)
            sa_error_set(e, SA_EXIT_FAILED, "%s: there is no memory for its notes", path);
        else if (!sa_core_read_at(fd, notes, p->p_filesz, p->p_offset))
            sa_error_set(e, SA_EXIT_DAMAGED,
                         "%s: it is cut: it has %llu of %llu bytes, and not its notes", path,
                         (unsigned long long)h->bytes, (unsigned long long)h->wanted);
        else if (!walk(notes, p->p_filesz, note, arg))
            sa_error_set(e, SA_EXIT_DAMAGED, "%s: its notes make no sense", path);
        free(notes);
    }
    return !e->code;
}
