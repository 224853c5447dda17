/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that the loader gives no preloaded library; see program_kind.h. The kernel's rules for
 * programs that gain privileges are those of execve(2). No state.
 */
#include "tool/run/program_kind.h"

#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PATH_BYTES   4096
#define LINE_BYTES   256  /* of the first line of a script: the kernel reads as many */
#define SCRIPTS_MAX  5    /* interpreters of interpreters, as in the kernel */
#define PARTS_MAX    64   /* program headers that are looked at */
#define NOTES_BYTES  8192 /* of a note segment, the same */
#define DYNAMIC_MAX  256  /* entries of the dynamic section */
#define DEFAULT_PATH "/bin:/usr/bin"

#if defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_X86_64
#endif

/* Finds the file that execvp would run. */
static bool find_program(const char *name, char ret[PATH_BYTES])
{
    const char *path = getenv("PATH");

    if (strchr(name, '/'))
        return snprintf(ret, PATH_BYTES, "%s", name) < PATH_BYTES;
    for (path = path ? path : DEFAULT_PATH; *path;
         path += strcspn(path, ":"), path += *path == ':') {
        int n = (int)strcspn(path, ":");
        struct stat st;

        if (snprintf(ret, PATH_BYTES, "%.*s%s%s", n, path, n ? "/" : "", name) < PATH_BYTES &&
            access(ret, X_OK) == 0 && stat(ret, &st) == 0 && S_ISREG(st.st_mode))
            return true;
    }
    return false;
}

/* Whether the program runs with privileges that this process's user does not have. */
static bool gains_privileges(const char *path)
{
    struct statvfs fs;
    struct stat st;

    if (stat(path, &st) != 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
        (statvfs(path, &fs) == 0 && (fs.f_flag & ST_NOSUID)))
        return false;
    return ((st.st_mode & S_ISUID) && st.st_uid != getuid()) ||
           ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st.st_gid != getgid()) ||
           (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0);
}

/* Whether the notes have the library's own, which a program has that is linked with it. */
static bool has_own_note(int fd, const Elf64_Phdr *part)
{
    static const char name[] = "salloc";
    char notes[NOTES_BYTES];
    ssize_t bytes = pread(fd, notes, part->p_filesz < NOTES_BYTES ? part->p_filesz : NOTES_BYTES,
                          (off_t)part->p_offset);

    return bytes > 0 && memmem(notes, (size_t)bytes, name, sizeof(name)) != NULL;
}

/* Whether a dynamic section is that of a program that may lie anywhere. The loader itself, which
 * also has no interpreter, is none. */
static bool is_of_program(int fd, const Elf64_Phdr *part)
{
    Elf64_Dyn entries[DYNAMIC_MAX];
    ssize_t bytes =
        pread(fd, entries, part->p_filesz < sizeof(entries) ? part->p_filesz : sizeof(entries),
              (off_t)part->p_offset);

    for (ssize_t i = 0; i < bytes / (ssize_t)sizeof(*entries); i++)
        if (entries[i].d_tag == DT_FLAGS_1)
            return entries[i].d_un.d_val & DF_1_PIE;
    return false;
}

static bool is_static(int fd, const Elf64_Ehdr *elf)
{
    Elf64_Phdr parts[PARTS_MAX];
    bool program = elf->e_type == ET_EXEC, own = false;
    ssize_t bytes;

    if (elf->e_phentsize != sizeof(*parts) || elf->e_phnum > PARTS_MAX)
        return false;
    bytes = (ssize_t)(elf->e_phnum * sizeof(*parts));
    if (pread(fd, parts, (size_t)bytes, (off_t)elf->e_phoff) != bytes)
        return false;
    for (unsigned i = 0; i < elf->e_phnum; i++) {
        if (parts[i].p_type == PT_INTERP)
            return false;
        program = program || (parts[i].p_type == PT_DYNAMIC && is_of_program(fd, &parts[i]));
        own = own || (parts[i].p_type == PT_NOTE && has_own_note(fd, &parts[i]));
    }
    return program && !own;
}

static const char *unfit_elf(int fd, const Elf64_Ehdr *elf)
{
    if (elf->e_ident[EI_CLASS] != ELFCLASS64 || elf->e_machine != MACHINE)
        return "it is a program for another machine than the library";
    return is_static(fd, elf) ? "it is static" : NULL;
}

/* Replaces the path of a script by that of its interpreter. */
static bool take_interpreter(const char *line, char path[PATH_BYTES])
{
    size_t n;

    line += strspn(line, " \t");
    n = strcspn(line, " \t\n");
    return n && snprintf(path, PATH_BYTES, "%.*s", (int)n, line) < PATH_BYTES;
}

const char *sa_program_kind_unfit(const char *program)
{
    char path[PATH_BYTES];

    if (!find_program(program, path))
        return NULL;
    for (int i = 0; i < SCRIPTS_MAX; i++) {
        union {
            Elf64_Ehdr elf;
            char line[LINE_BYTES];
        } head = {.line = ""};
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        ssize_t n = fd < 0 ? -1 : pread(fd, &head, sizeof(head) - 1, 0);
        bool script = n > 2 && memcmp(head.line, "#!", 2) == 0;
        const char *why = !script && gains_privileges(path) ? "it gains privileges" : NULL;

        if (!why && n >= (ssize_t)sizeof(head.elf) &&
            memcmp(head.elf.e_ident, ELFMAG, SELFMAG) == 0)
            why = unfit_elf(fd, &head.elf);
        if (fd >= 0)
            close(fd);
        if (!script || !take_interpreter(head.line + 2, path))
            return why;
    }
    return NULL;
}
