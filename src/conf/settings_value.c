/* SPDX-License-Identifier: MIT */
/* One value: from text and back, by the type of its row. */
#include "conf/settings_table.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/num.h"

static const char *const log_levels[] = {
    [LOG_LEVEL_ERROR] = "error",
    [LOG_LEVEL_WARNING] = "warning",
    [LOG_LEVEL_INFO] = "info",
    [LOG_LEVEL_DEBUG] = "debug",
};

static bool
only(const char *s, size_t n, const char *marks)
{
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && (!s[i] || !strchr(marks, s[i])))
            return false;
    return true;
}

static bool
origin_valid(const char *s, size_t n)
{
    size_t scheme = 0;
    if (n > 7 && memcmp(s, "http://", 7) == 0)
        scheme = 7;
    else if (n > 8 && memcmp(s, "https://", 8) == 0)
        scheme = 8;
    return scheme && only(s + scheme, n - scheme, ".-:[]_");
}

static bool
origins_valid(const char *s, size_t n)
{
    if (n == 1 && s[0] == '*')
        return true;
    for (size_t i = 0; i < n;) {
        size_t len = 0;
        while (i + len < n && s[i + len] != ',' && s[i + len] != ' ')
            len++;
        if (len && !origin_valid(s + i, len))
            return false;
        i += len + 1;
    }
    return true;
}

static bool
url_valid(const char *s, size_t n)
{
    size_t scheme = n > 8 && memcmp(s, "https://", 8) == 0 ? 8 : 7;
    if (n <= scheme || (scheme == 7 && memcmp(s, "http://", 7) != 0) || s[scheme] == '/')
        return false;
    /* No '@', '?' or '#': a secret in a URL would end in logs. */
    return only(s + scheme, n - scheme, ".-:[]_/~%");
}

static bool
paths_valid(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t len = 0;
        while (i + len < n && s[i + len] != ':')
            len++;
        if (!len || s[i] != '/' || i + len + 1 == n || !only(s + i, len, "._/@+,=~-"))
            return false;
        i += len + 1;
    }
    return true;
}

static bool
address_valid(const char *s, size_t n)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    if (!n)
        return true;
    if (n >= sizeof(text))
        return false;
    memcpy(text, s, n);
    text[n] = '\0';
    return inet_pton(AF_INET, text, &address) == 1 || inet_pton(AF_INET6, text, &address) == 1;
}

/* What is wrong with a text of this type, NULL if nothing. */
static const char *
text_fault(enum setting_type type, const char *s, size_t n)
{
    switch (type) {
    case SETTING_PATH:
        if (n && s[0] != '/')
            return "must be an absolute path";
        /* These reach nginx's configuration and socket addresses as they are. */
        return only(s, n, "._/@:+,=~-") ? NULL : "may hold letters, digits and ._/@:+,=~- only";
    case SETTING_PATHS:
        return paths_valid(s, n) ? NULL : "must be absolute paths separated by colons";
    case SETTING_ADDRESS:
        return address_valid(s, n) ? NULL : "must be an IPv4 or IPv6 address";
    case SETTING_URL:
        return !n || url_valid(s, n) ? NULL
                                     : "must be http://host… or https://host… without user, query "
                                       "or fragment";
    case SETTING_WORD:
        return only(s, n, "_.-") && (!n || s[0] != '-') ? NULL
                                                        : "may hold letters, digits and _.- only";
    case SETTING_HEADER:
        return only(s, n, "-") ? NULL : "must be a header's name: letters, digits and - only";
    case SETTING_ORIGINS:
        return origins_valid(s, n) ? NULL : "must be origins such as https://app.example.com";
    case SETTING_LISTEN:
        return only(s, n, ".:[]/_-*") ? NULL : "must be address:port, port or unix:/path";
    case SETTING_HOSTS:
        return only(s, n, "._-* ") ? NULL : "must be host names separated by spaces";
    default:
        for (size_t i = 0; i < n; i++)
            if (s[i] <= ' ' || s[i] > '~')
                return "may hold printable characters without spaces only";
        return NULL;
    }
}

