/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose plugins come and go.
 * usage: unloaded ALPHA BETA gone | replaced | again | library
 *   gone      ALPHA allocates and is unloaded
 *   replaced  then BETA is loaded, at its place if the kernel puts it there, and allocates as well
 *   again     then ALPHA is loaded again, and allocates as well
 *   library   ALPHA stays, with BETA, which it needs; both are unloaded at once
 * It then says "ready", and waits for its standard input to end.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS 200

static void *volatile blocks[3 * BLOCKS];
static int count;

static void *use(const char *path, const char *function)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    void *(*f)(size_t) = library ? (void *(*)(size_t))dlsym(library, function) : NULL;

    if (!f) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    for (int i = 0; i < BLOCKS; i++)
        blocks[count++] = f(20000);
    return library;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 3 ? argv[3] : "";
    void *alpha, *beta = NULL;
    char byte;

    if (argc < 4)
        return 2;
    if (strcmp(mode, "library") == 0)
        beta = use(argv[2], "beta_allocates");
    alpha = use(argv[1], "alpha_allocates");
    if (dlclose(alpha) != 0 || (beta && dlclose(beta) != 0))
        return 1;
    if (strcmp(mode, "replaced") == 0)
        use(argv[2], "beta_allocates");
    if (strcmp(mode, "again") == 0)
        use(argv[1], "alpha_allocates");
    printf("ready\n");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}
