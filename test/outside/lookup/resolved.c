/* SPDX-License-Identifier: Apache-2.0 */
/* A library whose pointer to a function is bound at start (resolver.c). */
extern int resolver_function(void);
extern int resolved_call(void);

static int (*volatile function)(void) = resolver_function;

int resolved_call(void)
{
    return function();
}
