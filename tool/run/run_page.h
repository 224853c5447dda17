/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a program, and makes a page of the profile that it leaves. */
#ifndef SA_TOOL_RUN_RUN_PAGE_H
#define SA_TOOL_RUN_RUN_PAGE_H

#define SA_RUN_PROFILE_MAX 64 /* bytes of the option's value */

/* Makes a folder for the profile. ret: the value of the option `profile`. 0, or an errno. */
int sa_run_page_prepare(char ret[SA_RUN_PROFILE_MAX]);

/*
 * Runs a program with the environment of this process, and makes the page when it has ended.
 * profile: from above. every: seconds between the moments of a time line; 0: there is none, as
 * for a program that ends before the second of them. unfit: why the program does not run on salloc;
 * NULL: it may. *ret_error: errno if the program could not be
 * run, else 0. Returns its exit status; ends this process by a signal if one ended the program.
 */
int sa_run_page(char **argv, const char *profile, const char *page, double every, const char *unfit,
                int *ret_error);

#endif
