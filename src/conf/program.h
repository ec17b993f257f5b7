/* SPDX-License-Identifier: MIT */
#ifndef HUSK_CONF_PROGRAM_H
#define HUSK_CONF_PROGRAM_H

#include "base/err.h"
#include "conf/settings.h"

#include <stdbool.h>

/* How every program of the service begins: its options, its settings, its log. */

/* Exit status for a command line or settings that cannot be understood. */
#define EXIT_USAGE 2

/* Where the settings are unless somebody says otherwise. */
#define PROGRAM_CONFIG "/etc/husk/husk.conf"

/* An option of a program's own; --config, --help and --version all have. */
struct program_option {
    const char *name;
    bool takes_value;
    const char **ret; /* its value, "" if it takes none; left alone when it is not given */
};
#define PROGRAM_OPTIONS_MAX 8

struct program {
    const char *name;                     /* for --version and the log */
    const char *usage;                    /* the whole text of --help, with its line ends */
    const struct program_option *options; /* ends with a NULL name; NULL: none */
};

/* Reads a command line without operands. -1 go on, with *ret_config as settings_load() takes it;
 * else what to exit with, and all is said. */
int program_options(const struct program *p, int argc, char **argv, const char **ret_config);

/* The settings file to read: the one asked for (NULL: none was), else the one that HUSK_CONFIG
 * names, else PROGRAM_CONFIG unless it is not there, else NULL: there is none. Borrowed. */
const char *program_config(const char *asked);

/* Loads the settings and begins to log as they say. Errors as of settings_load(). */
int program_load(const char *name, const char *config, struct settings *ret, struct err *err);

#endif
