/* SPDX-License-Identifier: MIT */
#include "ctl/ctl.h"

#include <stdlib.h>
#include <string.h>

#include "api/render.h"
#include "base/clock.h"
#include "base/num.h"

/* "execute", "read,admin" … */
static int
parse_scopes(const char *text, unsigned *ret, struct err *err)
{
    unsigned all = 0;
    for (const char *p = text;; p++) {
        size_t n = strcspn(p, ",");
        enum key_scope scope;
        if (!key_scope_find(p, n, &scope))
            return err_set(err, ERR_INVALID, "--scope is read, execute or admin, not \"%.*s\"",
                           n > 40 ? 40 : (int)n, p);
        all |= scope;
        p += n;
        if (!*p)
            break;
    }
    *ret = all;
    return 0;
}

static void
scopes_text(unsigned set, struct buf *out)
{
    size_t before = out->len;
    for (int i = 0; i < KEY_SCOPES; i++) {
        const char *name;
        if (set & key_scope_at(i, &name))
            (void)buf_printf(out, "%s%s", out->len > before ? "," : "", name);
    }
}

static void
put_created(struct buf *out, const char *token, const struct key_info *k)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_string(&w, "key", token);
    render_key_members(&w, k);
    jw_end_object(&w);
    (void)buf_putc(out, '\n');
}

static int
run_create(struct ctl *c, struct err *err)
{
    const char *owner = ctl_value(c, "owner"), *scope = ctl_value(c, "scope"),
               *expires = ctl_value(c, "expires"), *note = ctl_value(c, "note");
    unsigned set = KEY_EXECUTE;
    int64_t lives_ms = 0;
    if (scope && parse_scopes(scope, &set, err) < 0)
        return -1;
    if (expires && (num_duration_ms(expires, strlen(expires), &lives_ms) != 1 || lives_ms <= 0))
        return err_set(err, ERR_INVALID, "--expires is a duration such as 30days or 12h");
    _cleanup_manager_ struct manager *m = NULL;
    struct key_info info;
    char token[KEY_TOKEN_SIZE];
    if (ctl_manager(c, &m, err) < 0 ||
        manager_key_create(m, owner, set, lives_ms ? clock_wall_ms() + lives_ms : 0,
                           note ? note : "", token, &info, err) < 0)
        return -1;
    if (ctl_value(c, "json"))
        put_created(&c->out, token, &info);
    else if (ctl_value(c, "quiet"))
        (void)buf_printf(&c->out, "%s\n", token);
    else
        (void)buf_printf(&c->out, "key:   %s\nid:    %s\nowner: %s\nThe key is shown this once.\n",
                         token, info.key_id, owner);
    explicit_bzero(token, sizeof(token));
    return 0;
}

static void
put_key_row(struct buf *out, const struct key_info *k)
{
    char expires[CLOCK_RFC3339_SIZE], used[CLOCK_RFC3339_SIZE];
    struct buf set = BUF_INIT(64);
    scopes_text(k->scopes, &set);
    (void)buf_printf(out, "%-18s %-16s %-20s %-24s %-24s %s\n", k->key_id, k->owner, buf_str(&set),
                     k->revoked_at ? "revoked" : ctl_time(k->expires_at, expires),
                     ctl_time(k->last_used_at, used), k->note);
    buf_done(&set);
}

static int
run_list(struct ctl *c, struct err *err)
{
    _cleanup_manager_ struct manager *m = NULL;
    _cleanup_free_ struct key_info *keys = NULL;
    struct json_writer w;
    size_t n = 0;
    if (ctl_manager(c, &m, err) < 0 || manager_key_list(m, &keys, &n, err) < 0)
        return -1;
    ctl_list_begin(c, &w, "keys");
    if (ctl_value(c, "json")) {
        render_keys(&w, keys, n);
    } else {
        (void)buf_printf(&c->out, "%-18s %-16s %-20s %-24s %-24s %s\n", "ID", "OWNER", "SCOPES",
                         "EXPIRES", "LAST USED", "NOTE");
        for (size_t i = 0; i < n; i++)
            put_key_row(&c->out, &keys[i]);
    }
    ctl_list_end(c, &w);
    return 0;
}

static int
run_revoke(struct ctl *c, struct err *err)
{
    _cleanup_manager_ struct manager *m = NULL;
    if (ctl_manager(c, &m, err) < 0 || manager_key_revoke(m, c->operand, err) < 0)
        return -1;
    (void)buf_printf(&c->out, "%s is revoked\n", c->operand);
    return 0;
}

static const struct ctl_option create_options[] = {
    {"owner", "OWNER", "whose key it is", true},
    {"scope", "LIST", "read, execute (the default), admin, or several with commas"},
    {"expires", "DURATION", "how long it is good, such as 30days; without: for ever"},
    {"note", "TEXT", "what it is for"},
    {"quiet", NULL, "print the key alone"},
    {"json", NULL, "as one JSON object"},
    {NULL, NULL, NULL},
};

static const struct ctl_option list_options[] = {
    {"json", NULL, "as one JSON object"},
    {NULL, NULL, NULL},
};

const struct ctl_command key_commands[] = {
    {"key create", NULL, "Make an API key; it is shown this once", create_options, run_create},
    {"key list", NULL, "List the keys (never the secrets)", list_options, run_list},
    {"key revoke", "KEY_ID", "Revoke a key at once", NULL, run_revoke},
    {NULL, NULL, NULL, NULL, NULL},
};
