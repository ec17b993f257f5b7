/* SPDX-License-Identifier: MIT */
#include "conf/program.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"

/* What getopt_long returns: 'c', 'h' and 'V', or the place of an own option. */
#define OWN_OPTION 256
#define COMMON_OPTIONS 3

static void
fill_options(const struct program *p, struct option out[PROGRAM_OPTIONS_MAX + COMMON_OPTIONS + 1])
{
    static const struct option common[COMMON_OPTIONS] = {
        {"config", required_argument, NULL, 'c'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
    };
    size_t n = 0;

    for (size_t i = 0; i < COMMON_OPTIONS; i++)
        out[n++] = common[i];
    for (size_t i = 0; p->options && p->options[i].name; i++) {
        const struct program_option *o = &p->options[i];

        assert(i < PROGRAM_OPTIONS_MAX);
        out[n++] = (struct option){o->name, o->takes_value ? required_argument : no_argument, NULL,
                                   OWN_OPTION + (int)i};
    }
    out[n] = (struct option){NULL, 0, NULL, 0};
}

int
program_options(const struct program *p, int argc, char **argv, const char **ret_config)
{
    struct option options[PROGRAM_OPTIONS_MAX + COMMON_OPTIONS + 1];
    const char *config = NULL;
    int c;

    fill_options(p, options);
    while ((c = getopt_long(argc, argv, "c:hV", options, NULL)) != -1) {
        if (c == 'h')
            return fputs(p->usage, stdout) < 0;
        if (c == 'V')
            return printf("%s %s\n", p->name, PACKAGE_VERSION) < 0;
        if (c == 'c')
            config = optarg;
        else if (c >= OWN_OPTION)
            *p->options[c - OWN_OPTION].ret = optarg ? optarg : "";
        else
            break;
    }
    if (c != -1 || optind < argc) {
        if (c == -1)
            (void)fprintf(stderr, "%s: unexpected \"%s\"\n", p->name, argv[optind]);
        (void)fputs(p->usage, stderr);
        return EXIT_USAGE;
    }
    *ret_config = program_config(config);
    return -1;
}

const char *
program_config(const char *asked)
{
    const char *named = getenv("HUSK_CONFIG");

    if (asked)
        return asked;
    if (named && *named)
        return named;
    /* one that is there and out of reach is an error to be told, not a reason for the defaults */
    return access(PROGRAM_CONFIG, F_OK) == 0 || errno != ENOENT ? PROGRAM_CONFIG : NULL;
}

int
program_load(const char *name, const char *config, struct settings *ret, struct err *err)
{
    log_init(name, LOG_LEVEL_INFO, false);
    if (settings_load(config, ret, err) < 0)
        return -1;
    log_init(name, ret->log_level, ret->log_json);
    return 0;
}
