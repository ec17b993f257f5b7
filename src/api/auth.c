/* SPDX-License-Identifier: MIT */
#include "api/call.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/utf8.h"

int
api_auth_parse(const char *s, enum api_auth *ret)
{
    static const char *const names[] = {"keys", "proxy", "none"};

    for (int i = 0; i < 3; i++)
        if (strcmp(s, names[i]) == 0) {
            *ret = (enum api_auth)i;
            return 1;
        }
    return 0;
}

/* "Bearer <token>", the scheme in any case (RFC 6750 2.1, RFC 9110 11.1). */
static int
auth_by_key(struct api_call *c, struct err *err)
{
    const char *h = http_header(c->x, "authorization");

    if (h == NULL)
        return err_slug(err, ERR_DENIED, "unauthorized",
                        "a key is needed: send the header \"Authorization: Bearer …\"");
    if (strncasecmp(h, "Bearer ", 7) != 0)
        return err_slug(err, ERR_DENIED, "unauthorized",
                        "the Authorization header must be of the form \"Bearer …\"");
    h += 7 + strspn(h + 7, " ");
    return manager_key_check(c->api->o.manager, h, strcspn(h, " "), &c->caller, err);
}

static int
auth_by_proxy(struct api_call *c, struct err *err)
{
    const char *user = c->x->carrier->param(c->x->carrier_ctx, "HUSK_USER");
    size_t n = user != NULL ? strlen(user) : 0;

    if (n == 0)
        return err_slug(err, ERR_DENIED, "unauthorized", "the front end named no user%s%s",
                        c->api->o.proxy_user_header ? " in " : "",
                        c->api->o.proxy_user_header ? c->api->o.proxy_user_header : "");
    if (n > OWNER_MAX || !utf8_valid(user, n))
        return err_slug(err, ERR_DENIED, "unauthorized",
                        "the user that the front end names is no text of up to %d bytes",
                        OWNER_MAX);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)user[i] < 0x20 || user[i] == 0x7f)
            return err_slug(err, ERR_DENIED, "unauthorized",
                            "the user that the front end names holds control characters");
    memcpy(c->caller.owner, user, n + 1);
    return 0;
}

static int
auth_caller(struct api_call *c, struct err *err)
{
    switch (c->api->o.auth) {
    case API_AUTH_KEYS:
        return auth_by_key(c, err);
    case API_AUTH_PROXY:
        return auth_by_proxy(c, err);
    case API_AUTH_NONE:
        (void)snprintf(c->caller.owner, sizeof(c->caller.owner), "anonymous");
        return 0;
    }
    return err_set(err, ERR_INTERNAL, "unknown way of authorisation");
}

int
api_authorise(struct api_call *c, struct err *err)
{
    memset(&c->caller, 0, sizeof(c->caller));
    if (c->route->scope == SCOPE_PUBLIC)
        return 0;
    if (auth_caller(c, err) < 0)
        return -1;
    if (c->route->scope == SCOPE_ADMIN && !c->caller.admin)
        return err_slug(err, ERR_DENIED, "forbidden", "this needs a key with the scope admin");
    if (c->route->scope == SCOPE_EXECUTE && c->caller.read_only)
        return err_slug(err, ERR_DENIED, "forbidden",
                        "this key may only read; this needs the scope execute");
    return 0;
}
