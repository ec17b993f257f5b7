/* SPDX-License-Identifier: MIT */
#include "launch/connection.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"

#define KERNEL_ID_MIN 8
#define MEMBERS_MAX 32
/* What the kernel is told of where it listens; it is given its listeners and chooses no path. */
#define INSIDE_IP "/run/kernel"

static const char *const port_names[CONNECTION_CHANNELS] = {
    [CHANNEL_SHELL] = "shell_port", [CHANNEL_IOPUB] = "iopub_port",
    [CHANNEL_STDIN] = "stdin_port", [CHANNEL_CONTROL] = "control_port",
    [CHANNEL_HB] = "hb_port",
};

struct reader {
    const char *at, *end;
};

/* A piece of the text: a string without its quotes, or a number or word as it stands. */
struct piece {
    const char *p;
    size_t n;
    bool string, escaped;
};

static void
skip_space(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

static bool
next_is(struct reader *r, char c)
{
    skip_space(r);
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

/* The quote is passed already. */
static bool
read_string(struct reader *r, struct piece *ret)
{
    *ret = (struct piece){.p = r->at, .string = true};
    for (; r->at < r->end; r->at++) {
        if (*r->at == '"') {
            ret->n = (size_t)(r->at - ret->p);
            r->at++;
            return true;
        }
        if ((unsigned char)*r->at < ' ')
            return false;
        if (*r->at == '\\') {
            ret->escaped = true;
            if (++r->at == r->end)
                return false;
        }
    }
    return false;
}

static bool
read_value(struct reader *r, struct piece *ret)
{
    static const char marks[] = "+-.";

    if (next_is(r, '"'))
        return read_string(r, ret);
    *ret = (struct piece){.p = r->at};
    while (r->at < r->end &&
           ((*r->at >= '0' && *r->at <= '9') || (*r->at >= 'a' && *r->at <= 'z') ||
            (*r->at >= 'A' && *r->at <= 'Z') || memchr(marks, *r->at, sizeof(marks) - 1)))
        r->at++;
    ret->n = (size_t)(r->at - ret->p);
    return ret->n > 0;
}

static bool
named(const struct piece *name, const char *s)
{
    return name->n == strlen(s) && memcmp(name->p, s, name->n) == 0;
}

/* Copies a string that needs no quoting when it is written again. */
static int
take_text(const struct piece *v, const char *what, char *ret, size_t room, struct err *err)
{
    if (!v->string || v->escaped || v->n >= room)
        return err_set(err, ERR_INVALID, "its member %s is not a plain string below %zu bytes",
                       what, room);
    for (size_t i = 0; i < v->n; i++)
        if (v->p[i] < ' ' || v->p[i] > '~')
            return err_set(err, ERR_INVALID, "its member %s is not plain ASCII", what);
    memcpy(ret, v->p, v->n);
    ret[v->n] = '\0';
    return 0;
}

static int
take_member(struct connection *c, char transport[16], const struct piece *name,
            const struct piece *v, struct err *err)
{
    uint64_t port;

    if (named(name, "ip"))
        return take_text(v, "ip", c->ip, sizeof(c->ip), err);
    if (named(name, "transport"))
        return take_text(v, "transport", transport, 16, err);
    if (named(name, "key"))
        return take_text(v, "key", c->key, sizeof(c->key), err);
    if (named(name, "signature_scheme"))
        return take_text(v, "signature_scheme", c->scheme, sizeof(c->scheme), err);
    if (named(name, "kernel_name"))
        return take_text(v, "kernel_name", c->kernel_name, sizeof(c->kernel_name), err);
    for (int i = 0; i < CONNECTION_CHANNELS; i++) {
        if (!named(name, port_names[i]))
            continue;
        if (v->string || num_u64(v->p, v->n, 65535, &port) != 1 || port == 0)
            return err_set(err, ERR_INVALID, "its member %s is not a port", port_names[i]);
        c->ports[i] = (int)port;
    }
    return 0; /* of no concern to a kernel that is given its listeners */
}

static int
check(const struct connection *c, const char *transport, struct err *err)
{
    if (strcmp(transport, "ipc") != 0)
        return err_set(err, ERR_UNAVAILABLE,
                       "its transport is \"%s\": the gateway must be started with "
                       "KernelManager.transport=ipc",
                       transport);
    if (c->ip[0] != '/')
        return err_set(err, ERR_INVALID, "its member ip is not an absolute path");
    if (!c->scheme[0])
        return err_set(err, ERR_INVALID, "it has no signature_scheme");
    for (int i = 0; i < CONNECTION_CHANNELS; i++) {
        if (c->ports[i] == 0)
            return err_set(err, ERR_INVALID, "it has no %s", port_names[i]);
        for (int j = 0; j < i; j++)
            if (c->ports[i] == c->ports[j])
                return err_set(err, ERR_INVALID, "its %s and %s are the same", port_names[j],
                               port_names[i]);
    }
    return 0;
}

int
connection_parse(const char *text, size_t n, struct connection *ret, struct err *err)
{
    struct reader r = {text, text + n};
    struct connection c = {0};
    char transport[16] = "tcp"; /* what a file without the member means */
    bool more = next_is(&r, '{');

    if (n > CONNECTION_FILE_MAX)
        return err_set(err, ERR_LIMIT, "it is larger than %d bytes", CONNECTION_FILE_MAX);
    for (int i = 0; more; i++) {
        struct piece name, value;

        if (i == MEMBERS_MAX)
            return err_set(err, ERR_LIMIT, "it has more than %d members", MEMBERS_MAX);
        if (!next_is(&r, '"') || !read_string(&r, &name) || !next_is(&r, ':') ||
            !read_value(&r, &value))
            return err_set(err, ERR_INVALID, "it is not a flat JSON object");
        if (take_member(&c, transport, &name, &value, err) < 0)
            return -1;
        more = next_is(&r, ',');
    }
    if (!next_is(&r, '}') || (skip_space(&r), r.at != r.end))
        return err_set(err, ERR_INVALID, "it is not a flat JSON object");
    if (check(&c, transport, err) < 0)
        return -1;
    *ret = c;
    return 0;
}

static void
put_text(struct buf *out, const char *name, const char *value)
{
    (void)buf_printf(out, ", \"%s\": \"", name);
    for (const char *p = value; *p; p++) {
        if (*p == '"' || *p == '\\')
            (void)buf_putc(out, '\\');
        (void)buf_putc(out, *p);
    }
    (void)buf_putc(out, '"');
}

int
connection_write(const struct connection *c, struct buf *out)
{
    (void)buf_puts(out, "{");
    for (int i = 0; i < CONNECTION_CHANNELS; i++)
        (void)buf_printf(out, "%s\"%s\": %d", i ? ", " : "", port_names[i], c->ports[i]);
    put_text(out, "transport", "ipc");
    put_text(out, "ip", INSIDE_IP);
    put_text(out, "signature_scheme", c->scheme);
    put_text(out, "key", c->key);
    put_text(out, "kernel_name", c->kernel_name);
    return buf_puts(out, "}\n");
}

int
connection_socket(const struct connection *c, enum connection_channel channel, char *ret,
                  size_t room)
{
    int n = snprintf(ret, room, "%s-%d", c->ip, c->ports[channel]);

    return n > 0 && (size_t)n < room ? 0 : -1;
}

int
connection_kernel(const char *path, char *ret, size_t max, struct err *err)
{
    static const char prefix[] = "kernel-", suffix[] = ".json";
    const char *base = strrchr(path, '/');
    size_t n;

    base = base ? base + 1 : path;
    n = strlen(base);
    if (strncmp(base, prefix, sizeof(prefix) - 1) == 0 && n > sizeof(prefix) + sizeof(suffix) &&
        strcmp(base + n - (sizeof(suffix) - 1), suffix) == 0) {
        const char *id = base + sizeof(prefix) - 1;
        size_t len = n - (sizeof(prefix) - 1) - (sizeof(suffix) - 1);

        if (len >= KERNEL_ID_MIN && len < max && strspn(id, "0123456789abcdef-") == len) {
            memcpy(ret, id, len);
            ret[len] = '\0';
            return 0;
        }
    }
    return err_set(err, ERR_INVALID,
                   "its name is not kernel-<id>.json, by which the gateway names a kernel");
}
