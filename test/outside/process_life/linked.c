/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program for options.py: linked with the library, so that it also has it where a preload is
 * ignored. usage: linked STATUS WORD
 *
 *   out    writes "out"
 *   pid    writes its process number
 *   links  puts symbolic links to "victim" where the stats file "page" and a temporary file of it
 *          would be, and writes "out"
 *   kill   ends by SIGTERM
 *   NAME=VALUE   sets the property NAME; writes whether it could, and what it is then
 *   /PATH  goes to that folder, and writes "out"
 *   slots  writes how many guarded blocks there may be
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *salloc_get_stats(void);
int salloc_get_numeric_property(const char *name, size_t *value);
int salloc_set_numeric_property(const char *name, size_t value);

static void set_property(char *text)
{
    char *value = strchr(text, '=');
    size_t now = 0;
    int failed;

    *value++ = '\0';
    failed = salloc_set_numeric_property(text, strtoul(value, NULL, 10));
    salloc_get_numeric_property(text, &now);
    printf("%d %zu\n", failed, now);
}

int main(int argc, char **argv)
{
    void *volatile p = malloc(100);
    char name[64];

    free(p);
    if (argc != 3 || !p)
        return 99;
    if (strcmp(argv[2], "pid") == 0) {
        printf("%d\n", (int)getpid());
    } else if (strchr(argv[2], '=')) {
        set_property(argv[2]);
    } else if (strcmp(argv[2], "links") == 0) {
        snprintf(name, sizeof(name), "page.%d.tmp", (int)getpid());
        if (symlink("victim", name) != 0 || symlink("victim", "page") != 0)
            return 99;
        puts("out");
    } else if (strcmp(argv[2], "slots") == 0) {
        char *stats = salloc_get_stats(),
             *at = stats ? strstr(stats, "Maximum Slots Allocated: ") : NULL;

        if (!at)
            return 99;
        printf("%d\n", atoi(strchr(at, '/') + 1));
        free(stats);
    } else if (strcmp(argv[2], "kill") == 0) {
        raise(SIGTERM);
    } else {
        if (argv[2][0] == '/' && chdir(argv[2]) != 0)
            return 99;
        puts("out");
    }
    return atoi(argv[1]);
}
