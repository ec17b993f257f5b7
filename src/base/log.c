/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include "base/clock.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOG_RECORD_MAX 4096
#define LOG_ID_SIZE 80
/* Kept for the ids and the closing brace, so that a long message cannot push them out. */
#define LOG_TAIL_MAX 1024

enum log_id { LOG_ID_REQUEST, LOG_ID_SESSION, LOG_ID_EXECUTION, LOG_ID_COUNT };

static struct {
    const char *program;
    enum log_level level;
    bool json;
    char ids[LOG_ID_COUNT][LOG_ID_SIZE];
} state = {.program = "husk", .level = LOG_LEVEL_INFO};

static const char *const level_names[] = {"error", "warning", "info", "debug"};
static const char *const text_keys[LOG_ID_COUNT] = {"request", "session", "execution"};
static const char *const json_keys[LOG_ID_COUNT] = {"request_id", "session_id", "execution_id"};

/* A record on the stack: logging must work without memory. */
struct line {
    char text[LOG_RECORD_MAX];
    size_t len;
    size_t max;
};

void
log_init(const char *program, enum log_level level, bool json)
{
    state.program = program;
    state.level = level;
    state.json = json;
}

void
log_rename(const char *program)
{
    state.program = program;
}

static void
set_id(enum log_id which, const char *id)
{
    (void)snprintf(state.ids[which], LOG_ID_SIZE, "%s", id ? id : "");
}

void
log_set_request(const char *request_id)
{
    set_id(LOG_ID_REQUEST, request_id);
}

void
log_set_session(const char *session_id)
{
    set_id(LOG_ID_SESSION, session_id);
}

void
log_set_execution(const char *execution_id)
{
    set_id(LOG_ID_EXECUTION, execution_id);
}

/* All of it or nothing: no escape is ever cut in two. */
static bool
put(struct line *l, const char *s, size_t n)
{
    if (n > l->max - l->len)
        return false;
    memcpy(l->text + l->len, s, n);
    l->len += n;
    return true;
}

/* Control characters, quotes and backslashes (JSON only) and bytes that are no UTF-8, escaped. */
static void
put_escaped(struct line *l, const char *s)
{
    size_t n = strlen(s);

    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)s[i];
        char esc[8];
        int k = 0;
        size_t len = 1;

        if (c == '\n' || c == '\t')
            k = snprintf(esc, sizeof esc, "\\%c", c == '\n' ? 'n' : 't');
        else if (c < 0x20 || c == 0x7f)
            k = snprintf(esc, sizeof esc, state.json ? "\\u%04x" : "\\x%02x", c);
        else if (state.json && (c == '"' || c == '\\'))
            k = snprintf(esc, sizeof esc, "\\%c", c);
        else if (c >= 0x80) {
            for (len = 2; len <= 4 && !(i + len <= n && utf8_valid(s + i, len)); len++)
                ;
            if (len > 4) {
                len = 1;
                k = snprintf(esc, sizeof esc, state.json ? "\\ufffd" : "\\x%02x", c);
            }
        }
        if (!(k > 0 ? put(l, esc, (size_t)k) : put(l, s + i, len)))
            return;
        i += len;
    }
}

static void
put_str(struct line *l, const char *s)
{
    (void)put(l, s, strlen(s));
}

/* ,"key":"value" */
static void
put_member(struct line *l, const char *key, const char *value)
{
    put_str(l, ",\"");
    put_str(l, key);
    put_str(l, "\":\"");
    put_escaped(l, value);
    put_str(l, "\"");
}

static void
compose(struct line *l, enum log_level level, const char *msg)
{
    char now[CLOCK_RFC3339_SIZE], pid[16];

    clock_rfc3339(clock_wall_ms(), now);
    (void)snprintf(pid, sizeof pid, "%d", (int)getpid());
    l->max = sizeof l->text - LOG_TAIL_MAX;
    put_str(l, state.json ? "{\"time\":\"" : "");
    put_str(l, now);
    if (state.json) {
        put_str(l, "\"");
        put_member(l, "level", level_names[level]);
        put_member(l, "program", state.program);
        put_str(l, ",\"pid\":");
        put_str(l, pid);
        put_str(l, ",\"message\":\"");
    } else {
        put_str(l, " ");
        put_escaped(l, state.program);
        put_str(l, "[");
        put_str(l, pid);
        put_str(l, "] ");
        put_str(l, level_names[level]);
        put_str(l, ": ");
    }
    put_escaped(l, msg);
    l->max = sizeof l->text;
    if (state.json)
        put_str(l, "\"");
    for (int i = 0; i < LOG_ID_COUNT; i++) {
        if (!state.ids[i][0])
            continue;
        if (state.json) {
            put_member(l, json_keys[i], state.ids[i]);
            continue;
        }
        put_str(l, " ");
        put_str(l, text_keys[i]);
        put_str(l, "=");
        put_escaped(l, state.ids[i]);
    }
    put_str(l, state.json ? "}\n" : "\n");
}

static void __attribute__((format(printf, 2, 0)))
emit(enum log_level level, const char *fmt, va_list ap)
{
    int saved = errno;
    char msg[LOG_RECORD_MAX];
    struct line l = {.len = 0};

    if (level > state.level)
        return;
    (void)vsnprintf(msg, sizeof msg, fmt, ap);
    compose(&l, level, msg);
    if (write(STDERR_FILENO, l.text, l.len) < 0) {
        /* there is nobody left to tell */
    }
    errno = saved;
}

void
log_error(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    emit(LOG_LEVEL_ERROR, fmt, ap);
    va_end(ap);
}

void
log_warning(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    emit(LOG_LEVEL_WARNING, fmt, ap);
    va_end(ap);
}

void
log_info(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    emit(LOG_LEVEL_INFO, fmt, ap);
    va_end(ap);
}

void
log_debug(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    emit(LOG_LEVEL_DEBUG, fmt, ap);
    va_end(ap);
}
