/* SPDX-License-Identifier: MIT */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Fills everything but the message. */
static void
set_head(struct err *err, enum err_code code, int sys_errno, const char *slug)
{
    err->code = code;
    err->sys_errno = sys_errno;
    err->retry_after_s = 0;
    err->slug = slug;
}

/*
 * The message may be made from the old one (err_set(&e, …, "%s", e.msg)), so it is printed beside
 * and copied afterwards.
 */
static void __attribute__((format(printf, 2, 0)))
set_msg(struct err *err, const char *fmt, va_list ap)
{
    char msg[sizeof err->msg];

    (void)vsnprintf(msg, sizeof msg, fmt, ap);
    memcpy(err->msg, msg, sizeof msg);
}

int
err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return -1;
    va_start(ap, fmt);
    set_msg(err, fmt, ap);
    va_end(ap);
    set_head(err, code, 0, NULL);
    return -1;
}

int
err_slug(struct err *err, enum err_code code, const char *slug, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return -1;
    va_start(ap, fmt);
    set_msg(err, fmt, ap);
    va_end(ap);
    set_head(err, code, 0, slug);
    return -1;
}

int
err_sys(struct err *err, enum err_code code, int sys_errno, const char *fmt, ...)
{
    va_list ap;
    char text[128];
    size_t len;

    if (!err)
        return -1;
    va_start(ap, fmt);
    set_msg(err, fmt, ap);
    va_end(ap);
    set_head(err, code, sys_errno, NULL);
    len = strlen(err->msg);
    /* The GNU strerror_r: returns the text, which need not be in the buffer. */
    (void)snprintf(err->msg + len, sizeof err->msg - len, ": %s",
                   strerror_r(sys_errno, text, sizeof text));
    return -1;
}

int
err_wrap(struct err *err, const char *fmt, ...)
{
    va_list ap;
    char old[sizeof err->msg];
    size_t len;

    if (!err)
        return -1;
    memcpy(old, err->msg, sizeof old);
    va_start(ap, fmt);
    set_msg(err, fmt, ap);
    va_end(ap);
    len = strlen(err->msg);
    (void)snprintf(err->msg + len, sizeof err->msg - len, ": %s", old);
    return -1;
}

const char *
err_name(enum err_code code)
{
    static const char *const names[] = {
        [ERR_NONE] = "none",
        [ERR_INVALID] = "invalid",
        [ERR_DENIED] = "denied",
        [ERR_NOT_FOUND] = "not-found",
        [ERR_CONFLICT] = "conflict",
        [ERR_LIMIT] = "limit",
        [ERR_TIMEOUT] = "timeout",
        [ERR_ABORTED] = "aborted",
        [ERR_UNAVAILABLE] = "unavailable",
        [ERR_UNCERTAIN] = "uncertain",
        [ERR_NOMEM] = "no-memory",
        [ERR_INTERNAL] = "internal",
    };

    if ((unsigned)code >= sizeof names / sizeof *names)
        return "unknown";
    return names[code];
}
