/* SPDX-License-Identifier: MIT */
#ifndef HUSK_CTL_CTL_H
#define HUSK_CTL_CTL_H

#include "conf/settings.h"
#include "json/writer.h"
#include "manager/manager.h"
#include "manager/manager_settings.h"

#include <stdbool.h>
#include <stddef.h>

/* One call of huskctl: the command line, taken apart, and what commands share. */
#define CTL_OPTIONS_MAX 8
#define CTL_OUT_MAX (64u * 1024 * 1024)

struct ctl_option {
    const char *name;
    const char *arg; /* what the value is called; NULL: the option takes none */
    const char *help;
    bool needed; /* without it the command is not understood */
};

struct ctl {
    const char *config; /* the settings file; NULL: there is none */
    struct settings settings;
    const struct ctl_option *options; /* of the command; ends with a NULL name */
    const char *values[CTL_OPTIONS_MAX];
    const char *operand; /* or NULL */
    const char *second;  /* the optional one behind it, or NULL */
    struct buf out;      /* printed when the command ends well */
    struct manager_paths paths;
};

struct ctl_command {
    const char *name;    /* "session list" */
    const char *operand; /* what it needs, or NULL */
    const char *help;
    const struct ctl_option *options;
    /* 0, or -1 with err. May return another exit status: it has said why itself. */
    int (*run)(struct ctl *c, struct err *err);
    const char *second; /* what it may have behind the operand, or NULL */
};

extern const struct ctl_command status_commands[], session_commands[], key_commands[],
    exec_commands[], db_commands[], config_commands[], doctor_commands[], sandbox_commands[];

/* The value of an option, "" for one without; NULL if it was not given. */
const char *ctl_value(const struct ctl *c, const char *name);

/* A manager over the settings. Called by root it makes this process the service's user for good, so
 * that nothing is left that workers cannot open. */
int ctl_manager(struct ctl *c, struct manager **ret, struct err *err);
/* For whoever opens what the settings name: says on standard error that they are the defaults,
 * where nobody chose that (no settings file and none in the environment). */
void ctl_say_source(const struct ctl *c);
/* Puts the settings file in front of the error of a database that is not there. Returns -1. */
int ctl_open_failed(const struct ctl *c, struct err *err);
/* The operator: sees everything. */
struct caller ctl_caller(const struct ctl *c);

static inline void
ctl_manager_free(struct manager **m)
{
    manager_free(*m);
}
#define _cleanup_manager_ _cleanup_(ctl_manager_free)

/* Begins the list that a command prints: with --json an object whose member of that name is an
 * array to be filled through w, else rows of text are put into c->out. */
void ctl_list_begin(struct ctl *c, struct json_writer *w, const char *name);
void ctl_list_end(struct ctl *c, struct json_writer *w);

/* A wall-clock time for a table: RFC 3339, "-" for 0. */
const char *ctl_time(int64_t wall_ms, char out[CLOCK_RFC3339_SIZE]);

#endif
