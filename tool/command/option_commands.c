/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl set and get: options of a process while it runs. */
#include "tool/command/command.h"

#include "tool/target/control_client.h"

#include <stdio.h>
#include <string.h>

extern const struct sa_command sa_command_get, sa_command_set;

/* Sets one, and says which one it was that failed. */
static bool set_one(struct sa_control *control, const char *pair, struct sa_error *e)
{
    char answer[SA_CONTROL_LINE];
    int key = (int)strcspn(pair, ":=");
    struct sa_error why = {SA_EXIT_DONE, ""};

    if (sa_control_ask(control, answer, &why, "set %.*s %s", key, pair, pair + key + 1))
        return true;
    sa_error_set(e, why.code, "%.*s: %s", key, pair, why.text);
    return false;
}

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

/* Does one thing with each option, up to the first that fails. */
static int run(const struct sa_command *command, const struct sa_operands *operands,
               bool (*one)(struct sa_control *, const char *, struct sa_error *),
               struct sa_error *e)
{
    struct sa_control control;

    if (!operands->sources[0].pid)
        return sa_command_misused(command, command->operands);
    if (!sa_control_open(&control, operands->sources[0].pid, e))
        return (int)e->code;
    for (int i = 1; i < operands->count && one(&control, operands->of[i], e); i++)
        ;
    sa_control_close(&control);
    return (int)e->code;
}

static int run_get(const void *options, const struct sa_operands *operands, struct sa_error *e)
{
    (void)options;
    return run(&sa_command_get, operands, get_one, e);
}

static int run_set(const void *options, const struct sa_operands *operands, struct sa_error *e)
{
    (void)options;
    for (int i = 1; operands->sources[0].pid && i < operands->count; i++)
        if (!operands->of[i][strcspn(operands->of[i], ":=")] || strchr(":=", operands->of[i][0]))
            return sa_command_misused(&sa_command_set, "an option is given as KEY:VALUE");
    return run(&sa_command_set, operands, set_one, e);
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
    .run = run_get,
};

const struct sa_command sa_command_set = {
    .name = "set",
    .what = "set options of a process while it runs",
    .synopsis = "PID KEY:VALUE...\n",
    .text = "Sets options of a process that runs with control:on (doc/control.md), one after the\n"
            "other; with the first that cannot be set it ends, and those before it are set.\n"
            "doc/tuning.md says which options can change at run time. It asks the process, over\n"
            "its control socket: its user and root may.\n",
    .exit_codes =
        "0 all are set, 1 the process refuses or has no control socket, 2 usage, 3 there is\n"
        "no such process, 4 its socket cannot be reached.\n",
    .sources = 1,
    .first = 2,
    .last = -1,
    .operands = "name a process, and options as KEY:VALUE",
    .run = run_set,
};
