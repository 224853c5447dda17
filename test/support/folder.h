/* SPDX-License-Identifier: Apache-2.0 */
/* A new folder for each test, in which the test runs, and which goes with all that is in it. */
#ifndef SA_TEST_SUPPORT_FOLDER_H
#define SA_TEST_SUPPORT_FOLDER_H

#include "test/support/cmocka.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];

static int enter_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/salloc-test-XXXXXX");
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

/* How many files and folders it holds. */
static unsigned entries(void)
{
    DIR *dir = opendir(folder);
    unsigned n = 0;

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 2;
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)

#endif