static int
refuse(const struct setting *t, const char *value, size_t n, struct err *err, const char *why)
{
    if (t->secret)
        return err_set(err, ERR_INVALID, "%s %s", t->key, why);
    int shown = n > 60 ? 60 : (int)n;
    return err_set(err, ERR_INVALID, "%s %s, not \"%.*s\"", t->key, why, shown, value);
}

static int
assign_text(const struct setting *t, struct settings *s, const char *value, size_t n,
            struct err *err)
{
    if (n < (size_t)t->min)
        return refuse(t, value, n, err, n ? "is too short" : "must not be empty");
    if (n > (size_t)t->max)
        return err_set(err, ERR_INVALID, "%s is %zu bytes long, of at most %" PRId64, t->key, n,
                       t->max);
    const char *fault = text_fault(t->type, value, n);
    if (fault)
        return refuse(t, value, n, err, fault);
    char **at = setting_at(t, s);
    free(*at);
    *at = xstrndup(value, n);
    return 0;
}

static int
assign_choice(const struct setting *t, struct settings *s, const char *value, size_t n,
              struct err *err)
{
    if (!setting_in_choices(t->choices, value, n)) {
        char why[160];
        snprintf(why, sizeof(why), "must be one of %s", t->choices);
        return refuse(t, value, n, err, why);
    }
    if (t->built && !setting_in_choices(t->built, value, n))
        return err_set(err, ERR_INVALID, "%s: \"%.*s\" is not built yet; only %s is", t->key,
                       (int)n, value, t->built);
    if (t->type == SETTING_LOG_FORMAT) {
        *(bool *)setting_at(t, s) = n == 4 && memcmp(value, "json", 4) == 0;
        return 0;
    }
    if (t->type == SETTING_LOG_LEVEL) {
        for (size_t i = 0; i < sizeof(log_levels) / sizeof(log_levels[0]); i++)
            if (setting_in_choices(log_levels[i], value, n))
                *(enum log_level *)setting_at(t, s) = (enum log_level)i;
        return 0;
    }
    char **at = setting_at(t, s);
    free(*at);
    *at = xstrndup(value, n);
    return 0;
}

static int
assign_number(const struct setting *t, struct settings *s, const char *value, size_t n,
              struct err *err)
{
    int64_t v = 0;
    double d = 0;
    switch (t->type) {
    case SETTING_BYTES:
        if (num_bytes(value, n, &v) != 1)
            return refuse(t, value, n, err, "must be a size such as 4096, 512k, 25MiB or 4GiB");
        break;
    case SETTING_DURATION:
        if (num_duration_ms(value, n, &v) != 1)
            return refuse(t, value, n, err,
                          "must be a duration such as 60 (seconds), 500ms, 15min or 24h");
        break;
    case SETTING_CPUS:
        if (num_double(value, n, &d) != 1)
            return refuse(t, value, n, err, "must be a number such as 1.5");
        break;
    default:
        if (num_i64(value, n, INT64_MIN, INT64_MAX, &v) != 1)
            return refuse(t, value, n, err, "must be a whole number");
        break;
    }
    bool inside = t->type == SETTING_CPUS ? d * 100 >= (double)t->min && d * 100 <= (double)t->max
                                          : v >= t->min && v <= t->max;
    if (!inside) {
        _cleanup_buf_ struct buf why = BUF_INIT(200);
        (void)buf_puts(&why, "must be within ");
        setting_range(t, &why);
        return refuse(t, value, n, err, buf_str(&why));
    }
    if (t->type == SETTING_CPUS)
        *(double *)setting_at(t, s) = d;
    else
        *(int64_t *)setting_at(t, s) = v;
    return 0;
}

