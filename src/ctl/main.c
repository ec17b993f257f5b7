/* SPDX-License-Identifier: MIT */
/* huskctl: the operator's command. */
#include "ctl/ctl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/priv.h"
#include "base/sig.h"
#include "conf/program.h"

static const struct ctl_command *const groups[] = {
    status_commands,  session_commands, exec_commands,   key_commands,
    sandbox_commands, db_commands,      config_commands, doctor_commands,
};
#define GROUPS (sizeof(groups) / sizeof(groups[0]))

static void
print_line(const struct ctl_command *c, FILE *out)
{
    char left[64];

    snprintf(left, sizeof(left), "%s%s%s%s%s", c->name, c->operand ? " " : "",
             c->operand ? c->operand : "", c->second ? " " : "", c->second ? c->second : "");
    fprintf(out, "  %-22s %s\n", left, c->help);
}

static void
print_help(void)
{
    puts("usage: huskctl [--config FILE] COMMAND [OPTION]...\n\nCommands:");
    for (size_t g = 0; g < GROUPS; g++)
        for (const struct ctl_command *c = groups[g]; c->name; c++)
            print_line(c, stdout);
    puts("\nOptions:\n"
         "  --config FILE          settings (default: the file named by HUSK_CONFIG, else\n"
         "                         " PROGRAM_CONFIG ")\n"
         "  --help                 this text; behind a command, that command's\n"
         "  --version              the version\n\n"
         "It exits with 0, with 1 when the command failed and with 2 when command or settings are\n"
         "not understood; exec with what the code ends with.");
}

static void
print_command_help(const struct ctl_command *c)
{
    printf("usage: huskctl %s%s%s%s%s%s\n%s.\n", c->name, c->options ? " [OPTION]..." : "",
           c->operand ? " " : "", c->operand ? c->operand : "", c->second ? " " : "",
           c->second ? c->second : "", c->help);
    for (const struct ctl_option *o = c->options; o && o->name; o++) {
        char left[64];
        snprintf(left, sizeof(left), "--%s%s%s", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
        printf("  %-22s %s%s\n", left, o->help, o->needed ? " (needed)" : "");
    }
}

const char *
ctl_value(const struct ctl *c, const char *name)
{
    for (size_t i = 0; c->options && c->options[i].name; i++)
        if (strcmp(c->options[i].name, name) == 0)
            return c->values[i];
    return NULL;
}

/* Is it "--name", "--name=…" (then *ret_value is behind the '=')? */
static bool
is_option(const char *arg, const char *name, const char **ret_value)
{
    size_t n = strlen(name);
    if (strncmp(arg, "--", 2) != 0 || strncmp(arg + 2, name, n) != 0)
        return false;
    *ret_value = arg[n + 2] == '=' ? arg + n + 3 : NULL;
    return arg[n + 2] == '=' || arg[n + 2] == '\0';
}

/* Takes the value of an option that wants one: behind the '=' or the next argument. */
static int
option_value(const char *name, char ***argv, const char **value, struct err *err)
{
    if (!*value)
        *value = *++*argv;
    if (!*value || !**value)
        return err_set(err, ERR_INVALID, "--%s needs a value", name);
    return 0;
}

static int
parse_option(struct ctl *c, char ***argv, struct err *err)
{
    const char *arg = **argv, *value;
    for (size_t i = 0; c->options && c->options[i].name; i++) {
        const struct ctl_option *o = &c->options[i];
        if (!is_option(arg, o->name, &value))
            continue;
        if (!o->arg && value)
            return err_set(err, ERR_INVALID, "--%s takes no value", o->name);
        if (o->arg && option_value(o->name, argv, &value, err) < 0)
            return -1;
        c->values[i] = value ? value : "";
        return 0;
    }
    if (is_option(arg, "config", &value))
        return option_value("config", argv, &value, err) < 0 ? -1 : (c->config = value, 0);
    return err_set(err, ERR_INVALID, "unknown option %.80s", arg);
}

/* The command that the words at argv name: two of them, or one. */
static const struct ctl_command *
find_command(char ***argv)
{
    for (size_t g = 0; g < GROUPS; g++)
        for (const struct ctl_command *c = groups[g]; c->name; c++) {
            const char *space = strchr(c->name, ' ');
            size_t first = space ? (size_t)(space - c->name) : strlen(c->name);
            if (strlen((*argv)[0]) != first || strncmp((*argv)[0], c->name, first) != 0)
                continue;
            if (space && (!(*argv)[1] || strcmp((*argv)[1], space + 1) != 0))
                continue;
            *argv += space ? 2 : 1;
            return c;
        }
    return NULL;
}

static int
fail(const struct err *err, int status)
{
    fprintf(stderr, "huskctl: %s\n", err->msg);
    return status;
}

/* Does the first word alone begin commands of two, such as "key"? Then they go to out. */
static bool
print_group(const char *word, FILE *out)
{
    size_t n = strlen(word);
    bool found = false;

    for (size_t g = 0; g < GROUPS; g++)
        for (const struct ctl_command *c = groups[g]; c->name; c++)
            if (strncmp(c->name, word, n) == 0 && c->name[n] == ' ') {
                if (!found)
                    fprintf(out, "usage: huskctl %s COMMAND [OPTION]...\n\nCommands:\n", word);
                found = true;
                print_line(c, out);
            }
    return found;
}

/* What no command begins with. */
static int
unknown_command(char **argv)
{
    struct err err = ERR_INIT;

    if (!argv[0])
        err_set(&err, ERR_INVALID, "no command; see huskctl --help");
    else if (argv[1] && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) &&
             print_group(argv[0], stdout))
        return EXIT_SUCCESS;
    else if (print_group(argv[0], stderr))
        return EXIT_USAGE;
    else
        err_set(&err, ERR_INVALID, "unknown command \"%.80s\"; see huskctl --help", argv[0]);
    return fail(&err, EXIT_USAGE);
}

