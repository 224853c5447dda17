/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that copies code to other memory at the same addresses, as programs do that want huge
 * pages for it.
 * usage: copied_code WHOSE WHAT
 *   WHOSE  program | libraries | all
 *   WHAT   code      each segment with code, to anonymous memory
 *          part      the second half of its pages only
 *          headers   and the one before it, which has the headers
 *          memfd     code, to a file in memory
 * It then holds memory of hold(), says "ready", and waits for its standard input to end.
 */
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCKS 2000
#define PAGE   4096ul

static void *volatile blocks[BLOCKS];

__attribute__((noinline, noclone)) static void hold(void)
{
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = memset(malloc(20000), 1, 20000);
}

/* Nothing but system calls may run between the two: the pages may be those of libc. */
static void copy_pages(char *begin, size_t bytes, int access, const char *what)
{
    int fd = strcmp(what, "memfd") == 0 ? memfd_create("code", 0) : -1;
    char *copy;

    if (fd >= 0 && ftruncate(fd, (off_t)bytes) != 0)
        _exit(2);
    copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
    if (copy == MAP_FAILED)
        _exit(2);
    memcpy(copy, begin, bytes);
    if (mprotect(copy, bytes, access) != 0 ||
        mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, begin) != begin)
        _exit(2);
}

static void copy_segment(const struct dl_phdr_info *info, const ElfW(Phdr) * p, const char *what)
{
    char *begin = (char *)((info->dlpi_addr + p->p_vaddr) & ~(PAGE - 1));
    char *end = (char *)((info->dlpi_addr + p->p_vaddr + p->p_memsz + PAGE - 1) & ~(PAGE - 1));

    if (strcmp(what, "part") == 0)
        begin += (size_t)(end - begin) / PAGE / 2 * PAGE;
    if (begin < end)
        copy_pages(begin, (size_t)(end - begin), PROT_READ | (p->p_flags & PF_X ? PROT_EXEC : 0),
                   what);
}

static int copy_object(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    char **argv = arg;
    int program = !*info->dlpi_name, before = -1;

    (void)bytes;
    if (strcmp(argv[1], "all") != 0 && (strcmp(argv[1], "program") == 0) != program)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type != PT_LOAD)
            continue;
        if (p->p_flags & PF_X) {
            copy_segment(info, p, argv[2]);
            if (before >= 0 && strcmp(argv[2], "headers") == 0)
                copy_segment(info, &info->dlpi_phdr[before], argv[2]);
            return 0;
        }
        before = i;
    }
    return 0;
}

int main(int argc, char **argv)
{
    char byte;

    if (argc < 3)
        return 1;
    dl_iterate_phdr(copy_object, argv);
    hold();
    printf("ready\n");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}
