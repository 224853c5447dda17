/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl get: options in effect in a process. */
#include "tool/command/command.h"

#include "tool/target/control_client.h"
#include "tool/target/target.h"

#include <stdio.h>
#include <string.h>

extern const struct sa_command sa_command_get;

static bool get_one(struct sa_control *control, const char *key, struct sa_error *e)
{
    struct sa_error why = {SA_EXIT_DONE, ""};
    char value[SA_CONTROL_LINE];

    if (!sa_control_ask(control, value, &why, "get %s", key)) {
        sa_error_set(e, why.code, "%s: %s", key, why.text);
        return false;
    }
    printf("%s:%s\n", key, value);
    return true;
}

static int run(const void *options, const struct sa_operands *operands, struct sa_error *e)
{
    struct sa_control control;

    (void)options;
    if (!operands->sources[0].pid)
        return sa_command_misused(&sa_command_get, sa_command_get.operands);
    if (!sa_control_open(&control, operands->sources[0].pid, e))
        return (int)e->code;
    for (int i = 1; i < operands->count && get_one(&control, operands->of[i], e); i++)
        ;
    sa_control_close(&control);
    return (int)e->code;
}

const struct sa_command sa_command_get = {
    .name = "get",
    .what = "show options in effect in a process",
    .synopsis = "PID KEY...\n",
    .text = "Shows options of a process that runs with control:on (doc/control.md), each as\n"
            "KEY:VALUE on a line. 'sallocctl stats' shows all options of any process.\n",
    .exit_codes =
        "0 done, 1 there is no such option, or the process has no control socket, 2 usage,\n"
        "3 there is no such process, 4 its socket cannot be reached.\n",
    .sources = 1,
    .first = 2,
    .last = -1,
    .operands = "name a process, and options",
    .run = run,
};