static int
parse_arguments(struct ctl *c, const struct ctl_command *command, char **argv, struct err *err)
{
    for (; *argv; argv++) {
        if ((*argv)[0] == '-' && (*argv)[1]) {
            if (parse_option(c, &argv, err) < 0)
                return -1;
        } else if (command->operand && !c->operand) {
            c->operand = *argv;
        } else if (command->second && !c->second) {
            c->second = *argv;
        } else {
            return err_set(err, ERR_INVALID, "unexpected \"%.80s\"", *argv);
        }
    }
    if (command->operand && !c->operand)
        return err_set(err, ERR_INVALID, "%s needs %s", command->name, command->operand);
    for (const struct ctl_option *o = c->options; o && o->name; o++)
        if (o->needed && !ctl_value(c, o->name))
            return err_set(err, ERR_INVALID, "%s needs --%s %s, %s", command->name, o->name, o->arg,
                           o->help);
    return 0;
}

struct caller
ctl_caller(const struct ctl *c)
{
    struct caller who = {.admin = true};
    const char *owner = ctl_value(c, "owner");
    snprintf(who.owner, sizeof(who.owner), "%s", owner ? owner : "");
    return who;
}

int
ctl_manager(struct ctl *c, struct manager **ret, struct err *err)
{
    struct manager_options o;
    ctl_say_source(c);
    if (priv_become_owner(c->settings.state_dir, err) < 0)
        return -1;
    manager_options_of(&c->settings, &c->paths, &o);
    return manager_new(&o, ret, err) < 0 ? ctl_open_failed(c, err) : 0;
}

void
ctl_say_source(const struct ctl *c)
{
    if (c->config)
        return;
    for (char **e = environ; *e; e++)
        if (strncmp(*e, "SANDBOX_", strlen("SANDBOX_")) == 0)
            return;
    fprintf(stderr,
            "huskctl: there is no " PROGRAM_CONFIG ", and neither --config nor HUSK_CONFIG names "
            "another: these are the defaults, SANDBOX_STATE_DIR=%s\n",
            c->settings.state_dir);
}

int
ctl_open_failed(const struct ctl *c, struct err *err)
{
    if (err->code != ERR_NOT_FOUND)
        return -1;
    return err_wrap(err, "settings of %s", c->config ? c->config : "no file");
}

void
ctl_list_begin(struct ctl *c, struct json_writer *w, const char *name)
{
    jw_init(w, &c->out);
    if (!ctl_value(c, "json"))
        return;
    jw_object(w, NULL);
    jw_array(w, name);
}

void
ctl_list_end(struct ctl *c, struct json_writer *w)
{
    if (!ctl_value(c, "json"))
        return;
    jw_end_array(w);
    jw_end_object(w);
    (void)buf_putc(&c->out, '\n');
}

const char *
ctl_time(int64_t wall_ms, char out[CLOCK_RFC3339_SIZE])
{
    if (!wall_ms)
        return "-";
    clock_rfc3339(wall_ms, out);
    return out;
}

/* What command line or settings are to blame for exits as wrong use does. */
static int
failed(const struct err *err)
{
    return fail(err, err->code == ERR_INVALID ? EXIT_USAGE : EXIT_FAILURE);
}

static int
run(const struct ctl_command *command, struct ctl *c)
{
    struct err err = ERR_INIT;
    if (settings_load(c->config, &c->settings, &err) < 0)
        return failed(&err);
    log_init("huskctl", LOG_LEVEL_WARNING, c->settings.log_json);
    buf_init(&c->out, CTL_OUT_MAX);
    int rc = command->run(c, &err);
    if (rc >= 0)
        rc = buf_check(&c->out, "the output", &err) < 0 ? -1 : rc;
    if (rc >= 0 && fd_write_all(STDOUT_FILENO, buf_str(&c->out), c->out.len) < 0)
        rc = err_sys(&err, ERR_INTERNAL, errno, "cannot write the output");
    buf_done(&c->out);
    settings_done(&c->settings);
    return rc < 0 ? failed(&err) : rc;
}

int
main(int argc, char **argv)
{
    struct ctl c = {.config = program_config(NULL)};
    struct err err = ERR_INIT;
    const char *value;
    sig_ignore_pipe();
    for (argv += argc > 0; *argv && **argv == '-'; argv++) {
        if (strcmp(*argv, "--help") == 0 || strcmp(*argv, "-h") == 0)
            return print_help(), EXIT_SUCCESS;
        if (strcmp(*argv, "--version") == 0)
            return puts("huskctl " PACKAGE_VERSION) < 0;
        if (!is_option(*argv, "config", &value)) {
            err_set(&err, ERR_INVALID, "unknown option %.80s (see huskctl --help)", *argv);
            return fail(&err, EXIT_USAGE);
        }
        if (option_value("config", &argv, &value, &err) < 0)
            return fail(&err, EXIT_USAGE);
        c.config = value;
    }
    const struct ctl_command *command = *argv ? find_command(&argv) : NULL;
    if (!command)
        return unknown_command(argv);
    for (char **a = argv; *a; a++)
        if (strcmp(*a, "--help") == 0 || strcmp(*a, "-h") == 0)
            return print_command_help(command), EXIT_SUCCESS;
    c.options = command->options;
    if (parse_arguments(&c, command, argv, &err) < 0) {
        (void)fail(&err, EXIT_USAGE);
        return fprintf(stderr, "see huskctl %s --help\n", command->name), EXIT_USAGE;
    }
    return run(command, &c);
}
