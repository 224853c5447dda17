/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles of files, processes and cores; see input.h. A process or core is read as `profile` reads
 * it, and its profile.proto parsed as one of a file. */
#include "tool/reading/input.h"

#include "tool/base/io.h"
#include "tool/reading/output.h"
#include "tool/symbol/add_lines.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether a file is a core, or the beginning of one. */
static bool is_core(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    Elf64_Ehdr header = {.e_type = ET_CORE};
    bool is = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
              pread(fd, &header, sizeof(header), 0) >= SELFMAG &&
              memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_type == ET_CORE;

    if (fd >= 0)
        close(fd);
    return is;
}

static bool read_heap(struct sa_profile_file *ret, struct sa_reading *r, struct sa_error *e)
{
    struct sa_buffer data = {NULL, 0, 0};
    struct sa_outside_profile p;
    bool fine = sa_reading_profile(r, SALLOC_PROFILE_HEAP, &p, e);

    if (fine) {
        sa_outside_profile_tell(&p);
        fine = sa_output_proto(&p.profile, &data, e) &&
               sa_profile_file_parse(ret, data.data, data.used, e);
    }
    sa_outside_profile_free(&p);
    if (fine)
        ret->data = data;
    else
        sa_buffer_free(&data);
    return fine;
}

bool sa_input_add_lines(struct sa_profile_file *file, const char *root, struct sa_error *e)
{
#ifdef SA_LINES
    if (!sa_add_lines(file, root, e)) {
        sa_profile_file_free(file);
        return false;
    }
#else
    (void)file;
    (void)root;
    (void)e;
#endif
    return true;
}

bool sa_input_read_target(struct sa_profile_file *ret, struct sa_reading *r, struct sa_error *e)
{
    const char *root = r->target.live ? NULL : sa_target_sysroot();
    char path[SA_PROC_PATH];

    /* A process may have its files elsewhere, in a container. */
    if (r->target.live)
        root = sa_io_proc_path(path, r->target.pid, "root");
    return read_heap(ret, r, e) && sa_input_add_lines(ret, root, e);
}

bool sa_input_read(struct sa_profile_file *ret, struct sa_source source, struct sa_error *e)
{
    struct sa_reading r;
    bool fine;

    if (!source.pid && !is_core(source.name))
        return sa_profile_file_read(ret, source.name, e) && sa_input_add_lines(ret, NULL, e);
    if (!sa_reading_open(&r, source, e))
        return false;
    fine = sa_input_read_target(ret, &r, e);
    sa_reading_close(&r);
    return fine;
}
