/* SPDX-License-Identifier: Apache-2.0 */
/* Notes; see note.h. They are in memory that child processes share, of which one runs at a time,
 * while its parent waits. It reads what is not trusted, so there may be anything in the end. */
#include "tool/base/note.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define BYTES 16384

static char *notes; /* BYTES; NULL: no memory, and no notes */

void sa_notes_begin(void)
{
    void *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (notes)
        munmap(notes, BYTES);
    notes = at == MAP_FAILED ? NULL : at;
}

void sa_note(const char *format, ...)
{
    char line[1024] = "sallocctl: ";
    size_t used = strlen(sa_notes()), n = strlen(line);
    va_list args;

    va_start(args, format);
    vsnprintf(line + n, sizeof(line) - n - 1, format, args);
    va_end(args);
    for (; line[n]; n++) /* paths of a target may have any character */
        if ((unsigned char)line[n] < ' ' || line[n] == 127)
            line[n] = '?';
    memcpy(line + n, "\n", 2);
    if (notes && used + n + 1 < BYTES && !strstr(notes, line))
        memcpy(notes + used, line, n + 2);
}

const char *sa_notes(void)
{
    if (!notes)
        return "";
    notes[BYTES - 1] = '\0';
    return notes;
}

void sa_notes_print(void)
{
    fputs(sa_notes(), stderr);
    if (notes)
        *notes = '\0';
}