int
setting_assign(const struct setting *t, struct settings *s, const char *value, size_t n,
               struct err *err)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)value[i] < ' ' || value[i] == 0x7f)
            return err_set(err, ERR_INVALID, "%s holds a control character", t->key);
    switch (t->type) {
    case SETTING_BOOL: {
        bool yes = setting_in_choices("true|yes|on|1", value, n);
        if (!yes && !setting_in_choices("false|no|off|0", value, n))
            return refuse(t, value, n, err, "must be true or false");
        *(bool *)setting_at(t, s) = yes;
        return 0;
    }
    case SETTING_INT:
    case SETTING_BYTES:
    case SETTING_DURATION:
    case SETTING_CPUS:
        return assign_number(t, s, value, n, err);
    case SETTING_CHOICE:
    case SETTING_LOG_LEVEL:
    case SETTING_LOG_FORMAT:
        return assign_choice(t, s, value, n, err);
    default:
        return assign_text(t, s, value, n, err);
    }
}

/* "512KiB": the largest unit that is exact, as the parser takes it. */
static int
format_bytes(int64_t n, struct buf *out)
{
    static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB"};
    size_t u = 0;
    while (u < 4 && n && n % 1024 == 0) {
        n /= 1024;
        u++;
    }
    return buf_printf(out, "%" PRId64 "%s", n, units[u]);
}

/* The same of a duration. */
static int
format_duration(int64_t ms, struct buf *out)
{
    if (ms % 1000)
        return buf_printf(out, "%" PRId64 "ms", ms);
    int64_t s = ms / 1000;
    if (s && s % 86400 == 0)
        return buf_printf(out, "%" PRId64 " days", s / 86400);
    if (s && s % 3600 == 0)
        return buf_printf(out, "%" PRId64 "h", s / 3600);
    return buf_printf(out, "%" PRId64 "s", s);
}

int
setting_format(const struct setting *t, const struct settings *s, struct buf *out)
{
    const void *at = setting_peek(t, s);
    switch (t->type) {
    case SETTING_BOOL:
        return buf_puts(out, *(const bool *)at ? "true" : "false");
    case SETTING_LOG_FORMAT:
        return buf_puts(out, *(const bool *)at ? "json" : "text");
    case SETTING_LOG_LEVEL:
        return buf_puts(out, log_levels[*(const enum log_level *)at]);
    case SETTING_INT:
        return buf_printf(out, "%" PRId64, *(const int64_t *)at);
    case SETTING_BYTES:
        return format_bytes(*(const int64_t *)at, out);
    case SETTING_DURATION:
        return format_duration(*(const int64_t *)at, out);
    case SETTING_CPUS:
        return buf_printf(out, "%g", *(const double *)at);
    default: {
        const char *text = *(char *const *)at;
        return buf_puts(out, text ? text : "");
    }
    }
}

void
setting_range(const struct setting *t, struct buf *out)
{
    switch (t->type) {
    case SETTING_BOOL:
        (void)buf_puts(out, "true or false");
        return;
    case SETTING_INT:
        (void)buf_printf(out, "%" PRId64 " to %" PRId64, t->min, t->max);
        return;
    case SETTING_CPUS:
        (void)buf_printf(out, "%g to %g", (double)t->min / 100, (double)t->max / 100);
        return;
    case SETTING_BYTES:
        (void)format_bytes(t->min, out);
        (void)buf_puts(out, " to ");
        (void)format_bytes(t->max, out);
        return;
    case SETTING_DURATION:
        (void)format_duration(t->min, out);
        (void)buf_puts(out, " to ");
        (void)format_duration(t->max, out);
        return;
    case SETTING_CHOICE:
    case SETTING_LOG_LEVEL:
    case SETTING_LOG_FORMAT:
        for (const char *p = t->built ? t->built : t->choices; *p; p++)
            (void)(*p == '|' ? buf_puts(out, ", ") : buf_putc(out, *p));
        return;
    default:
        (void)buf_puts(out, t->type == SETTING_PATH      ? "absolute path"
                            : t->type == SETTING_PATHS   ? "absolute paths"
                            : t->type == SETTING_ADDRESS ? "address"
                                                         : "text");
        return;
    }
}
