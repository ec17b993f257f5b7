/* SPDX-License-Identifier: MIT */
#ifndef HUSK_CONF_SETTINGS_TABLE_H
#define HUSK_CONF_SETTINGS_TABLE_H

#include "conf/settings.h"

/* Private to conf: the one table all of it works from. */

enum setting_type {
    SETTING_BOOL,       /* bool */
    SETTING_INT,        /* int64_t */
    SETTING_BYTES,      /* int64_t */
    SETTING_DURATION,   /* int64_t, milliseconds */
    SETTING_CPUS,       /* double; min and max are hundredths */
    SETTING_CHOICE,     /* char *, one of choices */
    SETTING_PATH,       /* char *, absolute; "" where min is 0 */
    SETTING_PATHS,      /* char *, absolute paths separated by colons, or "" */
    SETTING_ADDRESS,    /* char *, an IPv4 or IPv6 address, or "" */
    SETTING_URL,        /* char *, http or https, no user or query */
    SETTING_WORD,       /* char *, [A-Za-z0-9_.-]; "" where min is 0 */
    SETTING_HEADER,     /* char *, the name of a header field */
    SETTING_TOKEN,      /* char *, printable without spaces, or "" */
    SETTING_ORIGINS,    /* char *, origins separated by spaces or commas, or "*", or "" */
    SETTING_LISTEN,     /* char *, what nginx's listen takes */
    SETTING_HOSTS,      /* char *, what nginx's server_name takes */
    SETTING_LOG_LEVEL,  /* enum log_level */
    SETTING_LOG_FORMAT, /* bool: json */
};

struct setting {
    const char *section; /* heading before this row, NULL: as the one above */
    const char *key;
    enum setting_type type;
    size_t offset;       /* in struct settings */
    int64_t min, max;    /* numbers: range; text: length */
    const char *value;   /* the default as text; NULL: derived, see derived */
    const char *derived; /* in words, for help */
    const char *choices; /* "a|b|c" */
    const char *built;   /* the choices that stand; NULL: all */
    bool secret;
    const char *help; /* sentences; a choice's values explained */
};

extern const struct setting setting_table[];
extern const size_t setting_count;

/* By key of n bytes; NULL if there is none. */
const struct setting *setting_find(const char *key, size_t n);

/* Parses the value and stores it; the message names the setting, never a secret's value. */
int setting_assign(const struct setting *t, struct settings *s, const char *value, size_t n,
                   struct err *err);

/* Text of the value in s as the parser takes it, secrets as they are. */
int setting_format(const struct setting *t, const struct settings *s, struct buf *out);

/* What a value may be, in words: "1s to 24h", "direct", "absolute path". */
void setting_range(const struct setting *t, struct buf *out);

/* Is s[0..n) one of "a|b|c"? */
bool setting_in_choices(const char *choices, const char *s, size_t n);

static inline void *
setting_at(const struct setting *t, struct settings *s)
{
    return (char *)s + t->offset;
}

static inline const void *
setting_peek(const struct setting *t, const struct settings *s)
{
    return (const char *)s + t->offset;
}

#endif
